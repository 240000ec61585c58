"""What a terminal sees: colours only where wanted, and no data that steers it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass
from tests.support.builders import unit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Clears the screen, sets the title, turns the direction of text: none may reach a terminal.
EVIL = "evil\x1b[2J\x1b]0;owned\x07\u202e[red]x[/red]"


def on_terminal(*args: str, **env: str) -> str:
    """Run a command on a terminal of its own and return all that it wrote there."""
    controller, terminal = pty.openpty()
    child = subprocess.Popen(
        [*PROGRAM, *args],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(TERM="xterm-256color", COLUMNS="120", **env),
    )
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other side is closed
        while part := os.read(controller, 65536):
            written += part
    child.wait()
    os.close(controller)
    return written.decode()


@pytest.fixture
def evil(backend: Backend) -> Backend:
    """A ledger whose dataset, queue and actor hold escape sequences."""
    stores = backend.open()
    worker = stores.leases.register(EVIL, ingest_run_id="run", lease_s=60)
    stores.ledger.record_and_claim(
        worker, [unit(0, dataset=EVIL, object_uri="s3://b/k", queue=EVIL)]
    )
    from tallgrass.governance.audit import AuditEntry  # noqa: PLC0415

    stores.audit.append([AuditEntry(actor=EVIL, action="a", subject=EVIL, reason=EVIL)])
    stores.close()
    return backend


@pytest.mark.parametrize("command", ["wal list", "wal show s3://b/k", "wal stats", "audit list"])
def test_escape_sequences_in_data_are_shown_as_text(evil: Backend, command: str) -> None:
    """Neither a pipe nor a terminal gets a control character out of the data."""
    piped = tallgrass(*command.split(), at=evil)
    assert piped.code == 0
    assert "\x1b" not in piped.out
    assert "\x07" not in piped.out
    assert "\u202e" not in piped.out
    assert r"evil\x1b[2J\x1b]0;owned\x07\u202e[red]x[/red]" in piped.out
    shown = on_terminal("--database", evil.url, *command.split())
    assert "\x1b[2J" not in shown
    assert "\x1b]0;" not in shown
    assert "\u202e" not in shown


def test_an_error_does_not_repeat_escape_sequences() -> None:
    """An argument with escapes is answered with their text."""
    done = tallgrass("explain", "x\x1b[2Jy")
    assert done.code == 2
    assert "\x1b" not in done.err


def test_colours_are_for_terminals_that_want_them(backend: Backend) -> None:
    """A terminal gets colours; a pipe, NO_COLOR and a dumb terminal get none."""
    command = ("--database", backend.url, "db", "check")
    assert "\x1b[32m" in on_terminal(*command)
    assert "\x1b" not in tallgrass(*command).out
    assert "\x1b" not in on_terminal(*command, NO_COLOR="1")
    assert "\x1b[31m" in on_terminal("explain", "nope")
    assert "\x1b" not in on_terminal("explain", "nope", NO_COLOR="1")


def test_a_terminal_sees_long_work_go_on(backend: Backend) -> None:
    """An export draws a bar on a terminal and nothing in a pipe."""
    shown = on_terminal("--database", backend.url, "wal", "export", "--file", "-")
    assert "exporting records" in shown
    assert "exporting" not in tallgrass("wal", "export", at=backend).err


@pytest.mark.parametrize("command", ["doctor --skip-network", "db check", "status"])
def test_a_folder_whose_name_is_no_text_is_told_with_escapes(tmp_path: Path, command: str) -> None:
    """Whatever bytes a path has, the answer is one JSON document."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    assert tallgrass("db", "migrate", at="sqlite:///tallgrass.db", cwd=folder, fresh=True).code == 0
    done = tallgrass(*command.split(), "--output", "json", cwd=folder, fresh=True)
    assert "internal_error" not in done.err
    assert done.json
    assert ("\\udce9" in json.dumps(done.json)) == command.startswith("doctor")
