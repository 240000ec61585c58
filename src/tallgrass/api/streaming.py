"""Long answers, sent line by line, so that memory does not grow with them.

A stream holds a database connection for as long as it is read. So each stream has a connection of
its own, and only a few streams are served at once.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tallgrass.api.service import Service
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.errors import TransientError

MEDIA_TYPE: Final = "application/jsonl"
#: Streams at a time.
STREAMS_MAX: Final = 2
#: Bytes sent together.
_PIECE = 1 << 16
_PLACES = threading.BoundedSemaphore(STREAMS_MAX)

LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One JSON document a line.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}


class Lines(StreamingResponse):
    """Lines that are read while they are sent; however that ends, connection and slot are freed."""

    def __init__(
        self, stores: Stores, making: Callable[[Stores], Iterator[bytes]], name: str
    ) -> None:
        self._lines = making(stores)
        super().__init__(
            _pieces(self._lines),
            media_type=MEDIA_TYPE,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )
        self._stores = stores

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all lines, or as many as the client takes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Where the client went away, the reading is not at its end: it ends before its stores.
            if isinstance(self._lines, Generator):
                self._lines.close()
            self._stores.close()
            _PLACES.release()


def lines_from_stores(
    here: Service, making: Callable[[Stores], Iterator[bytes]], name: str
) -> Lines:
    """Answer with lines; too many who ask for such at a time are told to wait."""
    if not _PLACES.acquire(blocking=False):
        raise TransientError("as many exports run as are served at a time", code="server_busy")
    try:
        stores = open_current_stores(here.config, read_only=True)
        return Lines(stores, making, name)
    except BaseException:
        _PLACES.release()
        raise


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines, some together."""
    waiting = bytearray()
    for line in lines:
        waiting += line
        if len(waiting) >= _PIECE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
