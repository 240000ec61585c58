"""What successes write beside the ledger: items, provenance and events, in the same transaction."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tallgrass.canonical_json import sha256_hex
from tallgrass.clock import format_instant
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.vocabulary import StacStatus
from tallgrass.operators.effects import Effects, EventEffect, ItemEffect
from tallgrass.outbox.outbox_ids import OutboxIds
from tallgrass.stac.search import reach_of
from tallgrass.stac.span import Span, merged, span_from, span_of
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction, write_all

_Rows = list[tuple[object, ...]]


class StagedEffects(NamedTuple):
    """What one success writes."""

    claim: Claim
    stac_status: StacStatus
    effects: Effects


class CatalogWrites:
    """Writes the effects of the winners of a commit; never those of a unit that lost or failed."""

    def __init__(self, *, pipeline_id: str, ids: Callable[[], UUID]) -> None:
        self._pipeline_id = pipeline_id
        self._ids = OutboxIds(lambda: ids().int)

    def write(self, tx: Transaction, winners: Sequence[StagedEffects], now: datetime) -> None:
        """Write all effects in id order; an item of another owner undoes the whole batch."""
        created: _Rows = []
        updated: _Rows = []
        renamed: _Rows = []
        documents: _Rows = []
        events: _Rows = []
        items: dict[str, list[ItemEffect]] = {}
        for claim, stac_status, effects in winners:
            if effects.item is not None:
                items.setdefault(effects.item.collection_id, []).append(effects.item)
                row = _item_row(claim, effects.item)
                if effects.replaces is not None:
                    former = (effects.replaces.collection_id, effects.replaces.item_id)
                    renamed.append((*former, *row))
                elif stac_status is StacStatus.CREATED:
                    created.append(row)
                else:
                    updated.append(row)
            if effects.provenance is not None:
                document = effects.provenance
                documents.append(
                    (
                        claim.wal_id,
                        document.activity_id,
                        claim.attempt_no,
                        document.body.decode(),
                        document.sha256,
                        document.run.decode(),
                    )
                )
            for event in effects.events:
                events.extend(_event_rows(claim, event))
        if renamed:
            self._rename(tx, renamed, now)
        write_all(tx, "insert_items", created, now=now)
        write_all(tx, "update_items", updated, now=now)
        tx.write("insert_spans", [(name, span_of(own).text()) for name, own in items.items()])
        tx.write("insert_provenance", documents, now=now)
        ids = self._ids.several(now, len(events))
        named = [(each, *row) for each, row in zip(ids, events, strict=True)]
        tx.write("insert_events", named, now=now, pipeline_id=self._pipeline_id)

    def _rename(self, tx: Transaction, rows: _Rows, now: datetime) -> None:
        """Give items other ids, and note those that they had.

        This comes before all other writes to items: a copy that begins meanwhile waits for the
        notes first, then for the items.
        """
        notes: _Rows = [(row[0], row[1], row[4], row[5]) for row in rows]
        write_all(tx, "note_replaced", notes, now=now)
        write_all(tx, "rename_items", rows, now=now)


def _event_rows(claim: Claim, event: EventEffect) -> _Rows:
    """Return one row for each target, which has no id yet; all share key and payload."""
    payload = event.payload.decode()
    return [
        (
            claim.wal_id,
            event.event_name,
            event.dataset_id,
            event.version,
            event.idempotency_key,
            target,
            payload,
            event.care_label,
            event.governance_ref,
        )
        for target in event.targets
    ]


def _item_row(claim: Claim, item: ItemEffect) -> tuple[object, ...]:
    return (
        item.collection_id,
        item.item_id,
        claim.wal_id,
        claim.attempt_no,
        item.body.decode(),
        item.sha256,
        *item.bbox,
        format_instant(item.start),
        format_instant(item.end),
        format_instant(item.instant),
        reach_of(item.start, item.instant, item.end).value,
    )


class CollectionStore:
    """Keeps the documents of collections, and what their items span.

    A collection is there before its items. What they span is noted by each commit; to gather the
    notes takes a turn for each collection, so that any number of processes may try.
    """

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def names(self) -> frozenset[str]:
        """Return the ids of the collections that are there."""
        with self._runner.database.reading() as tx:
            return frozenset(row["collection_id"] for row in tx.select("collection_names"))

    def put(self, documents: Sequence[tuple[str, bytes]]) -> None:
        """Store collections, each an id and a body; one that is there already stays as it is."""
        if not documents:
            return
        rows = [(name, body.decode(), sha256_hex(body)) for name, body in sorted(documents)]
        self._runner.run(lambda tx: tx.write("insert_collections", rows, now=tx.now()))

    def replace(self, documents: Sequence[tuple[str, bytes]]) -> int:
        """Replace collections that are there already; return how many changed."""
        rows = [(name, body.decode(), sha256_hex(body)) for name, body in sorted(documents)]
        return self._runner.run(lambda tx: tx.write("update_collections", rows, now=tx.now()))

    def waiting(self) -> dict[str, bool]:
        """Return the collections with notes to gather, and whether any were gathered before."""
        with self._runner.database.reading() as tx:
            rows = tx.select("waiting_spans")
        return {row["collection_id"]: bool(row["known"]) for row in rows}

    def gather(
        self,
        collection_id: str,
        whole: Span | None,
        *,
        names: Collection[str],
        renewed: Callable[[bytes, Span], bytes],
    ) -> bool:
        """Gather what is noted, and renew the collection by it; tell whether that changed it.

        Of properties, only the named ones are kept. Where the span of all items was read, it is
        given as `whole` and takes the place of what was gathered before.
        """

        def work(tx: Transaction) -> bool:
            tx.lock("lock_collections", [collection_id])
            rows = tx.select("spans_of", collection_id=collection_id)
            kept = [row for row in rows if whole is None or not row["gathered"]]
            found = [span_from(row["span"]) for row in kept] + ([] if whole is None else [whole])
            stored = tx.select("collection_body", collection_id=collection_id)
            if not found or not stored:
                return False
            span = merged(found).limited_to(names)
            body = renewed(bytes(stored[0]["body"]), span)
            tx.write("delete_spans", [(row["span_id"],) for row in rows])
            tx.execute("insert_gathered", collection_id=collection_id, span=span.text())
            changed = [(collection_id, body.decode(), sha256_hex(body))]
            return tx.write("update_collections", changed, now=tx.now()) > 0

        return self._runner.run(work)
