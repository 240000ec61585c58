"""Lives of plain files: of the file sink, of exports, of archives, of anchors and of nodes."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.audit_anchors import append_anchor, read_anchors
from tallgrass.cli.whole_files import appearing_folder, appearing_whole
from tallgrass.errors import TallgrassError
from tallgrass.governance.audit import Anchor
from tallgrass.sinks.file import DEFAULT_PATH, open_file
from tallgrass.sinks.protocol import Delivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.storage.archives import ArchiveFolder
from tests.io_faults.faulty_os import OsScript, playing
from tests.io_faults.lives import Life, Tally, judge
from tests.sinks.receiver import event
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from tests.io_faults.faulty_vfs import How
    from tests.io_faults.lives import State, Step


#: As somebody else's operation, which no script lets fail.
_RENAME = os.rename


class NotDone(Exception):
    """A step that told its caller, in an answer, that it was not done."""


def _nothing(_folder: Path) -> None:
    """Begin in an empty folder."""


def _files(folder: Path) -> State:
    """Return all files that have a name of their own: half-written ones begin with a dot."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


@contextlib.contextmanager
def _sink(folder: Path) -> Iterator[list[Step]]:
    """Deliver two batches, then two more after the file was moved away."""
    sink = open_file({}, SinkResources(folder=folder))

    def send(first: int) -> None:
        answers = sink.send([event(first), event(first + 1)])
        if answers != [Delivered(), Delivered()]:
            raise NotDone

    def move_away() -> None:
        _RENAME(folder / DEFAULT_PATH, folder / "moved.jsonl")

    yield [lambda: send(1), lambda: send(3), move_away, lambda: send(5)]


def _delivered(folder: Path) -> State:
    """Return the whole events of each file in their order; a torn line counts for nothing."""
    found: State = {}
    for path in sorted(folder.glob("*.jsonl")):
        events = []
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):
                events.append(json.loads(line)["id"])
        if events:
            found[path.name] = events
    return found


def _partly_delivered(old: State, found: State, new: State) -> bool:
    """Whether a batch is there in part: none of it was reported, so all of it comes again."""
    return all(
        found.get(name, [])[: len(old.get(name, []))] == old.get(name, [])
        and new.get(name, [])[: len(found.get(name, []))] == found.get(name, [])
        for name in {*old, *found, *new}
    )


@contextlib.contextmanager
def _export(folder: Path) -> Iterator[list[Step]]:
    """Write a file, write it again, and a folder twice."""

    def write_file(content: bytes) -> None:
        with appearing_whole(folder / "catalog.json") as file:
            file.write(content)
            file.write(b"the end")

    def write_folder(content: bytes) -> None:
        with appearing_folder(folder / "export", replace=lambda _path: True) as half:
            for name in ("a", "b"):
                (half / name).write_bytes(content)

    yield [
        lambda: write_file(b"x" * 20_000),
        lambda: write_file(b"y" * 20_000),
        lambda: write_folder(b"first"),
        lambda: write_folder(b"second"),
    ]


@contextlib.contextmanager
def _archive(folder: Path) -> Iterator[list[Step]]:
    """Write two archives."""
    place = ArchiveFolder(folder / "archive")

    def put(content: bytes) -> None:
        def write(file: BinaryIO) -> None:
            file.write(content)

        name, _, length = place.put(write, lambda digest: f"{digest[:8]}.ndjson")
        with place.open(name) as file:
            assert (file.read(), length) == (content, len(content))

    yield [lambda: put(b"a" * 30_000), lambda: put(b"b" * 30_000)]


@contextlib.contextmanager
def _anchors(folder: Path) -> Iterator[list[Step]]:
    """Keep the heads of an audit chain, one after the other."""
    path, sealed_at = folder / "anchors.jsonl", ManualClock()()

    def append(position: int) -> None:
        append_anchor(path, Anchor(position=position, chain_hash=f"{position:064}"), sealed_at)

    yield [lambda: append(1), lambda: append(2), lambda: append(3)]


def _heads(folder: Path) -> State:
    """Return what a reader of the file gets; no head where nothing was written."""
    path = folder / "anchors.jsonl"
    return {"heads": read_anchors(path)} if path.exists() and path.stat().st_size else {}


FILE_LIVES = {
    life.name: life
    for life in (
        Life(
            name="file sink",
            prepare=_nothing,
            steps=_sink,
            state=_delivered,
            between=_partly_delivered,
        ),
        Life(name="exports", prepare=_nothing, steps=_export, state=_files),
        Life(name="archives", prepare=_nothing, steps=_archive, state=_files),
        Life(name="anchors", prepare=_nothing, steps=_anchors, state=_heads),
    )
}


def undisturbed(life: Life, folder: Path) -> list[State]:
    """Return the states of a life that nothing disturbs."""
    folder.mkdir()
    life.prepare(folder)
    states = [life.state(folder)]
    with life.steps(folder) as steps:
        for step in steps:
            step()
            states.append(life.state(folder))
    return states


def every_file_point(life: Life, root: Path, hows: Iterable[How]) -> Tally:
    """Let each file operation of a life fail in turn; then it must go on from where it was."""
    states, tally = undisturbed(life, root / "undisturbed"), Tally()
    for how in hows:
        number = 0
        while True:
            folder = root / f"{how.value}-{number}"
            script = OsScript(fails_at=number, how=how)
            wrong = _play(life, folder, states, script)
            if script.struck is None:
                break
            place = f"{life.name}, {how.value} operation {number} ({script.struck})"
            tally.points[f"{script.struck} {how.value}"] += 1
            tally.violations += [f"{place}: {text}" for text in wrong]
            number += 1
    return tally


def _play(life: Life, folder: Path, states: list[State], script: OsScript) -> list[str]:
    folder.mkdir()
    life.prepare(folder)
    found: list[str] = []
    with life.steps(folder) as steps:
        reported = 0
        with playing(script):
            try:
                for step in steps:
                    step()
                    reported += 1
            except (TallgrassError, OSError, NotDone):
                pass
        wrong = judge(life, states, reported, life.state(folder))
        if wrong is not None:
            found.append(wrong)
        for step in steps[reported:]:
            step()
        last = life.state(folder)
        if {name: _each_once(content) for name, content in last.items()} != states[-1]:
            found.append("tried again without a fault, it does not come to its end")
    return found


def _each_once(content: Any) -> Any:
    """Return the events of a file without those that came again; of others what they hold."""
    return list(dict.fromkeys(content)) if isinstance(content, list) else content
