from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.sinks.cloud_event import cloud_event
from tallgrass.sinks.file import DEFAULT_PATH, FileSink, open_file
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.resources import SinkResources
from tests.sinks.receiver import EVENT, PAYLOAD, event
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

WRITER = """
import sys
from tallgrass.sinks.registry import open_sink
from tests.sinks.receiver import event
first, path = int(sys.argv[1]), sys.argv[2]
sink = open_sink("file", {"path": path})
print("ready", flush=True)
sys.stdin.readline()
payload = b'{"n":"%s"}' % (b"x" * 5000)
for number in range(first, first + 100, 4):
    sink.send([event(each, payload=payload) for each in range(number, number + 4)])
"""


def open_at(folder: Path, **resources: Any) -> FileSink:
    """Open the default file of a folder."""
    return open_file({}, SinkResources(folder=folder, **resources))


def lines_of(folder: Path) -> list[bytes]:
    """Return the lines of the default file."""
    return (folder / DEFAULT_PATH).read_bytes().splitlines(keepends=True)


@pytest.mark.conformance("OB-2.4")
def test_each_event_is_a_line_with_its_payload_as_stored(tmp_path: Path) -> None:
    """Batches follow each other; the payload's bytes are in the line."""
    sink = open_at(tmp_path)
    assert sink.send([EVENT, event(2)]) == [Delivered(), Delivered()]
    assert sink.send([event(3)]) == [Delivered()]
    sink.close()
    expected = [cloud_event(each) + b"\n" for each in (EVENT, event(2), event(3))]
    assert lines_of(tmp_path) == expected
    assert all(line.endswith(b'"data":' + PAYLOAD + b"}\n") for line in expected)


def test_a_path_is_relative_to_the_folder_of_the_database(tmp_path: Path) -> None:
    """An absolute one is taken as it is."""
    resources = SinkResources(folder=tmp_path / "a")
    (tmp_path / "a").mkdir()
    open_file({"path": "x.jsonl"}, resources).send([EVENT])
    open_file({"path": str(tmp_path / "y.jsonl")}, resources).send([EVENT])
    assert (tmp_path / "a" / "x.jsonl").exists()
    assert (tmp_path / "y.jsonl").exists()


def test_lines_of_several_processes_are_never_mixed(tmp_path: Path) -> None:
    """Four writers, a hundred events each: 400 whole lines, each event once."""
    path = tmp_path / "shared.jsonl"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number * 1000), str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=120)
        assert writer.returncode == 0
    ids = [json.loads(line)["id"][-4:] for line in path.read_bytes().splitlines()]
    assert sorted(ids) == sorted(f"{n * 1000 + k:04d}" for n in range(4) for k in range(100))


@pytest.mark.parametrize("left", [b'{"half":', b"x", b'{"whole":1}'])
def test_a_line_that_a_crash_cut_off_stays_alone(tmp_path: Path, left: bytes) -> None:
    """What was there is kept, and the next event begins on a line of its own."""
    (tmp_path / DEFAULT_PATH).write_bytes(b'{"first":1}\n' + left)
    assert open_at(tmp_path).send([EVENT]) == [Delivered()]
    assert lines_of(tmp_path) == [b'{"first":1}\n', left + b"\n", cloud_event(EVENT) + b"\n"]


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    """As tools that rotate logs do."""
    sink = open_at(tmp_path)
    sink.send([EVENT])
    (tmp_path / DEFAULT_PATH).rename(tmp_path / "old")
    sink.send([event(2)])
    assert lines_of(tmp_path) == [cloud_event(event(2)) + b"\n"]


def test_a_file_that_goes_while_its_lock_is_awaited_takes_no_lines(tmp_path: Path) -> None:
    """Whoever held it read it and removed it: the lines are in the new one."""
    path = tmp_path / DEFAULT_PATH
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def sleep(_seconds: float) -> None:
            if not held.closed:
                path.unlink()
                held.close()

        assert open_at(tmp_path, sleep=sleep).send([EVENT]) == [Delivered()]
    assert lines_of(tmp_path) == [cloud_event(EVENT) + b"\n"]


def test_lines_in_a_file_that_was_taken_away_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that locks nothing may have read the file before they were in it."""
    sync = os.fsync

    def synced_elsewhere(descriptor: int) -> None:
        sync(descriptor)
        (tmp_path / DEFAULT_PATH).rename(tmp_path / "taken")

    monkeypatch.setattr(os, "fsync", synced_elsewhere)
    [delivery] = open_at(tmp_path).send([EVENT])
    monkeypatch.undo()
    assert isinstance(delivery, Undelivered)
    assert (delivery.code, delivery.permanent) == ("sink_unreachable", False)
    assert "moved away" in delivery.message
    assert open_at(tmp_path).send([EVENT]) == [Delivered()]
    assert lines_of(tmp_path) == [cloud_event(EVENT) + b"\n"]


def test_lines_are_on_the_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that cannot keep them is told; the events are sent again later."""
    (tmp_path / DEFAULT_PATH).touch()

    def fails_for_files(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails_for_files)
    [delivery] = open_at(tmp_path).send([EVENT])
    assert isinstance(delivery, Undelivered)
    assert (delivery.code, delivery.permanent) == ("sink_unreachable", False)


def test_a_full_disk_leaves_a_line_that_is_not_mixed_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line was written: all events of the batch are undelivered, and come whole later."""
    write = os.write
    calls = []

    def fills_up(descriptor: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 1:
            return write(descriptor, bytes(data[:10]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fills_up)
    first = open_at(tmp_path).send([EVENT, event(2)])
    assert [each.code for each in first if isinstance(each, Undelivered)] == [
        "sink_unreachable",
        "sink_unreachable",
    ]
    monkeypatch.setattr(os, "write", write)
    assert open_at(tmp_path).send([EVENT]) == [Delivered()]
    assert lines_of(tmp_path) == [cloud_event(EVENT)[:10] + b"\n", cloud_event(EVENT) + b"\n"]


def test_a_lock_that_is_held_for_long_is_told(tmp_path: Path) -> None:
    """A process that hangs with the lock holds nobody for ever."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with (tmp_path / DEFAULT_PATH).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        [delivery] = open_at(tmp_path, monotonic=lambda: now[0], sleep=sleep).send([EVENT])
    assert isinstance(delivery, Undelivered)
    assert delivery.code == "sink_timeout"
    assert 5.0 <= now[0] < 6.0
    assert lines_of(tmp_path) == []


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    """The next writer goes on when the first is done."""
    waited = threading.Event()
    with (tmp_path / DEFAULT_PATH).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def sleep(_seconds: float) -> None:
            waited.set()
            fcntl.flock(held, fcntl.LOCK_UN)

        assert open_at(tmp_path, sleep=sleep).send([EVENT]) == [Delivered()]
    assert waited.is_set()


def test_a_place_that_cannot_hold_lines_is_told(tmp_path: Path) -> None:
    """No folder, a folder, a pipe: somebody must mend it."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none" / "x", tmp_path, tmp_path / "pipe", tmp_path / "x" / "y"):
        (tmp_path / "x").touch()
        [delivery] = open_file({"path": str(path)}, SinkResources()).send([EVENT])
        assert isinstance(delivery, Undelivered)
        assert delivery.code == "sink_misconfigured", path
        assert str(path) in delivery.message
