"""A bucket of GOES-GLM objects that answers listings alone: a process of its own, loopback only.

Objects are computed from their number, one every 20 seconds, so that a million need no memory.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "noaa-goes19"
PREFIX = "GLM-L2-LCFA/"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = timedelta(seconds=20)
PAGE_SIZE = 1000
SIZE = 384_512


def start_of(number: int) -> datetime:
    """Return when the data of an object start."""
    return FIRST + number * EVERY


def key_of(number: int) -> str:
    """Return an object's key; numbers and keys are in the same order."""
    start = start_of(number)
    end = start + EVERY
    return (
        f"{PREFIX}{start:%Y/%j/%H}/OR_GLM-L2-LCFA_G19_s{start:%Y%j%H%M%S}0"
        f"_e{end:%Y%j%H%M%S}0_c{end:%Y%j%H%M%S}9.nc"
    )


def etag_of(number: int) -> str:
    """Return an object's etag."""
    return md5(str(number).encode(), usedforsecurity=False).hexdigest()


@contextmanager
def serving(objects: int) -> Iterator[str]:
    """Serve the bucket from another process; yield its address."""
    with Popen([sys.executable, "-m", "bench.bucket", str(objects)], stdout=PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects = 0

    def do_GET(self) -> None:
        """Answer a listing: a page from the token on."""
        asked = parse_qs(urlsplit(self.path).query)
        begin = int(asked.get("continuation-token", ["0"])[0])
        wanted = urlsplit(self.path).path.strip("/") == BUCKET
        body = _page(begin, self.objects if wanted else 0)
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _page(begin: int, objects: int) -> bytes:
    end = min(begin + PAGE_SIZE, objects)
    contents = "".join(
        f"<Contents><Key>{key_of(number)}</Key><LastModified>2026-01-02T00:00:00.000Z"
        f"</LastModified><ETag>&quot;{etag_of(number)}&quot;</ETag><Size>{SIZE}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for number in range(begin, end)
    )
    more = end < objects
    token = f"<NextContinuationToken>{end}</NextContinuationToken>" if more else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{PREFIX}</Prefix><KeyCount>{end - begin}</KeyCount>"
        f"<MaxKeys>{PAGE_SIZE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"
        f"{token}{contents}</ListBucketResult>"
    ).encode()


if __name__ == "__main__":
    _Handler.objects = int(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
