"""An object store on loopback that answers as a test tells it, also wrongly or never."""

from __future__ import annotations

import socketserver
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

END_S_MAX = 30


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    #: As sent, encoded.
    path: str
    headers: dict[str, str]

    def range_of(self, size: int) -> tuple[int, int]:
        """Return the first byte and the one behind the last that it asks for."""
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        return int(first), min(int(last) + 1, size)


@dataclass(frozen=True)
class Answer:
    """What to say; `hang` says no more until the store ends, `cut` ends in the middle."""

    status: int = 206
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    #: Bytes that are announced beyond those that come.
    cut: int = 0
    hang: bool = False


def part(content: bytes, request: Request, etag: str, **faults: Any) -> Answer:
    """Return the part of the content that is asked for, as S3 does."""
    first, end = request.range_of(len(content))
    headers = {
        "ETag": f'"{etag}"',
        "Content-Range": f"bytes {first}-{end - 1}/{len(content)}",
        "Last-Modified": "Mon, 01 Jun 2026 12:00:00 GMT",
    }
    cut = faults.pop("cut", 0)
    return Answer(
        body=content[first : end - cut], headers={**headers, **faults.pop("headers", {})},
        cut=cut, **faults,
    )  # fmt: skip


class _Handler(socketserver.StreamRequestHandler):
    server: OddStore

    def handle(self) -> None:
        method, path, _ = self.rfile.readline().decode().split()
        headers = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        answer = self.server.answer(Request(method, path, headers))
        if answer.status:
            length = len(answer.body) + answer.cut
            lines = [f"HTTP/1.1 {answer.status} Said", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            self.wfile.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            self.wfile.write(answer.body)
        if answer.hang:
            self.server.ended.wait(END_S_MAX)


class OddStore(socketserver.ThreadingTCPServer):
    """Answers requests, each by a call of `script` with its number (from 1) and itself."""

    allow_reuse_address = True
    daemon_threads = False

    def __init__(self, script: Callable[[int, Request], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._script = script
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, request: Request) -> Answer:
        """Ask the script."""
        with self._lock:
            self.requests.append(request)
            return self._script(len(self.requests), request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that has gone."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
