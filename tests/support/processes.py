"""Start and steer workers that are real processes: stop, continue and kill them like those in use.

What runs in them stands in `process_roles.py`. A child prints one JSON object a line and waits for
a line of input wherever the test wants to act.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
#: Long enough for a busy machine; only a child that died makes anyone wait for it.
MEETING_S_MAX = 120


def _command(role: str, arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.support.process_roles", role, json.dumps(arguments)]


class Child:
    """A child process that plays a role, steered by its announcements."""

    def __init__(self, role: str, **arguments: Any) -> None:
        self._process = subprocess.Popen(
            _command(role, arguments),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]

    def hear(self) -> dict[str, Any]:
        """Wait for the next announcement."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        assert line, f"the child ended with {self._process.wait()} before it said so"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def go_on(self) -> None:
        """Let the child take its next step."""
        self._process.stdin.write("\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]

    def stop(self) -> None:
        """Freeze the child where it is; return when it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen child go on as if nothing had happened."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the child with SIGKILL; it gets no chance to tidy up."""
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """Wait for the child's own end; return its exit code (negative: the signal)."""
        return self._process.wait(timeout=MEETING_S_MAX)


def play(role: str, **arguments: Any) -> None:
    """Run a role to its end; it must end well."""
    done = subprocess.run(
        _command(role, arguments), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return what the processes of a crowd wrote down, in no order."""
    lines = [
        line for part in path.glob("*.jsonl") for line in part.read_text(encoding="utf-8").split()
    ]
    return [json.loads(line) for line in lines]
