"""One unit with everything that is known of it, and units found by a name or its beginning."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import orjson

from tallgrass.bootstrap.stores import Stores
from tallgrass.governance.policy import Policies
from tallgrass.ledger.record import WalAttempt, WalRecord
from tallgrass.replay.run import RunRecord
from tallgrass.views.places import (
    Telling,
    changes_as_told,
    evidence_as_told,
    item_as_told,
    record_as_told,
    telling_of,
    told,
)
from tallgrass.views.records import unit_document

#: Shorter beginnings of an id say next to nothing.
_ID_CHARS_MIN = 4
_ID_FORM = "00000000-0000-0000-0000-000000000000"
#: Units that are found by their items: each is looked up by itself.
_ITEMS_MAX = 100
#: How many activities of a unit its provenance is told of, from the newest.
ACTIVITIES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Units that were found, and the wal_id after which the next page begins."""

    records: list[WalRecord]
    next_cursor: str | None
    #: Whether the name is that of one unit, in full.
    exact: bool = False


def read_unit(stores: Stores, policies: Policies, name: str) -> dict[str, Any]:
    """Read one unit by its wal_id or its object's URI; its places are as exact as may be told."""
    record = stores.reader.record(name)
    telling = telling_of(policies, record.dataset)
    attempts = stores.reader.attempts(record.wal_id)
    shown = record_as_told(record, telling)
    annotations = stores.reader.annotations(record.wal_id)
    item = provenance = None
    if record.stac_item_id is not None and record.stac_collection_id is not None:
        item = _parsed(stores.catalog.item(record.stac_collection_id, record.stac_item_id))
        provenance = stores.catalog.provenance(record.stac_collection_id, record.stac_item_id)
    document = unit_document(shown, attempts, annotations)
    return {
        **document,
        "lineage": told(document["lineage"], telling),
        "attempts": [_attempt(each, telling) for each in attempts],
        "history": stores.reader.history(record.wal_id),
        "events": stores.deliveries.of_unit(record.wal_id),
        "item": item_as_told(item, telling),
        "provenance": told(_parsed(provenance), telling),
        "withheld": None if item is None else telling.refusal,
    }


def read_activities(stores: Stores, policies: Policies, record: WalRecord) -> list[dict[str, Any]]:
    """Return the provenance of a unit's newest activities: each `body` with its `run`."""
    telling = telling_of(policies, record.dataset)
    found = stores.catalog.activities(record.wal_id, size=ACTIVITIES_MAX)
    return [
        {"body": told(orjson.loads(body), telling), "run": orjson.loads(run)} for body, run in found
    ]


def read_changes(stores: Stores, policies: Policies, record: WalRecord) -> list[RunRecord]:
    """Return the replays that changed something in a unit, and what."""
    found = stores.replay_runs.records_of_unit(record.wal_id)
    return changes_as_told(policies, [each for each in found if each.changes])


def find_units(stores: Stores, text: str, *, after: str | None, size: int) -> Found:
    """Find units by wal_id, object's URI or item id, or by the beginning of one."""
    name = text.strip()
    if not name:
        return Found(records=[], next_cursor=None)
    if "://" in name:
        return _by_address(stores, name, after, size)
    if _is_beginning_of_id(name.lower()):
        found = stores.reader.by_id(name.lower(), after=after, size=size + 1)
        if found or after is not None:
            return _page(found, size, exact=len(name) == len(_ID_FORM))
    units = stores.catalog.units_by_item(name, size=min(size, _ITEMS_MAX))
    return Found(records=[stores.reader.record(unit) for unit in units], next_cursor=None)


def _by_address(stores: Stores, prefix: str, after: str | None, size: int) -> Found:
    begin = "" if after is None else stores.reader.record(after).object_uri
    found = stores.reader.by_address(prefix, after=begin, size=size + 1)
    whole = [record for record in found if record.object_uri == prefix]
    if after is None and whole:
        return Found(records=whole, next_cursor=None, exact=True)
    return _page(found, size)


def _page(found: Sequence[WalRecord], size: int, *, exact: bool = False) -> Found:
    records = list(found[:size])
    more = records[-1].wal_id if len(found) > size else None
    return Found(records=records, next_cursor=more, exact=exact)


def _is_beginning_of_id(text: str) -> bool:
    return _ID_CHARS_MIN <= len(text) <= len(_ID_FORM) and all(
        (given == "-") if form == "-" else given in "0123456789abcdef"
        for given, form in zip(text, _ID_FORM, strict=False)
    )


def _attempt(attempt: WalAttempt, telling: Telling) -> dict[str, Any]:
    """Return an attempt with its evidence as the document that it is."""
    values = {each.name: getattr(attempt, each.name) for each in fields(attempt)}
    # Words of a vocabulary are texts too, and stay what they are.
    texts = {name: told(value, telling) for name, value in values.items() if type(value) is str}
    return {**values, **texts, "evidence": evidence_as_told(_parsed(attempt.evidence), telling)}


def _parsed(body: bytes | None) -> Any:
    return None if body is None else orjson.loads(body)
