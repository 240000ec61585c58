"""Starts `tallgrass` by forking a process that has loaded it: a process as any, without the wait.

Most of a short command's time is the loading of modules. One server has loaded them and forks for
each call; it is started with the first and ends with this process. It never has a second thread, so
what it forks has all that it would have after a start of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.fork_client import CONTROL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
#: What the server loads all modules of; nothing there starts a thread.
LOADED = ("tallgrass.cli", "tallgrass.storage")
#: But for this one, whose library takes longer than all else, and which hardly any command needs.
NOT_LOADED = "tallgrass.storage.pgstac_projection"
#: Variables that the interpreter, its C library or a measurement of coverage read at the start.
AT_START = ("COV", "GLIBC_", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "TZ")
#: With these the server is started, whatever a test has set meanwhile.
_ENVIRONMENT = dict(os.environ)
#: How process ids and exit codes go over a socket.
_NUMBER = struct.Struct("q")
_starting = threading.Lock()


def can_fork(env: Mapping[str, str]) -> bool:
    """Tell whether a process of this environment would be as after a start of its own."""
    given, here = (
        {name: value for name, value in each.items() if name.startswith(AT_START)}
        for each in (env, _ENVIRONMENT)
    )
    measured = any(name.startswith("COV") for name in given)
    return hasattr(os, "pidfd_open") and given == here and not measured


class Forked:
    """A `tallgrass` in a process of its own, on pipes, with the ways of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | str | None = None,
    ) -> None:
        self.returncode: int | None = None
        (stdin, entry), (out, stdout), (err, stderr) = (os.pipe() for _ in range(3))
        self.stdin = os.fdopen(entry, "wb")
        self.stdout, self.stderr = os.fdopen(out, "rb"), os.fdopen(err, "rb")
        self._server, theirs = socket.socketpair()
        with theirs, _starting:
            streams = (stdin, stdout, stderr)
            socket.send_fds(_control(), [b"."], [theirs.fileno(), *streams])
            for stream in streams:
                os.close(stream)
        order = {"arguments": arguments, "env": dict(env), "cwd": str(Path(cwd or "").absolute())}
        self._server.sendall(json.dumps(order).encode())
        self._server.shutdown(socket.SHUT_WR)
        self.pid = self._hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.wait()
        self._server.close()

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            self._server.settimeout(timeout)
            self.returncode = self._hear()
        return self.returncode

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, given: bytes, timeout: float) -> tuple[bytes, bytes]:
        """Give it its input, and return all that it says; one that takes too long is killed."""
        with ThreadPoolExecutor(3) as pool:
            pool.submit(self._feed, given)
            said = [pool.submit(pipe.read) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except BaseException:
                self.kill()
                raise
        return said[0].result(), said[1].result()

    def _feed(self, given: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), self.stdin:
            self.stdin.write(given)

    def _hear(self) -> int:
        told = self._server.recv(_NUMBER.size, socket.MSG_WAITALL)
        assert told, "the server that forks has gone"
        number: int = _NUMBER.unpack(told)[0]
        return number


def run(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout: float,
    cwd: Path | str | None = None,
    input: bytes = b"",  # noqa: A002 - as subprocess.run has it
) -> subprocess.CompletedProcess[bytes]:
    """Run a command line as `subprocess.run` would, with its output captured."""
    with Forked(arguments, env=env, cwd=cwd) as process:
        out, err = process.communicate(input, timeout)
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


@cache
def _control() -> socket.socket:
    """Start the server; return the socket on which it is asked, and with which it ends."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forking", str(theirs.fileno())],
            cwd=ROOT,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        mine.close()
        server.wait()

    atexit.register(end)
    return mine


def shell_program(folder: Path) -> tuple[dict[str, str], int]:
    """Write a `tallgrass` for shells, forked as here, into a folder.

    Return the variable that it needs, and the file that processes of the shell must inherit.
    """
    client = Path(__file__).with_name("fork_client.py")
    script = f'#!/bin/sh\nexec {sys.executable} -S -E {client} "$@"\n'
    (folder / "tallgrass").write_text(script, encoding="utf-8")
    (folder / "tallgrass").chmod(0o755)
    control = _control().fileno()
    return {CONTROL: str(control)}, control


# --- the server -----------------------------------------------------------------------------------


def serve(control: socket.socket) -> tuple[socket.socket, list[int]]:
    """Fork at each request; return in what was forked, with its caller and its streams."""
    with selectors.DefaultSelector() as events:
        events.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fileobj is not control:
                    events.unregister(key.fd)
                    _tell_end(key.fd, *key.data)
                elif forked := _fork(control, events):
                    return forked


def _fork(
    control: socket.socket, events: selectors.BaseSelector
) -> tuple[socket.socket, list[int]] | None:
    _, given, _, _ = socket.recv_fds(control, 1, 4)
    if not given:
        sys.exit()
    caller, streams = socket.socket(fileno=given[0]), given[1:]
    pid = os.fork()
    if pid == 0:
        for key in events.get_map().values():
            if key.fileobj is not control:
                os.close(key.fd)
                key.data[1].close()
        return caller, streams
    for stream in streams:
        os.close(stream)
    events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, caller))
    _tell(caller, pid)
    return None


def _tell_end(process: int, pid: int, caller: socket.socket) -> None:
    os.close(process)
    _, status = os.waitpid(pid, 0)
    with caller:
        _tell(caller, os.waitstatus_to_exitcode(status))


def _tell(caller: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # it waits for this no more
        caller.sendall(_NUMBER.pack(number))


def become(caller: socket.socket, streams: Sequence[int]) -> None:
    """Take on what a start would give: arguments, environment, folder, streams and signals."""
    with caller, caller.makefile("rb") as file:
        order: dict[str, Any] = json.load(file)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv[1:] = order["arguments"]
    sys.path[0] = order["cwd"]
    for name in ("stdin", "stdout", "stderr"):
        _open_again(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_again(name: str) -> None:
    """Let Python look at a stream anew: what it can do depends on what it leads to."""
    before = getattr(sys, name)
    stream = os.fdopen(
        before.fileno(),
        before.mode,
        buffering=1 if name == "stderr" else -1,
        encoding=before.encoding,
        errors=before.errors,
        closefd=False,
    )
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def main() -> None:
    """Load, serve, and be `python -m tallgrass` in all that is forked."""
    for package in LOADED:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            if module.name != NOT_LOADED:
                import_module(module.name)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy all of it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it comes to all: the caller acts
    with socket.socket(fileno=int(sys.argv[1])) as control:
        caller, streams = serve(control)
    become(caller, streams)
    runpy.run_module("tallgrass", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
