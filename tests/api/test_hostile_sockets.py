"""Hostile bytes on a real socket: smuggled lengths, odd encodings, path tricks, other methods."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import PROGRAM, environment
from tests.support.backends import Backend, prepare
from tests.support.console import Served
from tests.support.governance import set_up, state_of_tables, token_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60.0
BODY = b'{"is_on": true, "reason": "smuggled"}'
PUT = b"PUT /api/v1/switches/ingest/goes-glm HTTP/1.1\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A database of the module's own, with people."""
    folder = tmp_path_factory.mktemp("hostile")
    made = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    set_up(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(backend: Backend) -> Iterator[Served]:
    """One console for all; it may say that a request was none, and ends in good order."""
    command = [*PROGRAM, "console", "--store", backend.url, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Console: http"), process.communicate()
    yield Served(line.split()[-1], process)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in told
    assert process.returncode == 0, told


def send(served: Served, data: bytes) -> bytes:
    """Send bytes as they are, and return all that comes back until the server hangs up."""
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as opened:
        opened.sendall(data)
        # A server that hangs up with bytes unread resets the connection: what came before counts.
        with contextlib.suppress(ConnectionResetError):
            while piece := opened.recv(65_536):
                got += piece
    return got


def request(served: Served, line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    """Return a request of the operator's own program, but for what is wrong with it."""
    host = served.url.removeprefix("http://").encode()
    told = [b"Host: " + host] if not any(h.lower().startswith(b"host:") for h in headers) else []
    token = b"Authorization: Bearer " + token_of("otto").encode()
    lines = [*told, *headers, token, b"Connection: close"]
    return line + b"\r\n".join(lines) + b"\r\n\r\n" + body


LENGTH = b"Content-Length: %d" % len(BODY)
JSON = b"Content-Type: application/json"
ANY = b"If-Match: *"
GET = b"GET /api/v1/status HTTP/1.1\r\n"
#: What is sent, and the only answers that it may have.
HOSTILE: dict[str, tuple[tuple[Any, ...], set[int]]] = {
    "two lengths that differ": (
        (PUT, JSON, ANY, b"Content-Length: 5", LENGTH, BODY), {400},
    ),
    "a length and chunks": (
        (PUT, JSON, ANY, LENGTH, b"Transfer-Encoding: chunked",
         b"0\r\n\r\nGET /api/v1/switches HTTP/1.1\r\n\r\n"), {400, 422},
    ),
    "a negative length": ((PUT, JSON, ANY, b"Content-Length: -1", BODY), {400}),
    "a length with a sign": ((PUT, JSON, ANY, b"Content-Length: +5", BODY), {400}),
    "chunks of no size": (
        (PUT, JSON, ANY, b"Transfer-Encoding: chunked", b"zz\r\n" + BODY), {400},
    ),
    "an unknown coding": (
        (PUT, JSON, ANY, b"Transfer-Encoding: x-evil", BODY), {400, 422, 501},
    ),
    "a space before the colon": ((GET, b"X-Odd : 1"), {400}),
    "a NUL in a header": ((GET, b"X-Odd: a\x00b"), {400}),
    "a header over a line's end": ((GET, b"X-Odd: a\r\n b"), {200, 400}),
    "no host at all": ((b"GET /api/v1/status HTTP/1.0\r\n", b"host:"), {400, 421}),
    "an address of another host": (
        (b"GET http://evil.example/api/v1/status HTTP/1.1\r\n", b"Host: evil.example"), {400, 421},
    ),
    "CONNECT": ((b"CONNECT evil.example:443 HTTP/1.1\r\n",), {400, 404, 405}),
    "TRACE": ((b"TRACE /api/v1/status HTTP/1.1\r\n",), {400, 403, 404, 405, 415}),
    "a method of their own": ((b"EVIL /api/v1/status HTTP/1.1\r\n",), {400, 404, 405}),
    "an override of the method": (
        (b"GET /api/v1/switches/ingest/goes-glm HTTP/1.1\r\n", b"X-HTTP-Method-Override: PUT"),
        {405},
    ),
    "an override by a field": (
        (b"GET /api/v1/switches/ingest/goes-glm?_method=PUT HTTP/1.1\r\n",), {405},
    ),
    "dots in a path": ((b"GET /static/../pages.py HTTP/1.1\r\n",), {404}),
    "dots, encoded": ((b"GET /static/%2e%2e/pages.py HTTP/1.1\r\n",), {404}),
    "slashes, encoded": ((b"GET /static/..%2f..%2fapp.py HTTP/1.1\r\n",), {404}),
    "encoded twice": ((b"GET /static/%252e%252e%252fapp.py HTTP/1.1\r\n",), {404}),
    "backslashes": ((b"GET /static/..\\..\\app.py HTTP/1.1\r\n",), {400, 404}),
    "an absolute path": ((b"GET /static//etc/passwd HTTP/1.1\r\n",), {404}),
    "a NUL in a name": ((b"GET /static/console.css%00.js HTTP/1.1\r\n",), {400, 404}),
    "too long an encoding": ((b"GET /static/%c0%ae%c0%ae/app.py HTTP/1.1\r\n",), {400, 404}),
    "half a character": ((b"GET /api/v1/records?dataset=%ff%fe HTTP/1.1\r\n",), {200, 400, 422}),
    "half an escape": ((b"GET /api/v1/records?dataset=%f HTTP/1.1\r\n",), {200, 400, 422}),
    "bytes that are no request": ((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",), {400}),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_are_refused_and_change_nothing(
    what: str, served: Served, backend: Backend
) -> None:
    """One answer at most, never a 5xx, never a file; the ledger is as it was."""
    (line, *rest), allowed = HOSTILE[what]
    body = rest.pop() if rest and not _is_header(rest[-1]) else b""
    before = state_of_tables(backend)
    got = send(served, request(served, line, *rest, body=body))
    assert state_of_tables(backend) == before
    statuses = [int(each) for each in _STATUS.findall(got)]
    assert len(statuses) == 1, got[:2000]
    assert set(statuses) <= allowed, got[:600]
    assert b"import " not in got
    assert b"root:" not in got
    assert b"Traceback" not in got


def test_the_console_still_answers(served: Served) -> None:
    """None of the above has hurt it, and an honest request on a socket is answered."""
    got = send(served, request(served, GET))
    assert got.startswith(b"HTTP/1.1 200 ")


def test_a_large_header_is_not_kept_in_memory(served: Served) -> None:
    """A header without an end is refused long before it has been read."""
    got = send(served, GET + b"X-Long: " + b"a" * 100_000 + b"\r\n\r\n")
    assert [int(each) for each in _STATUS.findall(got)] in ([400], [431])


def test_exports_that_are_broken_off_free_their_place(served: Served) -> None:
    """Who asks for much and goes away keeps nobody else from asking."""
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    export = request(served, b"GET /api/v1/ledger/export HTTP/1.1\r\n")
    for _ in range(6):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as opened:
            opened.sendall(export)
    end = time.monotonic() + PATIENCE_S
    while not (got := send(served, export)).startswith(b"HTTP/1.1 200 "):
        assert time.monotonic() < end, got[:300]
        time.sleep(0.1)
    assert b"tallgrass-wal-export" in got


def _is_header(part: bytes) -> bool:
    return bool(re.match(rb"[A-Za-z-]+ ?:", part))
