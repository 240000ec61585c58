"""Play a life of SQLite files with a fault at its n-th file operation, for every n."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tallgrass.errors import TallgrassError
from tests.io_faults.faulty_vfs import How, Script, faulty_vfs
from tests.io_faults.lives import Tally, judge

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.io_faults.lives import Life, State


class Stage:
    """A life's prepared folder, its states when nothing fails, and copies to play in."""

    def __init__(self, life: Life, folder: Path) -> None:
        self.life = life
        self._template = folder / "template"
        self._template.mkdir(parents=True)
        self._folder = folder
        life.prepare(self._template)
        self.states = self._undisturbed()

    def fresh(self, name: str = "life") -> Path:
        """Return a folder as the life finds it."""
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._template, folder)
        return folder

    def as_after_a_kill(self, folder: Path) -> Path:
        """Copy what a process that is killed now leaves: its shared memory is gone."""
        image = self._folder / "image"
        shutil.rmtree(image, ignore_errors=True)
        shutil.copytree(folder, image, ignore=shutil.ignore_patterns("*-shm"))
        return image

    def count(self) -> int:
        """Return how many file operations a life has when nothing fails."""
        folder = self.fresh()
        with faulty_vfs().playing(Script()) as script, self.life.steps(folder) as steps:
            for step in steps:
                step()
        return script.seen

    def _undisturbed(self) -> list[State]:
        folder = self.fresh()
        with self.life.steps(folder) as steps:
            states = [self.life.state(folder)]
            for step in steps:
                step()
                states.append(self.life.state(folder))
        return states


def play(stage: Stage, script: Script) -> list[str]:
    """Play a life with one fault; return what is wrong with what it left."""
    folder, found, reported = stage.fresh(), [], 0
    image: Path | None = None
    with faulty_vfs().playing(script):
        try:
            with stage.life.steps(folder) as steps:
                try:
                    for step in steps:
                        step()
                        reported += 1
                finally:
                    # Copied outside SQLite: it counts no operation.
                    image = stage.as_after_a_kill(folder)
        except TallgrassError:
            pass
        except Exception as error:  # noqa: BLE001 - what is not ours to raise is a finding
            found.append(f"raised {type(error).__name__}: {error}")
    for place, name in ((folder, "when closed"), (image, "when killed")):
        wrong = (
            None
            if place is None
            else judge(stage.life, stage.states, reported, stage.life.state(place))
        )
        if wrong is not None:
            found.append(f"{name}: {wrong}")
    return found


def every_point(
    stage: Stage, hows: Iterable[How], *, for_good: bool = False, every: int = 1
) -> Tally:
    """Let each file operation fail in turn, each way, until the life completes untouched."""
    tally = Tally()
    for how in hows:
        number = 0
        while True:
            script = Script(fails_at=number, how=how, for_good=for_good)
            wrong = play(stage, script)
            place = f"{stage.life.name}, {how.value} operation {number} ({script.struck})"
            tally.violations += [f"{place}: {text}" for text in wrong]
            if script.struck is not None:
                tally.points[f"{script.struck} {how.value}"] += 1
            elif script.seen <= number:
                break
            number += every
    return tally
