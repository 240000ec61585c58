"""What a publication reads and writes, inside of the caller's transaction.

Read what stands under the keys, decide, write. A contradiction is found before anything is written.
Who publishes the same key at the same time: on SQLite there is one writer at a time; on PostgreSQL
the second waits for the first and then gives way, to be run again.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from tallgrass.clock import Clock
from tallgrass.outbox.outbox_ids import OutboxIds
from tallgrass.outbox.publication import (
    Facts,
    Plan,
    Prepared,
    Published,
    artifact_version,
    decide,
)
from tallgrass.storage.caller_transactions import CallerTransaction, caller_transaction

_FACTS = Facts._fields


def record_publications(
    handle: object, wanted: Sequence[Prepared], *, clock: Clock, ids: OutboxIds
) -> list[Published]:
    """Write events, keys and artifact versions; tell what became of each event, in order."""
    tx = caller_transaction(handle, clock)
    plan = decide(wanted, _known_keys(tx, wanted), _known_artifacts(tx, wanted))
    given = _write(tx, plan, clock, ids)
    found = _rows_of(tx, [each for each in plan.duplicates if each.key not in given])
    repeated = {id(each) for each in plan.duplicates}
    return [
        Published(
            idempotency_key=each.key,
            outbox_ids=tuple(given[each.key] if each.key in given else found.get(each.key, ())),
            duplicate=id(each) in repeated,
        )
        for each in wanted
    ]


def _known_keys(tx: CallerTransaction, wanted: Sequence[Prepared]) -> dict[str, Facts]:
    rows = tx.select("published_keys", rows=sorted({each.key for each in wanted}))
    return {row["idempotency_key"]: Facts(**{name: row[name] for name in _FACTS}) for row in rows}


def _known_artifacts(
    tx: CallerTransaction, wanted: Sequence[Prepared]
) -> dict[tuple[str, str], str]:
    versions = {artifact_version(each.event) for each in wanted if each.event.artifact}
    if not versions:
        return {}
    rows = tx.select("published_artifacts", rows=sorted(versions))
    return {(row["artifact_uri"], row["version"]): row["artifact_checksum"] for row in rows}


def _rows_of(tx: CallerTransaction, repeated: Sequence[Prepared]) -> dict[str, list[str]]:
    """Return the ids of the rows that were written under the keys before."""
    found: dict[str, list[str]] = {}
    if repeated:
        pairs = sorted({(each.subject, each.key) for each in repeated})
        for row in tx.select("published_rows", rows=pairs):
            found.setdefault(row["idempotency_key"], []).append(row["outbox_id"])
    return found


def _write(tx: CallerTransaction, plan: Plan, clock: Clock, ids: OutboxIds) -> dict[str, list[str]]:
    """Write all of the plan or nothing; return the new ids by key."""
    # Keys in one order for everyone, so that two publishers cannot wait for each other.
    keyed = sorted(plan.new, key=lambda each: each.key)
    given: dict[str, list[str]] = {}
    new_ids = iter(ids.several(clock(), sum(len(each.targets) for each in plan.new)))
    events = [row for each in plan.new for row in _event_rows(each, given, new_ids)]
    now = tx.now()
    with tx.whole():
        tx.write("insert_published_keys", [_key_row(each) for each in keyed], now=now)
        if plan.artifacts:
            tx.write("insert_artifacts", sorted(map(_artifact_row, plan.artifacts)), now=now)
        tx.write("insert_published_events", events, now=now)
        if plan.duplicates:
            rows = [_duplicate_row(each) for each in plan.duplicates]
            tx.write("insert_duplicates", rows, now=now)
    return given


def _key_row(each: Prepared) -> tuple[object, ...]:
    return (each.key, *each.facts)


def _artifact_row(each: Prepared) -> tuple[str, ...]:
    checksum = each.facts.artifact_checksum or ""
    return (*artifact_version(each.event), each.event.dataset_id, checksum, each.key)


def _event_rows(
    each: Prepared, given: dict[str, list[str]], ids: Iterator[str]
) -> list[tuple[object, ...]]:
    """Return one row for each target; all share key and payload."""
    event, payload = each.event, each.body.decode()
    new = list(islice(ids, len(each.targets)))
    given[each.key] = new
    return [
        (
            outbox_id,
            each.subject,
            event.pipeline_id,
            event.event_name,
            event.dataset_id,
            event.version,
            each.key,
            target,
            payload,
            event.care_label,
            event.governance_ref,
        )
        for outbox_id, target in zip(new, each.targets, strict=True)
    ]


def _duplicate_row(each: Prepared) -> tuple[str, ...]:
    return each.key, each.event.pipeline_id, each.event.event_name
