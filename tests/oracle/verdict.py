"""The oracle: promises re-derived from raw tables, the queue and the feed's manifest.

    violations = verdict(connection, queue, manifest)

The connection is one of sqlite3 or psycopg, the queue its file or its contents.
`python -m tests.oracle.verdict DATABASE QUEUE MANIFEST` prints a summary and ends with 1 if there
are any; DATABASE is a file of SQLite or postgresql://…. It imports nothing of the package that it
judges.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.oracle.audit_chain import chain_holds, holds_are_audited
from tests.oracle.promises import broken_promises
from tests.oracle.tables import (
    QueueContents,
    Tables,
    announced_objects,
    announced_versions,
    read_queue,
    read_tables,
    sha256,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.oracle.tables import Row

#: Codes of attempts that were ended from outside; they say nothing of the unit.
_ENDED_FROM_OUTSIDE = frozenset({"lease_expired", "handed_back"})

#: What the one kind of hand-back says that counts against a unit's limit.
_BLAMED = "while it had this unit alone"


@dataclass(frozen=True, kw_only=True)
class Disturbances:
    """What a run was made to suffer; without any, nothing excuses a unit that should succeed."""

    #: Codes that were made to happen: attempts may have ended with them.
    codes: frozenset[str] = frozenset()
    #: After so many attempts a unit may be held, or a re-run given up.
    max_attempts: int = 8
    #: Dead letters were sent again when the disturbances were over: only a limit excuses now.
    redriven: bool = False

    @property
    def excuse_dead_letters(self) -> bool:
        """Whether a good unit may be found among the dead letters."""
        return bool(self.codes) and not self.redriven


NONE = Disturbances()


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that is judged."""

    tables: Tables
    queue: QueueContents
    manifest: Mapping[str, Any]
    disturbances: Disturbances
    dead: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for body in self.queue.dead:
            self.dead.update(announced_objects(body))
        for body in self.queue.waiting:
            self.waiting.update(announced_objects(body))


def verdict(
    database: Any | Tables,
    queue: Path | str | QueueContents | None,
    manifest: Mapping[str, Any],
    disturbances: Disturbances = NONE,
) -> list[str]:
    """Return every violation in a run that came to its end; none means that all promises hold."""
    tables = database if isinstance(database, Tables) else read_tables(database)
    case = Case(
        tables=tables,
        queue=read_queue(queue),
        manifest=manifest,
        disturbances=disturbances,
    )
    found = broken_promises(tables)
    for rule in (chain_holds, holds_are_audited):
        found.extend(rule(tables))
    for judged in (
        nothing_is_left,
        units_met_their_fate,
        nothing_was_invented,
        poison_is_kept,
        dead_letters_are_failures,
    ):
        found.extend(f"{judged.__name__}: {text}" for text in judged(case))
    return found


def nothing_is_left(case: Case) -> Iterator[str]:
    """At the end nothing waits: no message, no unit that is pending, in progress or due."""
    if case.queue.waiting:
        yield f"{len(case.queue.waiting)} messages wait in the queue"
    for record in case.tables.records:
        if record["status"] in {"pending", "in_progress"}:
            yield f"{record['wal_id']} is {record['status']}"
        elif record["due_at"] is not None:
            yield f"{record['wal_id']} is {record['status']} and still due"
    for attempt in case.tables.attempts:
        if attempt["status"] == "pending":
            yield f"{attempt['wal_id']} attempt {attempt['attempt_no']} is still open"


def units_met_their_fate(case: Case) -> Iterator[str]:
    """Each unit of the feed ended as what happened to its object demands."""
    records = {record["object_uri"]: record for record in case.tables.records}
    for unit in case.manifest["units"]:
        uri = unit["object_uri"]
        record = records.get(uri)
        if record is None:
            if not case.dead[uri]:
                yield f"{uri} is neither in the ledger nor a dead letter"
            elif not case.disturbances.excuse_dead_letters:
                yield f"{uri} was given up before it was recorded"
            continue
        if (record["dataset"], record["time_range_start"], record["time_range_end"]) != (
            unit["dataset"],
            unit["time_range_start"],
            unit["time_range_end"],
        ):
            yield f"{uri} was recorded as another dataset or for another time"
        if unit["expected"] == "succeeded":
            yield from _should_have_succeeded(case, unit, record)
        else:
            yield from _should_have_failed(case, unit, record)


def _should_have_succeeded(case: Case, unit: Mapping[str, Any], record: Row) -> Iterator[str]:
    uri, attempts = unit["object_uri"], case.tables.attempts_of.get(record["wal_id"], [])
    if record["status"] != "succeeded":
        if not _excused(case, record, attempts):
            yield f"{uri} is {record['status']} ({record['last_error_code']}), not succeeded"
        return
    applied = case.tables.applied(record["wal_id"])
    if not applied:
        return  # told by another rule
    evidence = json.loads(applied[-1]["evidence"])
    if evidence["etag"] != unit["etag"] or applied[-1]["read_etag"] != unit["etag"]:
        stale = record["last_error_code"] is not None
        given_up = case.dead[uri] and case.disturbances.excuse_dead_letters
        if not given_up and not (stale and _excused(case, record, attempts)):
            yield f"{uri}: the item is of etag {evidence['etag']}, the newest is {unit['etag']}"
    elif evidence["size"] != unit["size"]:
        yield f"{uri}: {evidence['size']} bytes were read of {unit['size']}"


def _should_have_failed(case: Case, unit: Mapping[str, Any], record: Row) -> Iterator[str]:
    uri = unit["object_uri"]
    attempts = case.tables.attempts_of.get(record["wal_id"], [])
    if record["status"] not in {"failed", "quarantined"}:
        yield f"{uri} is {record['status']}, though it is {unit['fate']}"
        return
    code = record["last_error_code"]
    if code != unit["expected_code"] and not _excused(case, record, attempts):
        yield f"{uri} failed with {code}, not with {unit['expected_code']}"
    if not record["last_error_message"]:
        yield f"{uri} failed and does not say why"


def _excused(case: Case, record: Row, attempts: Sequence[Row]) -> bool:
    """Tell whether disturbances explain it: failed by them and in the dead letters, or held."""
    excuses = case.disturbances.codes | _ENDED_FROM_OUTSIDE
    if not case.disturbances.codes or not attempts:
        return False
    if record["status"] == "failed":
        if not case.disturbances.excuse_dead_letters:
            return False
        return attempts[-1]["error_code"] in excuses and bool(case.dead[record["object_uri"]])
    recent = [a for a in attempts if _counts(a)][-case.disturbances.max_attempts :]
    return len(recent) == case.disturbances.max_attempts and any(
        a["error_code"] in excuses for a in recent
    )


def _counts(attempt: Row) -> bool:
    """Tell whether an attempt counts against its unit's limit; what was given back does not."""
    return attempt["error_code"] != "handed_back" or _BLAMED in attempt["error_message"]


def nothing_was_invented(case: Case) -> Iterator[str]:
    """The ledger knows no unit that the feed did not bring."""
    known = {unit["object_uri"] for unit in case.manifest["units"]}
    for record in case.tables.records:
        if record["object_uri"] not in known:
            yield f"{record['object_uri']} is in the ledger, and the feed knows nothing of it"


def poison_is_kept(case: Case) -> Iterator[str]:
    """Every message that could not be understood is stored, or a dead letter."""
    stored: Counter[str] = Counter()
    for row in case.tables.poison:
        stored[row["error_code"]] += row["times_seen"]
        if row["body_bytes"] == len(row["body"]) and sha256(row["body"]) != row["body_sha256"]:
            yield f"poison {row['poison_id']}: its hash is not that of its bytes"
    for code, count in case.manifest["poison"].items():
        if stored[code] + _dead_poison(case) < count:
            yield f"{count} messages were poison ({code}); {stored[code]} are stored"
    for code in set(stored) - set(case.manifest["poison"]):
        yield f"{stored[code]} messages were stored as poison ({code}); the feed has none"


def _dead_poison(case: Case) -> int:
    known = {unit["object_uri"] for unit in case.manifest["units"]}
    return sum(not announced_objects(body) & known for body in case.queue.dead)


def dead_letters_are_failures(case: Case) -> Iterator[str]:
    """A dead letter has a unit that failed; a unit that failed has a dead letter.

    But a unit whose last attempt needed no message: its message was let go when the ledger took it
    over. And what a message announces may have failed for good before a newer version of the object
    was heard of, and succeeded.
    """
    status = {record["object_uri"]: record["status"] for record in case.tables.records}
    for body in case.queue.dead:
        objects = announced_objects(body)
        found = {status.get(uri) for uri in objects}
        failed = bool(found & {"failed", "quarantined"}) or _is_of_a_failed_version(case, body)
        if not failed and not case.disturbances.excuse_dead_letters:
            yield f"a dead letter of {sorted(objects) or 'no unit'}, where nothing failed"
    for record in case.tables.records:
        attempts = case.tables.attempts_of.get(record["wal_id"], [])
        by_message = bool(attempts) and attempts[-1]["sqs_message_id"] is not None
        told = case.dead[record["object_uri"]] or case.waiting[record["object_uri"]]
        if record["status"] == "failed" and by_message and not told:
            yield f"{record['object_uri']} failed, and its message is gone"


def _is_of_a_failed_version(case: Case, body: bytes) -> bool:
    """Tell whether a letter is of a version that failed, in whose place a newer one succeeded."""
    newest = {unit["object_uri"]: unit["etag"] for unit in case.manifest["units"]}
    records = {record["object_uri"]: record for record in case.tables.records}
    for uri, etag in announced_versions(body):
        if etag == newest.get(uri) or uri not in records:
            continue
        attempts = case.tables.attempts_of.get(records[uri]["wal_id"], [])
        # Of a unit that is done, older attempts may be archived.
        archived = len(attempts) < records[uri]["attempts"]
        if archived or any(a["status"] == "failed" and a["object_etag"] == etag for a in attempts):
            return True
    return False


def summary(
    database: Any, queue: Path | str | QueueContents | None, violations: Sequence[str]
) -> str:
    """Return what was judged, and the violations, for people."""
    tables, queue = read_tables(database), read_queue(queue)
    by_status = Counter(record["status"] for record in tables.records)
    states = ", ".join(f"{count} {status}" for status, count in sorted(by_status.items()))
    effects = (
        f"{len(tables.items)} items, {len(tables.provenance)} provenance documents, "
        f"{len(tables.outbox)} events"
    )
    # One body is kept once: the feed's figure is that of the messages.
    poison = sum(row["times_seen"] for row in tables.poison)
    messages = (
        f"{poison} poison messages ({len(tables.poison)} different), "
        f"{len(queue.waiting)} messages waiting, "
        f"{len(queue.dead)} dead letters, {len(tables.audit)} audit entries"
    )
    lines = [
        f"{len(tables.records)} units ({states or 'none'}), {len(tables.attempts)} attempts",
        effects,
        messages,
        *(f"  VIOLATION {text}" for text in violations),
        f"{len(violations)} violations" if violations else "0 violations: every promise holds",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Judge a database, a queue's file and a manifest."""
    database = _connect(arguments[0])
    manifest = json.loads(Path(arguments[2]).read_text(encoding="utf-8"))
    violations = verdict(database, arguments[1], manifest)
    print(summary(database, arguments[1], violations))  # noqa: T201 - it is a command
    database.close()
    return 1 if violations else 0


def _connect(database: str) -> Any:
    if database.startswith(("postgresql:", "postgres:")):
        import psycopg  # noqa: PLC0415 - `make run` judges SQLite and needs no driver

        return psycopg.connect(database, autocommit=True)
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
