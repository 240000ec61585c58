"""What a chaotic run left, judged from raw tables, queue and files: lost, duplicate, stale.

It imports nothing of the package that it judges.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tests.oracle.deliveries import DELIVERY_PROMISES
from tests.oracle.replays import runs_are_settled
from tests.oracle.tables import read_tables
from tests.oracle.verdict import Disturbances, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.oracle.tables import QueueContents, Tables

#: Promises whose breach means that something is there twice.
_TWICE = frozenset(
    {
        "one_record_per_unit",
        "one_open_attempt",
        "attempts_are_counted",
        "versions_are_gapless",
        "replays_are_applied_once",
        "events_have_one_delivery",
    }
)
#: Promises whose breach means that somebody wrote who had no right to any more.
_LATE = frozenset({"open_attempts_are_held", "effects_have_a_cause", "items_are_owned"})


@dataclass(kw_only=True)
class Judgement:
    """Everything that is wrong, by what it means."""

    lost: list[str] = field(default_factory=list)
    duplicate: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    #: How much was judged.
    counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's own values."""
        return asdict(self)


def judge(
    database: Any,
    queue: QueueContents,
    manifest: Mapping[str, Any],
    events: Path,
    *,
    attempts_max: int,
) -> Judgement:
    """Judge a run that came to its end."""
    tables = read_tables(database)
    found = Judgement()
    disturbances = Disturbances(codes=frozenset({"io_error"}), max_attempts=attempts_max)
    for text in verdict(database, queue, manifest, disturbances):
        _kind(found, text.partition(":")[0]).append(text)
    found.lost += [f"runs_are_settled: {text}" for text in runs_are_settled(tables)]
    found.lost += undelivered(tables, events)
    found.duplicate += doubles(tables)
    found.stale += stale_writes(tables)
    found.counts = {
        "units": len(tables.records),
        "attempts": len(tables.attempts),
        "items": len(tables.items),
        "events": len(tables.outbox),
        "recovered attempts": sum(a["error_code"] == "lease_expired" for a in tables.attempts),
        "replayed attempts": sum(a["replay_run_id"] is not None for a in tables.attempts),
        "fenced workers": sum(bool(worker["fenced_at"]) for worker in tables.workers),
    }
    return found


def _kind(found: Judgement, promise: str) -> list[str]:
    if promise in _TWICE:
        return found.duplicate
    return found.stale if promise in _LATE else found.lost


def doubles(tables: Tables) -> Iterator[str]:
    """Tell what has one identity and is there twice: items, edges, events."""
    keys: dict[str, list[tuple[Any, ...]]] = {
        "item": [(row["collection_id"], row["item_id"]) for row in tables.items],
        "item of a unit": [(row["wal_id"],) for row in tables.items],
        "edge": [(row["wal_id"], row["activity_id"]) for row in tables.provenance],
        "event": [(row["idempotency_key"], row["target"]) for row in tables.outbox],
    }
    for name, found in keys.items():
        for key, count in Counter(found).items():
            if count > 1:
                yield f"{name} {key} is there {count} times"


def stale_writes(tables: Tables) -> Iterator[str]:
    """Tell which attempts a worker closed after it was fenced, or that were not its own."""
    fenced = {worker["incarnation"]: worker["fenced_at"] for worker in tables.workers}
    for attempt in tables.attempts:
        since = fenced.get(attempt["worker_incarnation"])
        if attempt["status"] == "applied" and since and attempt["closed_at"] > since:
            name = f"{attempt['wal_id']} attempt {attempt['attempt_no']}"
            yield f"{name} was applied at {attempt['closed_at']}, and its worker fenced at {since}"


def undelivered(tables: Tables, events: Path) -> Iterator[str]:
    """Tell which events are not whole in the file of their target, or dispatched and not there."""
    lines = events.read_bytes().split(b"\n") if events.exists() else []
    there = {event["id"] for line in lines if (event := _event(line)) is not None}
    for rule in DELIVERY_PROMISES:
        yield from (f"{rule.__name__}: {text}" for text in rule(tables))
    for delivery in tables.deliveries:
        if delivery["status"] != "dispatched":
            yield f"event {delivery['outbox_id']} is {delivery['status']} at the end"
    for event in tables.outbox:
        if event["outbox_id"] not in there:
            yield f"event {event['outbox_id']} is not in the file"


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "id" in found else None


def unfinished_graphs(folder: Path, effects: Sequence[str]) -> Iterator[str]:
    """Tell which graphs of nodes did not leave their effect, or left another one."""
    for root in sorted(folder.glob("*")):
        outside = sorted(path.name for path in (root / "outside").glob("*"))
        if outside != list(effects):
            yield f"graph {root.name} left {outside} outside"
