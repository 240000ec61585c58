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
from tests.corpora.reading import cases
from tests.support.backends import prepare
from tests.support.catalog import write_catalog
from tests.web.scene import BY_ID, ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


NAMES = st.sampled_from(
    ["bbox", "collections", "datetime", "fields", "ids", "intersects", "limit", "sortby", "token"]
)
QUERIES = cases("read_api_requests.toml", "query")
BODIES = cases("read_api_requests.toml", "body")
TEXT = st.text(max_size=40) | st.sampled_from([case["value"] for case in QUERIES])
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


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: f"{case['name']}={case['value']}")
def test_each_query_of_the_corpus_has_its_answer(
    ask: Callable[..., httpx.Response], case: dict[str, Any]
) -> None:
    """Refused or answered as the file says; what names nothing finds nothing."""
    answer = ask("GET", "/search", params={case["name"]: case["value"]})
    check(answer)
    assert answer.status_code == case["status"], answer.text
    if "items" in case:
        assert len(answer.json()["features"]) == case["items"]


@pytest.mark.parametrize("case", BODIES, ids=lambda case: case["what"])
def test_each_body_of_the_corpus_is_refused_with_what_is_wrong(
    ask: Callable[..., httpx.Response], case: dict[str, Any]
) -> None:
    """Neither an empty name of a member nor words of the library stand before it."""
    content = case["bytes"].encode("latin-1") * case.get("times", 1)
    claimed = case.get("media_type", "application/json")
    headers = {"Content-Type": claimed} if claimed else {}
    answer = ask("POST", "/search", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (case["status"], "invalid_input")
    assert answer.json()["description"].startswith(case["says"])


@pytest.mark.parametrize(
    "case", cases("read_api_requests.toml", "method"), ids=lambda case: case["method"]
)
def test_nothing_can_be_written(ask: Callable[..., httpx.Response], case: dict[str, Any]) -> None:
    """The API only reads."""
    answer = ask(case["method"], case["path"], json={})
    assert answer.status_code == case["status"]
    assert "GET" in answer.headers["allow"]
    assert ask("GET", case["path"]).status_code == 200


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
