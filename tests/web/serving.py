"""`tallgrass stac serve` as a real process, and plain HTTP to it."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.cli.command import PROGRAM, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    media_type: str
    body: bytes

    @property
    def json(self) -> Any:
        """The document."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """An API that answers."""

    url: str
    process: subprocess.Popen[str]

    def get(self, path: str, **query: Any) -> Answer:
        """GET a path of the API, or a full address of it."""
        address = path if path.startswith("http") else f"{self.url}{path.lstrip('/')}"
        return ask(f"{address}?{urlencode(query)}" if query else address)

    def post(self, body: Any, path: str = "search") -> Answer:
        """POST a body of JSON."""
        return ask(f"{self.url}{path}", json.dumps(body).encode())


def ask(url: str, body: bytes | None = None) -> Answer:
    """Send a request; an error is an answer too."""
    assert url.startswith("http://127.0.0.1:")
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - checked
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return Answer(answer.status, answer.headers.get_content_type(), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers.get_content_type(), error.read())


@contextmanager
def serving(backend: Backend, *flags: str) -> Iterator[Served]:
    """Serve a catalog at a free port until the end of the block; it must end by itself, quietly."""
    process = subprocess.Popen(
        [*PROGRAM, "--database", backend.url, "stac", "serve", "--port", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line.startswith("STAC API: http://"), line or process.communicate()
        yield Served(line.split()[-1], process)
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("", "", 0)
