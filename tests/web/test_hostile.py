"""Hostile input: whatever is asked, the API answers, and never with an error of its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallgrass.bootstrap.catalog import open_api
from tallgrass.errors import DatabaseUnreachable
from tests.support.backends import prepare
from tests.support.catalog import write_catalog
from tests.web.scene import BY_ID, ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


NAMES = st.sampled_from(
    ["bbox", "collections", "datetime", "fields", "ids", "intersects", "limit", "sortby", "token"]
)
TEXT = st.text(max_size=40) | st.sampled_from(
    ["0,0,1,1", "1e400,0,1,1", "2026-06-01T00:00:00Z/..", "0001-01-01T00:00:00Z/..",
     "../9999-12-31T23:59:59.999999Z", "-id", "' OR 1=1 --", "%00", "id;DROP TABLE stac_items",
     '{"type":"Point","coordinates":[0,1e999]}', "999999999999999999999", "-datetime,id,collection"]
)  # fmt: skip
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "coordinates", "include", "field", "x"]), inner)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., httpx.Response]]:
    """Ask the application without a network between."""
    path: Path = tmp_path_factory.mktemp("hostile") / "ledger.db"
    backend = prepare("sqlite", f"sqlite:///{path}")
    write_catalog(backend, ITEMS)
    app, catalog = open_api(backend.config())

    def send(method: str, url: str, **options: Any) -> httpx.Response:
        async def exchange() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
                return await client.request(method, url, **options)

        return asyncio.run(exchange())

    with closing(catalog):
        yield send
    backend.close()


def check(answer: httpx.Response) -> None:
    """Either it is answered, or refused in the API's form."""
    assert answer.status_code in {200, 400, 404}, answer.text
    document = answer.json()
    if answer.status_code == 200:
        assert {item["id"] for item in document["features"]} <= BY_ID.keys()
    else:
        assert document.keys() == {"code", "description"}


@settings(max_examples=60)
@given(query=st.dictionaries(NAMES, TEXT, max_size=4))
def test_any_query_is_answered(ask: Callable[..., httpx.Response], query: dict[str, str]) -> None:
    """No value of a parameter breaks a search; surrogates and null characters included."""
    check(ask("GET", "/search", params=query))


@settings(max_examples=60)
@given(body=st.dictionaries(NAMES, VALUES, max_size=4) | VALUES)
def test_any_body_is_answered(ask: Callable[..., httpx.Response], body: Any) -> None:
    """No JSON value breaks a search, numbers that are none included."""
    text = json.dumps(body).encode()
    check(ask("POST", "/search", content=text, headers={"Content-Type": "application/json"}))


@settings(max_examples=30)
@given(name=st.text(min_size=1, max_size=30))
def test_any_name_is_answered(ask: Callable[..., httpx.Response], name: str) -> None:
    """An id that nobody has is not found, whatever its characters."""
    answer = ask("GET", httpx.URL("http://api/collections/hrrr/items/").join(f"./{name!r}"))
    assert answer.status_code in {400, 404}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b'{"limit":1}x', b'{"bbox":[NaN,0,1,1]}', b"[" * 100_000],
    ids=["empty", "half", "no text", "rubbish behind", "no number", "deep"],
)
def test_bodies_that_are_no_json_are_refused(
    ask: Callable[..., httpx.Response], content: bytes
) -> None:
    """They are refused as any other bad request."""
    answer = ask("POST", "/search", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_a_body_that_is_too_large_is_not_read(ask: Callable[..., httpx.Response]) -> None:
    """It is refused after its first million bytes, whatever it says of its length."""
    answer = ask("POST", "/search", json={"ids": ["x" * 1000] * 1500})
    assert (answer.status_code, answer.json()["code"]) == (413, "invalid_input")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(ask: Callable[..., httpx.Response], method: str) -> None:
    """The API only reads."""
    answer = ask(method, "/collections/hrrr/items/hrrr-1", json={})
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert ask("GET", "/collections/hrrr/items/hrrr-1").status_code == 200


def test_a_database_that_is_away_is_told(
    ask: Callable[..., httpx.Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the server's trouble, for now: 503 with the code, and no address of the database."""

    def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnreachable("no server")

    monkeypatch.setattr("tallgrass.storage.catalog_reader.CatalogReader.page", away)
    answer = ask("GET", "/search")
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unreachable")


def test_what_nobody_expected_is_answered_without_details(
    ask: Callable[..., httpx.Response],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the details; the answer has none."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("tallgrass.storage.catalog_reader.CatalogReader.page", broken)
    answer = ask("GET", "/search")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"content": b'{"limit": 1}'}, "body: must be a JSON object, sent as application/json"),
        ({"json": []}, "body: must be a JSON object, sent as application/json"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, "body: not JSON: "),
        ({"json": {"limit": 0}}, "limit: Input should be greater than 0"),
    ],
    ids=["no content type", "a list", "no JSON", "a member"],
)
def test_a_refused_body_is_told_with_what_is_wrong_and_where(
    ask: Callable[..., httpx.Response], sent: dict[str, Any], said: str
) -> None:
    """Neither an empty name of a member nor words of the library stand before it."""
    answer = ask("POST", "/search", **sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert answer.json()["description"].startswith(said)
