"""A recorder that looks through a second connection whether what it is told is committed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.backends import read_rows
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Counts = dict[tuple[str, ...], float]
P = "nodd_sns."
#: Attempts that others closed: no outcome of theirs was reported.
RELEASED = ("lease_expired", "handed_back")
ENV = "test"


def _grouped(statement: str, *more: str) -> Callable[[Any], Counts]:
    """Return a reader of (labels …, number) rows; `more` labels are added to each."""

    def read(connection: Any) -> Counts:
        rows = [tuple(row.values()) for row in read_rows(connection, statement)]
        return {(*row[:-1], *more): row[-1] for row in rows}

    return read


def _statuses(column: str) -> Callable[[Any], Counts]:
    return _grouped(
        f"SELECT r.dataset, replace(a.{column}, '-', '_'), count(*) FROM wal_attempts AS a"
        f" JOIN wal_records AS r ON r.wal_id = a.wal_id WHERE a.{column} <> 'unknown'"
        f" GROUP BY r.dataset, a.{column}"
    )


def _issues(operator: str) -> Callable[[Any], Counts]:
    def read(connection: Any) -> Counts:
        rows = read_rows(
            connection,
            "SELECT r.dataset, a.issues FROM wal_attempts AS a"
            " JOIN wal_records AS r ON r.wal_id = a.wal_id WHERE a.issues IS NOT NULL",
        )
        found = [(row["dataset"], i.split(":")) for row in rows for i in json.loads(row["issues"])]
        return dict(Counter((dataset, code) for dataset, (by, code) in found if by == operator))

    return read


def _bytes_read(connection: Any) -> Counts:
    sums: Counter[tuple[str, ...]] = Counter()
    for row in read_rows(
        connection,
        "SELECT r.dataset, a.evidence FROM wal_attempts AS a"
        " JOIN wal_records AS r ON r.wal_id = a.wal_id WHERE a.status = 'applied'",
    ):
        sums[row["dataset"], ENV] += json.loads(row["evidence"])["size"]
    return dict(sums)


#: Counter → what the tables say that it must be.
COUNTERPARTS: dict[str, Callable[[Any], Counts]] = {
    P + "wal_records_total": _grouped(
        "SELECT r.dataset, h.to_status, count(*) FROM wal_history AS h"
        " JOIN wal_records AS r ON r.wal_id = h.wal_id"
        " WHERE h.from_status IS NULL OR h.from_status <> h.to_status"
        " GROUP BY r.dataset, h.to_status"
    ),
    # A retry carries the reason of the last replay before it, as the journal tells it.
    P + "wal_replays_total": _grouped(
        "SELECT r.dataset, coalesce((SELECT p.reason FROM wal_transitions AS p"
        " WHERE p.wal_id = h.wal_id AND p.kind = 'replay' AND p.to_version <= h.version"
        " ORDER BY p.to_version DESC LIMIT 1), 'none') AS replay_reason, count(*)"
        " FROM wal_history AS h JOIN wal_records AS r ON r.wal_id = h.wal_id"
        " WHERE h.from_status = 'failed' AND h.to_status = 'pending' GROUP BY 1, 2"
    ),
    P + "validation_errors_total": _grouped(
        "SELECT r.dataset, a.error_code, count(*) FROM wal_attempts AS a"
        " JOIN wal_records AS r ON r.wal_id = a.wal_id"
        f" WHERE a.error_code IS NOT NULL AND a.error_code NOT IN {RELEASED}"
        " GROUP BY r.dataset, a.error_code",
        ENV,
    ),
    P + "integrity_checks_total": _statuses("integrity_status"),
    P + "metadata_extract_total": _statuses("metadata_status"),
    P + "stac_writes_total": _statuses("stac_status"),
    P + "provenance_emits_total": _statuses("provenance_status"),
    P + "integrity_failures_total": _issues("integrity-check"),
    P + "metadata_extract_failures_total": _issues("metadata-extract"),
    P + "bytes_ingested_total": _bytes_read,
    P + "parse_failures_total": _grouped(
        "SELECT error_code, sum(times_seen) FROM poison_messages GROUP BY error_code"
    ),
}
#: Histogram → its number of values, by label.
OBSERVED: dict[str, Callable[[Any], Counts]] = {
    P + "wal_attempts_histogram": _grouped(
        "SELECT r.dataset, count(*) FROM wal_attempts AS a"
        " JOIN wal_records AS r ON r.wal_id = a.wal_id GROUP BY r.dataset"
    ),
    P + "ingest_latency_seconds": _grouped(
        "SELECT r.dataset, count(*) FROM wal_attempts AS a"
        " JOIN wal_records AS r ON r.wal_id = a.wal_id WHERE a.status = 'applied'"
        " GROUP BY r.dataset"
    ),
    P + "stac_write_latency_seconds": _grouped(
        "SELECT r.dataset, count(*) FROM wal_attempts AS a"
        " JOIN wal_records AS r ON r.wal_id = a.wal_id WHERE a.status = 'applied'"
        " AND a.stac_status IN ('created', 'updated') GROUP BY r.dataset"
    ),
}


@dataclass(slots=True, kw_only=True)
class WatchingRecorder(MemoryRecorder):
    """Looks through its own connection whenever it is told something: is it committed?"""

    connection: Any
    #: What was reported before it could be seen.
    early: list[str] = field(default_factory=list)
    looks: int = 0
    #: Every name that was met.
    met: set[str] = field(default_factory=set)

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add to a counter, and look whether the tables have as much."""
        MemoryRecorder.count(self, name, value, **labels)
        self.met.add(name)
        if name in COUNTERPARTS:
            self._look(name, self.by_labels(name), COUNTERPARTS[name](self.connection))

    def observe(self, name: str, values: Any, **labels: str) -> None:
        """Add to a histogram, and look whether the tables have as many."""
        MemoryRecorder.observe(self, name, values, **labels)
        self.met.add(name)
        if name in OBSERVED:
            seen = OBSERVED[name](self.connection)
            number = len(self.observed(name, dataset=labels["dataset"]))
            self._look(name, {(labels["dataset"],): number}, seen)

    def span(
        self, name: str, started_at: Any, ended_at: Any, attributes: Any, place: Any = None
    ) -> None:
        """Keep a span."""
        MemoryRecorder.span(self, name, started_at, ended_at, attributes, place)
        self.met.add(name)

    def event(self, name: str, **fields: object) -> None:
        """Keep an event; a unit that failed or is held must be seen to."""
        MemoryRecorder.event(self, name, **fields)
        self.met.add(name)
        if name in ("unit_failed", "unit_quarantined"):
            self._look_for_unit(name, fields)

    def _look(self, name: str, told: Mapping[tuple[str, ...], float], seen: Counts) -> None:
        self.looks += 1
        ahead = {labels: n for labels, n in told.items() if n > seen.get(labels, 0)}
        if ahead:
            self.early.append(f"{name}: told {ahead}, seen {seen}")

    def _look_for_unit(self, name: str, fields: Mapping[str, object]) -> None:
        self.looks += 1
        (row,) = read_rows(
            self.connection,
            "SELECT r.status, r.object_uri, r.dataset, r.last_error_code FROM wal_records AS r"
            " WHERE r.wal_id = ?",
            fields["wal_id"],
        )
        expected = {"unit_failed": ("failed", "succeeded", "pending")}.get(name, ("quarantined",))
        digest = hashlib.sha256(row["object_uri"].encode()).hexdigest()[:16]
        told = (fields["dataset"], fields["error_code"], fields["object_uri_hash"])
        if row["status"] not in expected or told != (
            row["dataset"],
            row["last_error_code"],
            digest,
        ):
            self.early.append(f"{name}: told {dict(fields)}, seen {row}")
