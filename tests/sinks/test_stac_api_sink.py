"""Items reach a real STAC API: stac-fastapi's Transaction extension on loopback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.canonical_json import canonical_bytes
from tallgrass.config import load_config
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.sinks.stac_api import open_stac_api
from tallgrass.stac.collections import build_collection
from tests.operators import scene
from tests.operators.scene import run_chain
from tests.sinks.receiver import PATIENCE_S, Receiver, event
from tests.sinks.stac_server import Table, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

COLLECTION, ITEM = "goes-glm", "an odd id"
UNIT = "00e6e7b5-1c00-8f3a-9c1d-5a1b2c3d4e5f"
FORMER = "the id before"
#: What the event of an item says that had another id until then.
REPLACES = {
    "collection_id": COLLECTION,
    "item_id": ITEM,
    "replaces": {"collection_id": COLLECTION, "item_id_sha256": "0" * 64},
}


def item(**changes: Any) -> bytes:
    """Return a small valid item."""
    body = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": ITEM,
        "collection": COLLECTION,
        "geometry": {"type": "Point", "coordinates": [-95.5, 38.25]},
        "bbox": [-95.5, 38.25, -95.5, 38.25],
        "properties": {"datetime": "2026-06-01T12:00:00Z", "note": "first"},
        "links": [],
        "assets": {"data": {"href": "s3://bucket/key"}},
    }
    return canonical_bytes({**body, **changes})


def collection() -> bytes:
    """Return the collection as this release writes it."""
    catalogue = open_catalogue(load_config(environment={}))
    [dataset] = [each for each in catalogue.datasets if each.id == COLLECTION]
    return build_collection(dataset)


class Api:
    """The API, and a sink that copies a catalog of one item to it."""

    def __init__(self, url: str, table: Table) -> None:
        self.url, self.table = url, table
        self.stored: bytes | None = item()
        self.collection: bytes | None = collection()
        #: Ids that the item had before.
        self.former: list[tuple[str, str]] = []

    def send(self, payload: dict[str, Any] | None = None, items: Any = None) -> Delivery:
        """Send the event of the item."""
        sink = open_stac_api(
            {"url": self.url, "timeout_s": PATIENCE_S},
            SinkResources(
                items=items or self._item,
                former_items=lambda subject: self.former if subject == UNIT else [],
                collections=lambda _name: self.collection,
                environment={"TOKEN": "canary"},
            ),
        )
        named = {"collection_id": COLLECTION, "item_id": ITEM} if payload is None else payload
        [delivery] = sink.send([event(payload=canonical_bytes(named), subject=UNIT)])
        sink.close()
        return delivery

    def _item(self, *names: str) -> bytes | None:
        return self.stored if names == (COLLECTION, ITEM) else None


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Table]]:
    """One server for all tests here."""
    table = Table()
    with serving(table) as url:
        yield url, table


@pytest.fixture
def api(served: tuple[str, Table]) -> Api:
    """The server, emptied."""
    url, table = served
    table.__init__()  # type: ignore[misc]
    return Api(url, table)


def test_an_item_and_its_collection_are_created(api: Api) -> None:
    """What the API holds afterwards is what the catalog holds."""
    assert api.send() == Delivered()
    assert api.table.writes == [("collection", COLLECTION), ("create", ITEM)]
    held = api.table.items[COLLECTION, ITEM]
    assert held["properties"]["note"] == "first"
    assert held["assets"]["data"]["href"] == "s3://bucket/key"


def test_an_event_that_comes_twice_changes_nothing(api: Api) -> None:
    """The item is replaced by itself."""
    api.send()
    before = dict(api.table.items)
    assert api.send() == Delivered()
    assert api.table.items == before
    assert api.table.writes[-1] == ("replace", ITEM)


def test_an_event_that_comes_late_brings_the_newest_item(api: Api) -> None:
    """It is the catalog that tells what is sent, not the event."""
    api.send()
    properties = {"datetime": "2026-06-01T12:00:00Z", "note": "second"}
    api.stored = item(properties=properties)
    assert api.send() == Delivered()
    assert api.table.items[COLLECTION, ITEM]["properties"]["note"] == "second"


def test_a_write_that_was_slow_on_its_way_leaves_no_old_item(api: Api) -> None:
    """Between reading and writing, the next revision and its event passed: it is what remains."""
    api.send()
    second = item(properties={"datetime": "2026-06-01T12:00:00Z", "note": "second"})
    reads: list[bytes | None] = []

    def read(*_: str) -> bytes | None:
        reads.append(api.stored)
        if len(reads) == 1:
            api.stored = second
            assert api.send() == Delivered()
        return reads[-1] if len(reads) == 1 else api.stored

    assert api.send(items=read) == Delivered()
    assert api.table.items[COLLECTION, ITEM]["properties"]["note"] == "second"
    # That of the next event, the slow one, and what mends it.
    assert api.table.writes[-3:] == [("replace", ITEM)] * 3


class TestAnItemThatGotAnotherId:
    """The API holds it under the id that it has now, whatever comes when."""

    @pytest.fixture
    def renamed(self, api: Api) -> Api:
        """The API with the item under its former id, which the catalog no longer has."""
        api.stored = None
        body = item(id=FORMER)
        sent = api.send({"collection_id": COLLECTION, "item_id": FORMER}, lambda *_: body)
        assert sent == Delivered()
        assert set(api.table.items) == {(COLLECTION, FORMER)}
        api.stored, api.former = item(), [(COLLECTION, FORMER)]
        api.table.writes.clear()
        return api

    def test_the_new_one_comes_and_the_former_goes(self, renamed: Api) -> None:
        """In this order: a reader misses it at no moment. Again, nothing changes."""
        assert renamed.send(REPLACES) == Delivered()
        assert renamed.table.writes == [("create", ITEM), ("delete", FORMER)]
        assert renamed.send(REPLACES) == Delivered()
        assert set(renamed.table.items) == {(COLLECTION, ITEM)}

    def test_a_late_event_of_the_former_id_deletes_it(self, renamed: Api) -> None:
        """It is no failure: what it tells of is to be gone."""
        assert renamed.send({"collection_id": COLLECTION, "item_id": FORMER}) == Delivered()
        assert renamed.table.writes == [("delete", FORMER)]

    def test_a_write_that_was_slow_on_its_way_is_undone(self, renamed: Api) -> None:
        """Read before the change of the id, written after its event had passed."""
        reads: list[bytes | None] = []

        def read(*_: str) -> bytes | None:
            reads.append(None if reads else item(id=FORMER))
            if len(reads) == 1:
                assert renamed.send(REPLACES) == Delivered()
            return reads[-1]

        slow = renamed.send({"collection_id": COLLECTION, "item_id": FORMER}, read)
        assert slow == Delivered()
        assert set(renamed.table.items) == {(COLLECTION, ITEM)}

    def test_an_id_that_came_back_meanwhile_is_not_lost(self, renamed: Api) -> None:
        """The deletion of a former id that is in force again is mended by the same event."""
        again, reads = item(id=FORMER), 0

        def read(_collection: str, name: str) -> bytes | None:
            nonlocal reads
            reads += name == FORMER
            return (again if reads else None) if name == FORMER else item()

        assert renamed.send(REPLACES, read) == Delivered()
        assert (COLLECTION, FORMER) in renamed.table.items

    def test_a_deletion_that_fails_is_tried_again(self, renamed: Api) -> None:
        """The exact place would stay there otherwise."""
        renamed.table.is_busy = True
        delivery = renamed.send(REPLACES)
        assert isinstance(delivery, Undelivered)
        assert not delivery.permanent
        renamed.table.is_busy = False
        assert renamed.send(REPLACES) == Delivered()
        assert set(renamed.table.items) == {(COLLECTION, ITEM)}


def test_an_item_that_never_rests_is_tried_again_later(api: Api) -> None:
    """Nobody can tell whether the last write is the newest; the attempt ends all the same."""
    api.send()
    notes = iter(range(100))

    def read(*_: str) -> bytes:
        properties = {"datetime": "2026-06-01T12:00:00Z", "note": str(next(notes))}
        return item(properties=properties)

    result = api.send(items=read)
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_error", False)
    assert api.table.writes[2:] == [("replace", ITEM)] * 5


def test_an_item_that_the_chain_made_passes_the_api_s_checks(api: Api) -> None:
    """A real item, with all its extensions, is accepted."""
    make, key = scene.MATCHES[next(iter(scene.MATCHES))]
    match = make()
    result = run_chain(scene.claim(match, key), match, scene.evidence(), None, scene.context())
    made = result.effects.item
    assert made is not None
    [sent] = result.effects.events
    sink = open_stac_api(
        {"url": api.url, "timeout_s": PATIENCE_S},
        SinkResources(items=lambda *_: made.body, collections=lambda _: None),
    )
    api.table.collections[made.collection_id] = {}
    [delivery] = sink.send([event(payload=sent.payload)])
    sink.close()
    assert delivery == Delivered()
    held = api.table.items[made.collection_id, made.item_id]
    # The API writes instants in its own way.
    sent_properties = json.loads(made.body.replace(b".000000Z", b"Z"))["properties"]
    assert held["properties"] == sent_properties


def test_a_missing_collection_that_the_catalog_lacks_too_is_told(api: Api) -> None:
    """Nothing is written."""
    api.collection = None
    result = api.send()
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_refused", True)
    assert api.table.writes == []


def test_an_item_that_the_catalog_does_not_have_is_told(api: Api) -> None:
    """There is nothing to send."""
    api.stored = None
    result = api.send()
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_refused", True)


@pytest.mark.parametrize("payload", [{}, {"collection_id": "c", "item_id": 7}, {"item_id": "x"}])
def test_an_event_that_names_no_item_is_misrouted(api: Api, payload: dict[str, Any]) -> None:
    """The message says what to route here."""
    result = api.send(payload)
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent) == ("sink_misconfigured", True)
    assert "route only nodd.item.*" in result.message


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (json.loads(item()), Delivered(duplicate=True)),
        (
            {**json.loads(item()), "links": [{"rel": "self", "href": "x"}]},
            Delivered(duplicate=True),
        ),
        (json.loads(item(bbox=[0, 0, 0, 0])), None),
        ([], None),
    ],
    ids=["the same", "other links", "another item", "no item"],
)
def test_a_conflict_is_a_duplicate_if_the_api_has_the_item(shown: Any, expected: Any) -> None:
    """Somebody else created it between two requests; if it differs, it is tried again."""
    conflict: Any = (409, {}, b"")
    with Receiver([(404, {}, b""), conflict, (200, {}, json.dumps(shown).encode())]) as receiver:
        result = Api(receiver.url, Table()).send()
    assert [request.method for request in receiver.requests] == ["PUT", "POST", "GET"]
    if expected is not None:
        assert result == expected
    else:
        assert isinstance(result, Undelivered)
        assert (result.code, result.permanent) == ("sink_refused", False)


def test_names_are_quoted_and_a_token_is_sent() -> None:
    """A slash in an id stays in the id; paths are below the landing page."""
    with Receiver((200, {}, b"{}")) as receiver:
        sink = open_stac_api(
            {"url": f"{receiver.url}/stac/", "timeout_s": PATIENCE_S, "token_env": "TOKEN"},
            SinkResources(items=lambda *_: item(), environment={"TOKEN": "canary"}),
        )
        [result] = sink.send([event(payload=b'{"collection_id":"c","item_id":"a/b ?"}')])
        sink.close()
    assert result == Delivered()
    [request] = receiver.requests
    assert request.path == "/stac/collections/c/items/a%2Fb%20%3F"
    assert request.headers["authorization"] == "Bearer canary"
    assert request.body == item()


def test_all_requests_of_an_event_share_one_time_limit() -> None:
    """An API that answers each request late does not hold an event for longer than one."""
    now = [0.0]

    def later(handler: Any) -> None:
        now[0] += 4.0
        handler.send_response(404)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with Receiver(later) as receiver:
        api = Api(receiver.url, Table())
        sink = open_stac_api(
            {"url": api.url, "timeout_s": 5.0},
            SinkResources(
                items=lambda *_: item(),
                collections=lambda _: collection(),
                monotonic=lambda: now[0],
            ),
        )
        [result] = sink.send([event(payload=b'{"collection_id":"c","item_id":"i"}')])
        sink.close()
    assert isinstance(result, Undelivered)
    assert result.code == "sink_timeout"
    assert len(receiver.requests) == 2
