"""HEAD is answered as GET is, without a body: by pages, files, the API and the STAC API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tallgrass.web.heads import Heads
from tests.support.console import console_process

if TYPE_CHECKING:
    from tests.support.backends import Backend
    from tests.support.console import Console

on_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

TOLD = ("allow", "cache-control", "content-type", "etag", "location")
#: What is the same each time it is asked for; a page says how long it took.
STEADY = ("/api/", "/stac/", "/static/")


@on_sqlite
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/governance", 200),
        ("/sign-in", 200),
        ("/static/console.css", 200),
        ("/static/nope.css", 404),
        ("/nope", 404),
        ("/api/v1/records", 200),
        ("/api/v1/records?limit=x", 422),
        ("/api/v1/records/nope", 400),
        ("/api/v1/codes", 200),
        ("/api/v1/openapi.json", 200),
        ("/stac/", 200),
        ("/stac/collections", 200),
        ("/stac/search?limit=1", 200),
        ("/stac/collections/nope", 404),
        ("/api/v1/backfill", 405),
    ],
)
def test_it_is_answered_like_get(console: Console, path: str, status: int) -> None:
    """The same status and headers, the length of what GET would send, and nothing after them."""
    browser = console.browser_of()
    told, asked = browser.get(path), browser.head(path)
    assert (asked.status_code, asked.content) == (status, b"")
    assert told.status_code == status
    assert {name: asked.headers.get(name) for name in TOLD} == {
        name: told.headers.get(name) for name in TOLD
    }
    length = int(asked.headers["content-length"])
    assert length == len(told.content) if path.startswith(STEADY) else length > 0


@on_sqlite
def test_it_needs_what_get_needs(console: Console, people: object) -> None:
    """Who is not signed in is refused, and who has the document is told so."""
    assert console.client().head("/api/v1/records").status_code == 401
    assert console.client().head("/stac/").status_code == 401
    reader = console.program("vera")
    tag = reader.get("/api/v1/codes").headers["etag"]
    assert reader.head("/api/v1/codes", headers={"If-None-Match": tag}).status_code == 304


@on_sqlite
def test_a_link_is_not_used_up_by_it(console: Console) -> None:
    """Programs that look at links ask so: whoever was sent the link still signs in by it."""
    link = console.service.sessions.make_link(None)
    looked = console.client().head("/sign-in", params={"link": link})
    assert (looked.status_code, looked.headers.get("set-cookie")) == (401, None)
    assert console.client().get("/sign-in", params={"link": link}).status_code == 303


@on_sqlite
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v1/status", {"GET", "HEAD"}),
        ("/api/v1/backfill", {"POST"}),
        ("/stac/collections", {"GET", "HEAD"}),
    ],
)
def test_a_refused_method_names_it_beside_get(
    console: Console, people: object, path: str, allowed: set[str]
) -> None:
    """What is only written to stays closed to it."""
    answer = console.program("otto").delete(path)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


@on_sqlite
@pytest.mark.parametrize("path", ["/api/v1/openapi.json", "/stac/api"])
def test_it_is_no_operation_of_its_own(console: Console, path: str) -> None:
    """A description has each operation once, under an id of its own."""
    paths = console.browser_of().get(path).json()["paths"]
    operations = [(method, each) for methods in paths.values() for method, each in methods.items()]
    assert {"get"} <= {method for method, _ in operations} <= {"get", "post", "put", "patch"}
    ids = [each["operationId"] for _, each in operations]
    assert len(ids) == len(set(ids))


@on_sqlite
def test_streams_end_before_they_begin(console: Console) -> None:
    """Live figures have no end, and of an export only few run at once: neither is held."""
    browser = console.browser_of()
    for path in ("/api/v1/events", "/api/v1/ledger/export"):
        for _ in range(5):
            answer = browser.head(path)
            assert (answer.status_code, answer.content) == (200, b""), path
    assert browser.get("/api/v1/ledger/export").status_code == 200


@on_sqlite
def test_a_connection_goes_on_after_it(backend: Backend) -> None:
    """On a real server the next request of the connection is answered as if none was before it."""
    with console_process(backend.url) as served, httpx.Client(base_url=served.url) as client:
        assert client.get(served.link).status_code == 303
        for path in ("/api/v1/events", "/", "/api/v1/ledger/export"):
            answer = client.head(path)
            assert (answer.status_code, answer.content) == (200, b""), path
        assert client.get("/api/v1/status").status_code == 200


def test_no_byte_of_a_body_is_sent() -> None:
    """Not even to a server that would pass it on; what is no request over HTTP is left alone."""
    seen: list[Any] = []

    async def answering(scope: Any, _receive: Any, send: Any) -> None:
        seen.append(scope["type"] if scope["type"] != "http" else scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, True, False):
            await send({"type": "http.response.body", "body": b"x", "more_body": more})

    async def sending(message: Any) -> None:
        seen.append(message)

    for scope in ({"type": "http", "method": "HEAD"}, {"type": "lifespan"}):
        asyncio.run(Heads(answering)(scope, None, sending))  # type: ignore[arg-type]
    start = {"type": "http.response.start", "status": 200, "headers": []}
    end = {"type": "http.response.body", "body": b"", "more_body": False}
    assert seen[:3] == ["GET", start, end]
    assert seen[3:5] == ["lifespan", start]
    assert len(seen) == 8
