"""What a listing tells against the ledger: which objects it lacks, and making them due.

New objects and overwritten ones are decided by the receipt table, as those that a message
announces; but none is claimed here: a worker finds them due, in the order of their data times.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from tallgrass.inventory.listed import ListedObject
from tallgrass.ledger.claim import WorkerLease
from tallgrass.ledger.object_order import ObjectOrder, compare_objects
from tallgrass.ledger.receipt import NEW_UNIT, Action, Decision, Known, decide_receipt
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import Intent, JournalReason, Status
from tallgrass.storage.claim_writes import ClaimWrites
from tallgrass.storage.ledger import newest_by_object
from tallgrass.storage.rows import known_from, known_object
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Row, Transaction
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder, count_each

_Decided = tuple[dict[str, Decision], ClaimWrites]
_NOBODYS_CLAIM = str(UUID(int=0))


class InventoryStore:
    """The ledger as backfill and follow use it."""

    def __init__(
        self,
        runner: TransactionRunner,
        rules: LedgerRules,
        *,
        worker_id: str,
        run_id: str,
        intent: Intent,
        as_of_now: bool = True,
        dry_run: bool = False,
        recorder: Recorder = NOBODY,
    ) -> None:
        self._runner = runner
        self._rules = rules
        #: Names who records; it holds no lease, as it claims nothing.
        self._by = WorkerLease(
            incarnation=run_id, worker_id=worker_id, ingest_run_id=run_id, lease_s=0.0
        )
        self._intent = intent
        #: Whether the list tells what is there now. An old one tells that there was another version
        #: than the ledger knows, but the one that will be read may be newer still.
        self._as_of_now = as_of_now
        self._dry_run = dry_run
        self._recorder = recorder

    def unsettled(self, listed: Sequence[ListedObject]) -> Sequence[int]:
        """Return the places of those that the ledger lacks, or knows with another etag or size.

        Where either side does not tell an etag or a size, it is not compared.
        """
        rows = [(each.uri, each.etag, each.size) for each in listed]
        with self._runner.database.reading() as tx:
            return [row["place"] for row in tx.select("unsettled_objects", rows=rows)]

    def record_due(self, units: Sequence[IngestUnit]) -> Sequence[Decision]:
        """Make units due that are new, or whose object is newer; one decision each, in order."""
        newest = newest_by_object(units)
        if self._dry_run:
            with self._runner.database.reading() as tx:
                decided, _ = self._decide(tx, newest)
        else:
            decided, writes = self._runner.run(lambda tx: self._record(tx, newest), self._landed)
            count_each(self._recorder, names.WAL_RECORDS, writes.entered())
            count_each(self._recorder, names.WAL_REPLAYS, writes.put_back)
        return [
            decided[unit.object_uri] if unit is newest[unit.object_uri] else _TWICE
            for unit in units
        ]

    def _record(self, tx: Transaction, newest: dict[str, IngestUnit]) -> _Decided:
        tx.lock("lock_objects", list(newest))
        decided, writes = self._decide(tx, newest)
        writes.write(tx, "", "")  # no attempt is opened, so no version is kept
        return decided, writes

    def _decide(self, tx: Transaction, newest: dict[str, IngestUnit]) -> _Decided:
        known = {row["object_uri"]: row for row in tx.select("known_objects", rows=list(newest))}
        now = tx.now()
        writes = ClaimWrites(self._by, _NOBODYS_CLAIM, now, known.values())
        decided: dict[str, Decision] = {}
        # In id order: rows are locked and inserted the same way round by every worker.
        for uri, unit in sorted(newest.items(), key=lambda pair: pair[1].wal_id):
            row = known.get(uri)
            if row is None:
                writes.insert(self._announced(unit), parked=True, intent=self._intent)
                decided[uri] = NEW_UNIT
            else:
                decided[uri] = self._decide_known(unit, row, now, writes)
        return decided, writes

    def _decide_known(
        self, unit: IngestUnit, row: Row, now: datetime, writes: ClaimWrites
    ) -> Decision:
        """Decide as on a message that comes while the dataset is off: nothing is claimed here."""
        known = known_from(row)
        order = _order(unit.object_ref, known_object(row))
        decision = decide_receipt(known, order, now=now, switched_off=True, rules=self._rules)
        if decision.action is Action.PARK:
            if _waits_already(known, decision):
                return _DUE
            newer = decision.adopts_object
            reason = JournalReason.NEWER_OBJECT if newer else JournalReason.LISTED_OBJECT
            writes.park(self._announced(unit), known, decision, row, reason=reason.value)
        elif decision.action is Action.RECORD_NEWER:
            writes.record_newer(self._announced(unit), known)
        return decision

    def _landed(self, tx: Transaction, done: _Decided) -> bool:
        """Ask whether a batch is in the database; one that wrote nothing need not be.

        That others know its objects proves nothing: they may have heard of them meanwhile. Where
        no record tells of this run, the batch is written again, which does no harm: what it had
        recorded is found as due.
        """
        writes = done[1]
        if not (writes.inserts or writes.parks or writes.resets):
            return True
        inserted = [row[0] for row in writes.inserts]
        return bool(tx.select("recorded_by_run", rows=inserted, run=self._by.ingest_run_id))

    def _announced(self, unit: IngestUnit) -> IngestUnit:
        """Return the unit as the ledger keeps it: whichever version is read is the right one."""
        return unit if self._as_of_now else replace(unit, object_ref=ObjectReference())


_TWICE = Decision(action=Action.DUPLICATE)
_DUE = Decision(action=Action.DUE)


def _order(listed: ObjectReference, known: ObjectReference) -> ObjectOrder:
    """Compare as for a message; where no etag tells, another size is a newer object."""
    order = compare_objects(listed, known)
    sizes = {listed.size, known.size}
    resized = len(sizes) > 1 and None not in sizes
    return ObjectOrder.NEWER if order is ObjectOrder.INCOMPARABLE and resized else order


def _waits_already(known: Known, decision: Decision) -> bool:
    """Tell whether the unit is due as it is: nothing is written then, and nothing is news."""
    pending = known.status is Status.PENDING and known.due_at is not None
    return pending and not decision.adopts_object
