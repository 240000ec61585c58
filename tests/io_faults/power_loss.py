"""Cut the power after every file operation: what was not synced is gone, or half there.

A life is played once and each operation on its files kept. For every moment the files are made
again as a disk may hold them then: all that was synced, and of the rest nothing, or what chance
leaves, in any order and torn at any byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.io_faults.faulty_vfs import Script, faulty_vfs
from tests.io_faults.lives import Tally, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.io_faults.faulty_vfs import Done
    from tests.io_faults.sqlite_points import Stage


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All operations of a life, and after how many of them each step was reported as done."""

    log: Sequence[Done]
    reported_at: Sequence[int]
    folder: Path

    def reported(self, moment: int) -> int:
        """Return how many steps were reported before a moment."""
        return sum(at <= moment for at in self.reported_at)


def record(stage: Stage) -> Recording:
    """Play a life undisturbed."""
    folder, reported_at = stage.fresh(), []
    with faulty_vfs().playing(Script(keeps=True)) as script, stage.life.steps(folder) as steps:
        for step in steps:
            step()
            reported_at.append(script.seen)
    return Recording(log=script.log, reported_at=reported_at, folder=folder)


def disk_at(recording: Recording, moment: int, start: Path, chance: Random | None) -> None:
    """Write what the disk holds when the power fails at a moment; of the unsynced, by chance."""
    done = recording.log[:moment]
    lasting = _lasting(done)
    files = {path.name: bytearray(path.read_bytes()) for path in start.iterdir() if path.is_file()}
    for number, operation in enumerate(done):
        if number in lasting:
            _apply(files, operation, len(operation.data))
        elif chance is not None and chance.random() < 0.5:
            _apply(files, operation, chance.choice((len(operation.data), len(operation.data) // 2)))
    for name, content in files.items():
        (start / name).write_bytes(content)
    for path in start.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()


def _lasting(done: Sequence[Done]) -> set[int]:
    """Return the operations that no power cut undoes: their file, or its folder, was synced since.

    The first sync of a journal that was just opened syncs the folder too, and so makes deletions
    last: that is how SQLite's own layer for this system does it.
    """
    lasting: set[int] = set()
    waiting: dict[str, set[int]] = {}
    fresh: set[str] = set()
    for number, operation in enumerate(done):
        path = operation.path
        if operation.what == "open" and path.endswith(("-wal", "-journal")):
            fresh.add(path)
        elif operation.what == "delete":
            waiting.setdefault("", set()).add(number)
        elif operation.what == "sync":
            lasting |= waiting.pop(path, set())
            if path in fresh:
                fresh.remove(path)
                lasting |= waiting.pop("", set())
        else:
            waiting.setdefault(path, set()).add(number)
    return lasting


def _apply(files: dict[str, bytearray], operation: Done, length: int) -> None:
    name = Path(operation.path).name
    if operation.what == "delete":
        files.pop(name, None)
    elif operation.what == "write":
        content = files.setdefault(name, bytearray())
        end = operation.offset + length
        content.extend(bytes(max(0, end - len(content))))
        content[operation.offset : end] = operation.data[:length]
    elif operation.what == "truncate" and name in files:
        del files[name][operation.offset :]


def every_moment(stage: Stage, *, chances: int = 1, every: int = 1) -> Tally:
    """Cut the power after each operation in turn; what was reported must be there."""
    recording, tally = record(stage), Tally()
    for moment in range(0, len(recording.log) + 1, every):
        reported = recording.reported(moment)
        for draw in range(chances + 1):
            image = stage.fresh("power")
            disk_at(recording, moment, image, Random(f"{moment} {draw}") if draw else None)
            wrong = judge(stage.life, stage.states, reported, stage.life.state(image))
            tally.points["power cut, some unsynced kept" if draw else "power cut"] += 1
            if wrong is not None:
                place = f"{stage.life.name}, power cut after operation {moment} (draw {draw})"
                tally.violations.append(f"{place}: {wrong}")
    return tally
