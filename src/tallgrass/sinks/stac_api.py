"""Keeps items of a remote STAC API up to date by its Transaction extension.

An item event names an item; what is sent is that item as the catalog has it now, so events that
come late or twice do no harm. One that was slow on its way may have undone a newer one, so the
catalog is read again after each write. PUT replaces it; where there is none POST creates it, and
where the collection is missing too that is created first. An id that its item no longer has is
deleted, whichever event tells of it: that of the item under its new id, or a late one of the old.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import orjson

from tallgrass.clock import Clock
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.address_guard import HttpUrl, read_url
from tallgrass.sinks.http import authorization, deliver, delivery_of, open_http, trace_headers
from tallgrass.sinks.http_client import Answer, HttpClient
from tallgrass.sinks.item_event import Names, names_in, replaces_another
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources

_NOT_FOUND = 404
_CONFLICT = 409
_OK = 200
#: An item that changes more often while it is sent is left to a later attempt.
_WRITES_MAX = 5
#: Of an item that the API shows for comparison.
_ITEM_BYTES_MAX = 1_048_576
#: What makes two items the same; links are the API's own.
_CONTENT = ("id", "type", "collection", "bbox", "geometry", "properties", "assets")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogBytes:
    """The catalog that is copied."""

    items: Callable[[str, str], bytes | None]
    former_items: Callable[[str], Sequence[tuple[str, str]]]
    collections: Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """What the requests of one event have in common."""

    headers: Mapping[str, str]
    ends_at: float
    #: The unit that the event is about.
    subject: str


class StacApiSink:
    """Several requests an event, all within one time limit."""

    batch_max = 1

    def __init__(
        self,
        client: HttpClient,
        catalog: CatalogBytes,
        *,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._client = client
        self._catalog = catalog
        self._headers = {"Content-Type": "application/json", **headers}
        self._clock = clock
        self._base = client.url.target.rstrip("/")

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Bring the item of each event up to date."""
        return [deliver(self._client.url, self._deliver, event) for event in events]

    def close(self) -> None:
        """Let connections go."""
        self._client.close()

    def _deliver(self, event: OutboxEvent) -> Delivery:
        names = names_in(event, "collection_id", "item_id")
        if isinstance(names, Undelivered):
            return names
        headers = {**self._headers, **trace_headers(event)}
        sending = _Sending(headers=headers, ends_at=self._client.deadline(), subject=event.subject)
        item = self._item(names)
        if item is None:
            return self._delete_former(sending, names)
        delivery = self._put_newest(names, item, sending)
        if isinstance(delivery, Undelivered) or not replaces_another(event):
            return delivery
        # Behind the new one, so that readers never miss the item.
        return self._delete_former(sending)

    def _put_newest(self, names: Names, item: bytes, sending: _Sending) -> Delivery:
        """Write the item until the catalog still has what was written."""
        for _ in range(_WRITES_MAX):
            delivery = self._put(names, item, sending)
            if isinstance(delivery, Undelivered):
                return delivery
            newest = self._item(names)
            if newest is None:  # it got another id meanwhile, and this brought the old one back
                return self._delete_former(sending)
            if newest == item:
                return delivery
            item = newest
        message = f"item {names['item_id']} changed {_WRITES_MAX} times while it was sent"
        return Undelivered(code="sink_error", message=message)

    def _delete_former(self, sending: _Sending, wanted: Names | None = None) -> Delivery:
        """Delete the ids that the unit's item no longer has; the wanted one must be among them."""
        former = self._catalog.former_items(sending.subject)
        if wanted and (wanted["collection_id"], wanted["item_id"]) not in former:
            return Undelivered(
                code="sink_refused",
                message=f"the catalog has no item {wanted['item_id']} in {wanted['collection_id']}",
                permanent=True,
            )
        for collection_id, item_id in former:
            names = {"collection_id": collection_id, "item_id": item_id}
            answer = self._ask("DELETE", self._path_of(names), None, sending)
            delivery = delivery_of(answer, self._client.url.place, self._clock)
            if answer.status != _NOT_FOUND and isinstance(delivery, Undelivered):
                return delivery
            item = self._item(names)
            if item is not None:  # it got this id again meanwhile
                return self._put_newest(names, item, sending)
        return Delivered()

    def _item(self, names: Names) -> bytes | None:
        return self._catalog.items(names["collection_id"], names["item_id"])

    def _put(self, names: Names, item: bytes, sending: _Sending) -> Delivery:
        path = self._items_of(names)
        one = self._path_of(names)
        answer = self._ask("PUT", one, item, sending)
        if answer.status == _NOT_FOUND:
            answer = self._ask("POST", path, item, sending)
        if answer.status == _NOT_FOUND and self._creates_collection(names, sending):
            answer = self._ask("POST", path, item, sending)
        if answer.status == _CONFLICT and self._has(one, item, sending):
            return Delivered(duplicate=True)
        return delivery_of(answer, self._client.url.place, self._clock)

    def _creates_collection(self, names: Names, sending: _Sending) -> bool:
        """Create the collection; tell whether it is there now."""
        body = self._catalog.collections(names["collection_id"])
        if body is None:
            return False
        status = self._ask("POST", f"{self._base}/collections", body, sending).status
        return status == _CONFLICT or status // 100 == 2  # noqa: PLR2004 - 2xx

    def _has(self, path: str, item: bytes, sending: _Sending) -> bool:
        """Tell whether the API has the item as it is."""
        shown = self._ask("GET", path, None, sending, wanted_bytes_max=_ITEM_BYTES_MAX)
        if shown.status != _OK or shown.body is None:
            return False
        try:
            theirs = orjson.loads(shown.body)
        except orjson.JSONDecodeError:
            return False
        ours = orjson.loads(item)
        return isinstance(theirs, dict) and all(
            theirs.get(name) == ours.get(name) for name in _CONTENT
        )

    def _path_of(self, names: Names) -> str:
        return f"{self._items_of(names)}/{quote(names['item_id'], safe='')}"

    def _items_of(self, names: Names) -> str:
        return f"{self._base}/collections/{quote(names['collection_id'], safe='')}/items"

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        sending: _Sending,
        wanted_bytes_max: int = 0,
    ) -> Answer:
        return self._client.ask(
            method,
            path,
            body,
            sending.headers,
            ends_at=sending.ends_at,
            wanted_bytes_max=wanted_bytes_max,
        )


def open_stac_api(settings: Mapping[str, object], resources: SinkResources) -> StacApiSink:
    """Make the sink: `url` of the landing page, and the settings of all HTTP sinks."""
    options = Options(settings, environment=resources.environment)
    url: HttpUrl = read_url(options.text("url"))
    client = open_http(options, url, resources)
    headers = authorization(options)
    options.done()
    return StacApiSink(
        client,
        CatalogBytes(
            items=resources.items,
            former_items=resources.former_items,
            collections=resources.collections,
        ),
        headers=headers,
        clock=resources.clock,
    )
