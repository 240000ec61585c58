"""Buckets that answer S3's ListObjectsV2 and GetObject, and let a test break them.

Written after Amazon's reference of the call, for what no emulator offers: a listing that fails
between two pages, changes while it is read, or has moved.
"""

from __future__ import annotations

import hashlib
import socket
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.loopback import LoopbackServer

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

#: What a fault answers in place of a page: a status and a body; None breaks the connection.
Fault = Callable[[dict[str, str]], "tuple[int, bytes] | None"]

MODIFIED = "2026-06-01T12:34:56.000Z"


def refuses(status: int, code: str) -> Fault:
    """Answer with an error of S3's form."""
    body = f"<Error><Code>{code}</Code><Message>planned</Message></Error>".encode()
    return lambda _query: (status, body)


def breaks(_query: dict[str, str]) -> None:
    """Close the connection without an answer."""


@dataclass
class Bucket:
    """Keys in their order, each with its size and etag."""

    name: str
    keys: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    #: What every listing of it is answered with instead.
    fault: Fault | None = None
    #: How often it was listed.
    asked: int = 0

    def put(self, key: str, size: int = 1000, content: str = "") -> None:
        """Add an object, or overwrite it."""
        if key not in self.sizes:
            insort(self.keys, key)
        self.sizes[key] = size
        self.etags[key] = hashlib.md5((content or key).encode(), usedforsecurity=False).hexdigest()

    def put_bytes(self, key: str, content: bytes) -> None:
        """Add an object that can be read."""
        self.put(key, len(content))
        self.etags[key] = hashlib.md5(content, usedforsecurity=False).hexdigest()
        self.contents[key] = content

    def remove(self, key: str) -> None:
        """Delete an object."""
        self.keys.remove(key)
        del self.sizes[key], self.etags[key]


class ListingServer(LoopbackServer):
    """Use it as a context manager."""

    def __init__(self, *buckets: Bucket, page: int = 1000) -> None:
        super().__init__()
        self.buckets = {bucket.name: bucket for bucket in buckets}
        self.page = page
        #: The query of every request, in order.
        self.requests: list[dict[str, str]] = []
        #: By the number of the request, from 1: what is answered instead.
        self.faults: dict[int, Fault] = {}
        #: Called with the number of each request before it is answered.
        self.before: Callable[[int], object] = lambda _number: None

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer with a page of a listing, or with a fault."""
        parts = urlsplit(handler.path)
        name, _, key = parts.path.strip("/").partition("/")
        if key and not parts.query:
            self._send_object(handler, name, unquote(key))
            return
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(query)
        number = len(self.requests)
        self.before(number)
        fault = self.faults.get(number)
        bucket = self.buckets.get(name)
        if bucket is not None:
            bucket.asked += 1
            fault = fault or bucket.fault
        answer = self._page(name, query) if fault is None else fault(query)
        if answer is None:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body = answer
        handler.send_response(status)
        handler.send_header("Content-Type", "application/xml")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _send_object(self, handler: BaseHTTPRequestHandler, name: str, key: str) -> None:
        """Answer with the bytes of an object that are asked for."""
        bucket = self.buckets.get(name)
        content = None if bucket is None else bucket.contents.get(key)
        if bucket is None or content is None:
            handler.send_error(404)
            return
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        handler.send_response(206)
        handler.send_header("ETag", f'"{bucket.etags[key]}"')
        handler.send_header("Last-Modified", "Mon, 01 Jun 2026 12:34:56 GMT")
        end = int(first) + len(part) - 1
        handler.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
        handler.send_header("Content-Length", str(len(part)))
        handler.end_headers()
        handler.wfile.write(part)

    def _page(self, name: str, query: dict[str, str]) -> tuple[int, bytes]:
        bucket = self.buckets.get(name)
        if bucket is None:
            return refuses(404, "NoSuchBucket")(query)  # type: ignore[return-value]
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        first = max(bisect_left(bucket.keys, prefix), bisect_right(bucket.keys, after))
        contents: list[str] = []
        folders: list[str] = []
        last, more = "", False
        for key in bucket.keys[first:]:
            if not key.startswith(prefix):
                break
            if len(contents) + len(folders) == self.page:
                more = True
                break
            folder = _folder(key, prefix, delimiter)
            if folder is None:
                contents.append(_content(bucket, key))
            elif not folders or folders[-1] != folder:
                folders.append(folder)
            last = key
        parts = [
            "<ListBucketResult>",
            f"<Name>{name}</Name><IsTruncated>{str(more).lower()}</IsTruncated>",
            *contents,
            *(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders),
            f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" * more,
            "</ListBucketResult>",
        ]
        return 200, "".join(parts).encode()


def _folder(key: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return None if at < 0 else key[: at + 1]


def _content(bucket: Bucket, key: str) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{MODIFIED}</LastModified>"
        f'<ETag>"{bucket.etags[key]}"</ETag><Size>{bucket.sizes[key]}</Size>'
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )
