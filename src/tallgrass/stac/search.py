"""What is looked for in the catalog, in which order, and where the next page begins.

Items are read collection by collection, each from an index in order of time or id, and merged. A
page ends with a cursor, the key of its last item: the next page begins behind it, whatever was
added meanwhile.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import orjson

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.stac.place import Place

FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)

#: Sorts behind every id.
LAST_ID = "\U0010ffff"

_RANGE_PARTS = 2


class Reach(StrEnum):
    """How far an item's start and end lie from its `datetime`, at most."""

    HOUR = "hour"
    DAY = "day"
    LONG = "long"

    @property
    def span(self) -> timedelta | None:
        """The most that it can be; None for no limit."""
        return _SPANS[self]


_SPANS = {Reach.HOUR: timedelta(hours=1), Reach.DAY: timedelta(days=1), Reach.LONG: None}


def reach_of(start: datetime, instant: datetime, end: datetime) -> Reach:
    """Return the smallest reach that holds all times of an item."""
    span = max(instant - start, end - instant)
    for reach, limit in _SPANS.items():
        if limit is not None and span <= limit:
            return reach
    return Reach.LONG


class SortField(StrEnum):
    """What items can be sorted by."""

    DATETIME = "datetime"
    COLLECTION = "collection"
    ID = "id"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One field and its direction."""

    field: SortField
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.descending else '+'}{self.field}"


Order = tuple[SortKey, ...]

#: Newest first.
DEFAULT_ORDER: Order = (
    SortKey(SortField.DATETIME, descending=True),
    SortKey(SortField.ID, descending=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What an item is sorted by; ids differ, so no two keys are equal."""

    datetime: datetime
    collection: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSearch:
    """Which items are wanted; all conditions hold together, None is no condition."""

    collections: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None
    place: Place | None = None
    #: Of the range that an item spans, a part must lie between these, both included.
    since: datetime | None = None
    until: datetime | None = None
    order: Order = DEFAULT_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """One item: its key, and the bytes that are stored."""

    key: Key
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """Items in the order wanted; `last` is where the next page begins, None on the last page."""

    items: list[StoredItem]
    last: Key | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A stretch of one collection in the order wanted: what one look into an index reads."""

    collection_id: str
    #: None where items are read by id.
    reach: Reach | None
    low: datetime
    high: datetime
    #: At this time only ids behind `tie_id` are left; None where all are.
    tie_at: datetime | None = None
    tie_id: str = ""


def order_of(fields: Sequence[tuple[str, bool]]) -> Order:
    """Return the order that fields (name, descending) ask for; the id decides between equals.

    Fields behind an id change nothing, since ids differ.
    """
    keys: list[SortKey] = []
    for name, descending in fields:
        try:
            field = SortField(name.removeprefix("properties."))
        except ValueError as exc:
            known = ", ".join(SortField)
            raise InvalidInput(f"sortby: no {name!r}; sort by one of {known}") from exc
        if all(key.field is not field for key in keys):
            keys.append(SortKey(field, descending))
    if not keys:
        return DEFAULT_ORDER
    if SortField.ID not in [key.field for key in keys]:
        keys.append(SortKey(SortField.ID, keys[-1].descending))
    return tuple(keys[: [key.field for key in keys].index(SortField.ID) + 1])


def by_time(order: Order) -> bool:
    """Tell whether items of one collection are in order of time, not of id."""
    return any(key.field is SortField.DATETIME for key in order)


def is_descending(order: Order, field: SortField) -> bool:
    """Tell the direction of a field that the order has."""
    return next(key.descending for key in order if key.field is field)


def in_order(keys: Iterable[Key], order: Order) -> list[Key]:
    """Return keys in the order wanted."""
    found = list(keys)
    for part in reversed(order):  # a stable sort, from the least to the most important
        found.sort(key=lambda key: getattr(key, part.field), reverse=part.descending)
    return found


def is_behind(key: Key, last: Key, order: Order) -> bool:
    """Tell whether a key comes after another in an order."""
    for part in order:
        one, other = getattr(key, part.field), getattr(last, part.field)
        if one != other:
            return bool((one < other) if part.descending else (one > other))
    return False


def ranges(search: ItemSearch, collections: Iterable[str], last: Key | None) -> list[Range]:
    """Return what is left to read of each collection, behind the last item of the page before.

    `collections` are those that have items.
    """
    wanted = None if search.collections is None else set(search.collections)
    names = [name for name in collections if wanted is None or name in wanted]
    if by_time(search.order):
        whole = [_times(search, name, reach) for name in names for reach in Reach]
    else:
        whole = [_ids(search, name) for name in names]
    if last is None:
        return whole
    return [rest for each in whole if (rest := _rest(each, search.order, last)) is not None]


def _times(search: ItemSearch, collection_id: str, reach: Reach) -> Range:
    low, high = search.since or FIRST_INSTANT, search.until or LAST_INSTANT
    span = reach.span
    return Range(
        collection_id=collection_id,
        reach=reach,
        low=FIRST_INSTANT if span is None or low - FIRST_INSTANT < span else low - span,
        high=LAST_INSTANT if span is None or LAST_INSTANT - high < span else high + span,
        tie_id=_first_id(search.order),
    )


def _ids(search: ItemSearch, collection_id: str) -> Range:
    return Range(
        collection_id=collection_id,
        reach=None,
        low=FIRST_INSTANT,
        high=LAST_INSTANT,
        tie_id=_first_id(search.order),
    )


def _first_id(order: Order) -> str:
    return LAST_ID if is_descending(order, SortField.ID) else ""


def _last_id(order: Order) -> str:
    return "" if is_descending(order, SortField.ID) else LAST_ID


def _rest(whole: Range, order: Order, last: Key) -> Range | None:
    """Return what of a collection's stretch comes behind a key; None for nothing."""
    low, high, tie_at = whole.low, whole.high, None
    for part in order:
        if part.field is SortField.COLLECTION and whole.collection_id != last.collection:
            behind = (whole.collection_id < last.collection) is part.descending
            if tie_at is None:  # collections come one after the other
                return whole if behind else None
            return Range(
                collection_id=whole.collection_id,
                reach=whole.reach,
                low=low,
                high=high,
                tie_at=None if behind else tie_at,
                tie_id=_last_id(order),
            )
        if part.field is SortField.DATETIME:
            tie_at = last.datetime
            low, high = (low, min(high, tie_at)) if part.descending else (max(low, tie_at), high)
            if low > high:
                return None
    return Range(
        collection_id=whole.collection_id,
        reach=whole.reach,
        low=low,
        high=high,
        tie_at=tie_at,
        tie_id=last.id,
    )


def encode_cursor(last: Key, order: Order) -> str:
    """Return the token of the page behind an item."""
    parts = [",".join(map(str, order)), format_instant(last.datetime), last.collection, last.id]
    return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def decode_cursor(token: str, order: Order) -> Key:
    """Read a token of the same order; anything else is refused."""
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        words, instant, collection, item = orjson.loads(
            base64.b64decode(padded, altchars=b"-_", validate=True)
        )
        key = Key(datetime=parse_instant(instant), collection=collection, id=item)
    except (binascii.Error, ValueError, TypeError, InvalidInput) as exc:
        raise InvalidInput("token: not one that a page of this catalog gave") from exc
    if not isinstance(collection, str) or not isinstance(item, str):
        raise InvalidInput("token: not one that a page of this catalog gave")
    if words != ",".join(map(str, order)):
        raise InvalidInput(f"token: its page was sorted by {words}, this search is not")
    return key


def time_range_of(text: str) -> tuple[datetime | None, datetime | None]:
    """Read a `datetime` parameter: an instant, or two with a slash, where one may be open."""
    parts = text.split("/")
    if len(parts) > _RANGE_PARTS:
        raise InvalidInput(f"datetime: more than one slash: {text!r}")
    if len(parts) == 1:
        return (_instant(text),) * 2
    since, until = (None if part in {"", ".."} else _instant(part) for part in parts)
    if since is None and until is None:
        raise InvalidInput("datetime: open at both ends; leave it out instead")
    if since is not None and until is not None and since > until:
        raise InvalidInput(f"datetime: ends before it begins: {text!r}")
    return since, until


def _instant(text: str) -> datetime:
    if "T" not in text.upper():
        raise InvalidInput(f"datetime: not an RFC 3339 instant with a time zone: {text!r}")
    try:
        return parse_instant(text)
    except InvalidInput as exc:
        raise InvalidInput(f"datetime: {exc}", code=exc.code) from exc
