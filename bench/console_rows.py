"""A store of 1,000,000 units for the console to show: every table that a page reads has rows.

Units lie in the last thirty days, in order of data time, over all datasets of the catalogue: few
have most of them. Their rows are those that the pipeline itself wrote for one unit, with other
names, times and places; a tenth have provenance too, which is read by its key alone. States,
attempts, events and what governance keeps are dealt out by the unit's number.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any

from tallgrass.clock import format_instant
from tallgrass.ledger.identity import wal_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallgrass.stac.geometry import Box

Values = dict[str, Any]
Rows = dict[str, list[Values]]

DAYS = 30
#: Ingest of it is switched off, so what of it is due stays so.
PARKED = "hrrr"
#: Datasets that have most units, in this order.
BUSY = ("nexrad-l2", "goes-abi", "goes-glm", "mrms", "hrrr", "nexrad-l3", "gfs", "jpss-viirs")
COMMON, RARE = "io_error", "catalog_conflict"
#: Does next to nothing: whoever filters by it meets an index, or the whole log.
RARE_ACTOR, RARE_ACTION = "rare@example", "freeze"
UUID = "6ba7b812-9dad-41d1-80b4-00c04fd430c8"
_FAILED = {
    "integrity_status": "failed", "metadata_status": "unknown", "stac_status": "unknown",
    "provenance_status": "unknown",
}  # fmt: skip
_UNKNOWN = dict.fromkeys(_FAILED, "unknown")
_NO_ITEM = {"stac_item_id": None, "stac_collection_id": None, "stac_item_href": None}
_NOTHING_MADE = dict.fromkeys(
    ("item_sha256", "provenance_sha256", "prov_activity_id", "openlineage_run_id")
)


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of the store, with all that its rows are made of."""

    number: int
    dataset: str
    status: str
    wal_id: str
    uri: str
    item_id: str
    at: str
    end: str
    box: Box

    @property
    def code(self) -> str | None:
        """Why it failed; a succeeded one with a code is stale."""
        if self.status in {"failed", "quarantined"}:
            return RARE if self.number % 50_000 < 100 else COMMON  # noqa: PLR2004
        return COMMON if self.status == "succeeded" and self.number % 500 == 7 else None  # noqa: PLR2004

    @property
    def attempts(self) -> int:
        """How often it was tried."""
        return {"pending": 0, "in_progress": 1, "succeeded": 1}.get(self.status, 3)


class Units:
    """Makes units and their rows after those of one that the pipeline made."""

    def __init__(
        self, sample: Mapping[str, Values], datasets: Sequence[str], now: datetime
    ) -> None:
        self._sample = sample
        self._now = now
        names = [*BUSY, *(name for name in datasets if name not in BUSY)]
        self._names = names
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(len(names))))
        record = sample["wal_records"]
        self._old = (
            record["object_uri"], record["stac_item_id"], record["wal_id"], record["dataset"],
            record["time_range_start"], record["time_range_end"],
        )  # fmt: skip
        box = json.loads(sample["stac_items"]["body"])["bbox"]
        self._box, self._ring = _json(box), _json(_ring(box))
        if self._box not in sample["stac_items"]["body"]:
            raise AssertionError("the sample's box is written in another way")

    def each(self, count: int, seed: int = 1) -> Iterator[Unit]:
        """Yield units in order of data time."""
        random = Random(seed)
        boxes = {name: _box(random) for name in self._names}
        first = self._now - timedelta(days=DAYS)
        for number in range(count):
            dataset = random.choices(self._names, cum_weights=self._weights)[0]
            start = first + timedelta(days=DAYS) * number / count
            uri = f"s3://noaa-{dataset}/{start:%Y/%m/%d/%H}/{dataset}_{start:%H%M%S}_{number:09}.nc"
            yield Unit(
                number=number,
                dataset=dataset,
                status=_status(number, count),
                wal_id=wal_id(dataset, uri, start),
                uri=uri,
                item_id=f"{dataset}_{start:%Y%m%d%H%M%S}-{number:024x}",
                at=format_instant(start),
                end=format_instant(start + timedelta(minutes=5)),
                box=_box(random) if dataset.startswith("nexrad") else boxes[dataset],
            )

    def rows(self, unit: Unit) -> Rows:
        """Return the rows of a unit, by table."""
        found = {
            "wal_records": [self._record(unit)],
            "wal_attempts": [self._attempt(unit, each + 1) for each in range(unit.attempts)],
            "wal_transitions": list(_transitions(unit)),
        }
        if unit.status == "succeeded":
            found |= {"stac_items": [self._item(unit)], **self._events(unit)}
            if unit.number % 10 == 0:
                found["provenance"] = [self._provenance(unit)]
            if unit.number % 100 == 1:
                found["expired_items"] = [_expired(unit)]
        return found

    def _record(self, unit: Unit) -> Values:
        held, done = unit.status == "in_progress", unit.status == "succeeded"
        item = {
            "stac_item_id": unit.item_id,
            "stac_collection_id": unit.dataset,
            "stac_item_href": f"collections/{unit.dataset}/items/{unit.item_id}.json",
        }
        due = None
        if unit.status == "pending":
            later = self._now + timedelta(hours=6)
            due = unit.at if unit.dataset == PARKED else format_instant(later)
        return {
            **self._sample["wal_records"], **({} if done else _FAILED if unit.code else _UNKNOWN),
            **(item if done else _NO_ITEM), "wal_id": unit.wal_id, "dataset": unit.dataset,
            "object_uri": unit.uri, "event_time": unit.at, "time_range_start": unit.at,
            "time_range_end": unit.end, "status": unit.status, "attempts": unit.attempts,
            "last_attempt_at": unit.end if unit.attempts else None, "last_error_code": unit.code,
            "last_error_message": unit.code and "the object could not be read",
            "created_at": unit.at, "updated_at": unit.end,
            "version": 3 * unit.attempts - held + (unit.status == "quarantined") or 1,
            "due_at": due, "budget_from": 0, "applied_attempt": 1 if done else None,
        }  # fmt: skip

    def _attempt(self, unit: Unit, number: int) -> Values:
        held, done = unit.status == "in_progress", unit.status == "succeeded"
        status = "pending" if held else "applied" if done else "failed"
        closed = {"commit_id": None, "closed_at": None, "closed_version": None} if held else {
            "commit_id": UUID, "closed_at": unit.end, "closed_version": 3 * number,
        }  # fmt: skip
        return {
            **self._sample["wal_attempts"], **({} if done else _FAILED | _NOTHING_MADE), **closed,
            "wal_id": unit.wal_id, "attempt_no": number, "status": status, "event_time": unit.at,
            "intent": "backfill" if unit.number % 5000 == 3 else "ingest",  # noqa: PLR2004
            "worker_incarnation": UUID, "claim_id": UUID, "claimed_at": unit.at,
            "claimed_version": 3 * number - 1,
            "error_code": unit.code if status == "failed" else None,
            "error_message": "the object could not be read" if status == "failed" else None,
        }  # fmt: skip

    def _item(self, unit: Unit) -> Values:
        west, south, east, north = unit.box
        item = self._sample["stac_items"]
        body = self._told(item["body"], unit).replace(self._box, _json(unit.box), 1)
        body = body.replace(self._ring, _json(_ring(unit.box)), 1)
        return {
            **item, "collection_id": unit.dataset, "item_id": unit.item_id, "wal_id": unit.wal_id,
            "body": body, "west": west, "south": south, "east": east,
            "north": north, "start_at": unit.at, "end_at": unit.end, "datetime_at": unit.at,
            "created_at": unit.end, "updated_at": unit.end,
        }  # fmt: skip

    def _provenance(self, unit: Unit) -> Values:
        row = self._sample["provenance"]
        body = self._told(row["body"], unit)
        return {**row, "wal_id": unit.wal_id, "body": body, "created_at": unit.end}

    def _events(self, unit: Unit) -> Rows:
        """Return its event, how far it came, and who tried to send it."""
        outbox_id = f"019b{unit.number:08x}"
        outbox_id = f"{outbox_id[:8]}-{outbox_id[8:]}-7000-8000-{unit.number:012x}"
        target, place = ("file", "webhook")[unit.number % 5 == 0], unit.number % 1000
        status = "pending" if place < 5 else "failed" if place < 10 else "dispatched"  # noqa: PLR2004
        due = unit.end if place < 8 else None  # noqa: PLR2004 - without one it is exhausted
        code = "sink_refused" if status == "failed" else None
        common = {"outbox_id": outbox_id, "target": target, "dataset_id": unit.dataset}
        event = {
            **self._sample["outbox"], **common, "subject": unit.wal_id, "created_at": unit.end,
            "payload": self._told(self._sample["outbox"]["payload"], unit),
            "idempotency_key": f"sha256:{hashlib.sha256(unit.uri.encode()).hexdigest()}",
            "event_name": ("nodd.item.created", "nodd.item.updated")[unit.number % 50_000 == 9],  # noqa: PLR2004
        }  # fmt: skip
        delivery = {
            **common, "status": status, "attempt": int(status != "pending"), "due_at": due,
            "ready_at": due, "error_code": code, "last_error": code and "HTTP 422",
            "updated_at": unit.end,
        }  # fmt: skip
        attempt = {
            "outbox_id": outbox_id, "attempt": 1, "dispatcher": UUID, "outcome": status,
            "error_code": code, "error": code and "HTTP 422", "ended_at": unit.end,
        }  # fmt: skip
        return {
            "outbox": [event],
            "outbox_delivery": [delivery],
            "outbox_attempts": [attempt] if status != "pending" else [],
        }

    def _told(self, body: bytes, unit: Unit) -> bytes:
        """Return a document of the sample as that of another unit."""
        text = body.decode()
        new = (unit.uri, unit.item_id, unit.wal_id, unit.dataset, unit.at, unit.end)
        for before, after in zip(self._old, new, strict=True):
            text = text.replace(before, after)
        return text.encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _ring(box: Sequence[float]) -> list[list[float]]:
    west, south, east, north = box
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def _box(random: Random) -> Box:
    west, south = round(random.uniform(-125, -68), 3), round(random.uniform(25, 47), 3)
    return west, south, round(west + 4.2, 3), round(south + 4.2, 3)


def _status(number: int, count: int) -> str:
    """Deal out the states; what is in progress is among the newest."""
    if number >= count - 500 and number % 2:
        return "in_progress"
    place = number % 1000
    if place < 20:  # noqa: PLR2004 - shares of a thousand
        return "failed"
    if place < 25:  # noqa: PLR2004
        return "quarantined"
    return "pending" if place < 30 else "succeeded"  # noqa: PLR2004


def _transitions(unit: Unit) -> Iterator[Values]:
    edges = [("retry", "failed", "pending", 3 * each) for each in range(1, unit.attempts)]
    if unit.status == "quarantined":
        edges.append(("quarantine", "failed", "quarantined", 3 * unit.attempts))
    for kind, before, after, version in edges:
        yield {
            "wal_id": unit.wal_id, "occurred_at": unit.end, "kind": kind, "from_status": before,
            "to_status": after, "from_version": version, "to_version": version + 1,
            "actor": "worker", "reason": kind,
        }  # fmt: skip


def _expired(unit: Unit) -> Values:
    return {
        "collection_id": unit.dataset, "item_id": unit.item_id, "expires_at": unit.end,
        "reason": "policy", "actor": "retention", "marked_at": unit.end,
    }  # fmt: skip
