"""`tallgrass status --watch`: the page again and again, on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tallgrass.cli.watching import Pace, watch
from tallgrass.errors import DatabaseUnreachable
from tests.cli.command import PROGRAM, environment, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.errors import TransientError
    from tests.support.backends import Backend


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A queue that was never made."""
    return f"sqlite:///{tmp_path / 'none.db'}"


def test_in_a_pipe_each_look_is_one_line(filled: Backend, nowhere: str) -> None:
    """Three looks, three lines, each with the numbers of the ledger and what is not fresh."""
    asked = ("status", "--queue", nowhere, "--watch", "--every", "0.1", "--frames", "3")
    lines = tallgrass(*asked, at=filled).out.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "1 pending; 1 in_progress; 5 succeeded; 2 failed; 1 quarantined" in line
        assert "live workers 1" in line
        assert line.endswith("noaa_silent goes-glm, hrrr")


def test_as_json_each_look_is_one_document(filled: Backend, nowhere: str) -> None:
    """Each line is the whole page, with its time."""
    asked = ("status", "--queue", nowhere, "--watch", "--every", "0.1", "--frames", "2")
    lines = tallgrass(*asked, "--output", "json", at=filled).out.splitlines()
    pages = [json.loads(line) for line in lines]
    assert [page["units"] for page in pages] == [10, 10]
    assert pages[0]["at"] < pages[1]["at"]
    assert pages[0]["freshness"] == {
        "goes-glm": "noaa_silent", "hrrr": "noaa_silent", "nexrad-l2": "switched_off",
    }  # fmt: skip
    assert (pages[0]["lapsed_workers"], pages[0]["fenced_workers"]) == (0, 0)


def test_it_goes_on_until_it_is_told_to_stop(filled: Backend, nowhere: str) -> None:
    """A signal ends it in good order."""
    command = [*PROGRAM, "--database", filled.url, "status", "--queue", nowhere, "--watch"]
    with subprocess.Popen(
        [*command, "--every", "0.1"], stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            assert b"live workers 1" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(timeout=60) == 0


def test_on_a_terminal_the_page_is_drawn_anew(filled: Backend, nowhere: str) -> None:
    """The screen is cleared before each look, and shows the whole page."""
    command = [*PROGRAM, "--database", filled.url, "status", "--queue", nowhere, "--watch"]
    ours, theirs = pty.openpty()
    try:
        done = subprocess.Popen(
            [*command, "--every", "0.1", "--frames", "2"],
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=environment(TERM="xterm", COLUMNS="200"),
        )
        os.close(theirs)
        shown = read_all(ours)
        assert done.wait(timeout=60) == 0
    finally:
        os.close(ours)
    assert shown.count(b"\x1b[2J") == 2
    assert shown.count(b"Kill switches that are on") == 2


def read_all(terminal: int) -> bytes:
    """Read until whoever writes has gone."""
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # Linux says so when the last writer closes
            return shown
        if not part:
            return shown
        shown += part


def test_flags_of_watching_need_watching(filled: Backend) -> None:
    """Bad arguments end with 2, and say why."""
    for flags in (("--every", "1"), ("--frames", "1")):
        done = tallgrass("status", *flags, at=filled)
        assert done.code == 2
        assert "--watch" in done.err


def test_what_goes_down_is_told_and_looked_for_again() -> None:
    """The look that fails is a frame too; the next one shows the page again."""
    answers: list[str | Exception] = ["one", DatabaseUnreachable("gone"), "three"]
    shown: list[str] = []

    def look() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def trouble(error: TransientError) -> None:
        shown.append(error.code)

    rests: list[float] = []

    def wait(seconds: float) -> bool:
        rests.append(seconds)
        return False

    pace = Pace(every_s=7.0, frames=3, wait=wait)
    watch(look, shown.append, trouble, pace)
    assert shown == ["one", DatabaseUnreachable("").code, "three"]
    assert rests == [7.0, 7.0]


def test_what_was_never_there_is_an_error() -> None:
    """Nothing is watched that cannot be seen at the start."""

    def look() -> str:
        raise DatabaseUnreachable("gone")

    pace = Pace(every_s=1.0, frames=None, wait=lambda _seconds: False)
    with pytest.raises(DatabaseUnreachable):
        watch(look, print, print, pace)


def test_being_told_to_stop_ends_the_rest() -> None:
    """No look follows."""
    shown: list[str] = []
    pace = Pace(every_s=1.0, frames=None, wait=lambda _seconds: True)
    watch(lambda: "page", shown.append, print, pace)
    assert shown == ["page"]
