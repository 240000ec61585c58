"""What the outbox shows, by reading alone."""

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from tallgrass.outbox.deliveries import (
    DeliveryAttempt,
    DeliveryFilter,
    LastFailure,
    LedgerEntry,
    StoredDelivery,
    TargetCounts,
    TransactionWait,
    WholeDelivery,
)
from tallgrass.outbox.dispatch_rules import AttemptOutcome, DeliveryState
from tallgrass.outbox.event import OutboxEvent
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Row, Transaction

_PAGE_SIZE = 1000
_EVERYTHING = DeliveryFilter()
#: Comes before every id, and after every.
_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_CODED, _FAILED, _OPEN = "_coded", "_failed", "_open"
#: Which index holds the deliveries of a state, and few others.
_INDEX_OF_STATE = {
    DeliveryState.PENDING: _OPEN,
    DeliveryState.IN_FLIGHT: _OPEN,
    DeliveryState.RETRYING: _FAILED,
    DeliveryState.EXHAUSTED: _FAILED,
}
#: The columns of an event that need no reading; the time and the attempt come after them.
_WRITTEN = itemgetter(*OutboxEvent._fields[: OutboxEvent._fields.index("created_at")])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPage:
    """Deliveries in the order of their ids; `next_cursor` is None on the last page."""

    deliveries: list[StoredDelivery]
    next_cursor: str | None


class OutboxReader:
    """Counts, lists and tells of deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self, *, with_dispatched: bool = False) -> dict[str, TargetCounts]:
        """Count the events of each target that are not delivered, and those that are if asked."""
        with self._database.reading() as tx:
            found = {
                row["target"]: TargetCounts(
                    target=row["target"],
                    pending=row["pending"],
                    in_flight=row["in_flight"],
                    retrying=row["retrying"],
                    exhausted=row["exhausted"],
                    dispatched=0 if with_dispatched else None,
                    oldest_at=instant_or_none(row["oldest_at"]),
                )
                for row in tx.select("count_open_deliveries")
            }
            for row in tx.select("count_dispatched") if with_dispatched else ():
                before = found.get(row["target"], TargetCounts(target=row["target"]))
                found[row["target"]] = replace(before, dispatched=row["dispatched"])
        return dict(sorted(found.items()))

    def held_back(self, target: str) -> dict[str, int]:
        """Count by dataset what stands behind an exhausted event of an ordered target."""
        with self._database.reading() as tx:
            rows = tx.select("count_held_back", target=target)
            return {row["dataset_id"]: row["held"] for row in rows}

    def last_failures(self) -> dict[str, LastFailure]:
        """Return what keeps a target's events, by target, where one is to be tried again."""
        with self._database.reading() as tx:
            return {
                row["target"]: LastFailure(
                    error_code=row["error_code"],
                    last_error=row["last_error"],
                    next_try_at=instant(row["next_try_at"]),
                    due=row["due"],
                )
                for row in tx.select("last_failures", now=tx.now())
            }

    def waits_for_transaction(self, target: str) -> TransactionWait | None:
        """Return which open transaction the events of an ordered target wait for; None if none."""
        with self._database.reading() as tx:
            now = tx.now()
            for row in tx.select("waits_for_transaction", now=now, target=target):
                since = instant_or_none(row["since"])
                return TransactionWait(
                    events=row["events"],
                    open_s=None if since is None else max(0.0, (now - since).total_seconds()),
                    pid=row["pid"],
                )
        return None

    def page(
        self,
        wanted: DeliveryFilter = _EVERYTHING,
        *,
        after: str | None = None,
        size: int = 100,
        look_at_most: int | None = None,
    ) -> DeliveryPage:
        """Return a page of deliveries in the order of their ids.

        What no index tells is looked for in `look_at_most` deliveries; a page that ends there may
        be short, even empty, and still names the next.
        """
        kind, after = _index_for(wanted), after or _FIRST_ID
        with self._database.reading() as tx:
            horizon = None
            if look_at_most is not None and wanted != _EVERYTHING and kind != _OPEN:
                coded = {"error_code": wanted.error_code} if kind == _CODED else {}
                ends = tx.select(
                    f"deliveries_end{kind}", after=after, skipped=look_at_most - 1, **coded
                )
                horizon = ends[0]["outbox_id"] if ends else None
            rows = tx.select(
                f"list_deliveries{kind}",
                after=after,
                until=horizon or _LAST_ID,
                size=size + 1,
                target=wanted.target,
                dataset=wanted.dataset,
                event_name=wanted.event_name,
                error_code=wanted.error_code,
                state=wanted.state,
            )
        found = [_delivery(row) for row in rows]
        more = found[size - 1].outbox_id if len(found) > size else horizon
        return DeliveryPage(deliveries=found[:size], next_cursor=more)

    def of_unit(self, wal_id: str, *, size: int = 100) -> list[StoredDelivery]:
        """Return the events that tell of a unit, the newest first."""
        with self._database.reading() as tx:
            rows = tx.select("deliveries_of_subject", subject=wal_id, size=size)
            return [_delivery(row) for row in rows]

    def find(self, outbox_id: str) -> WholeDelivery | None:
        """Return one delivery with its event and attempts; None if there is no such event."""
        with self._database.reading() as tx:
            rows = tx.select("deliveries_by_id", rows=[outbox_id])
            if not rows:
                return None
            event = tx.select("outbox_events", rows=[outbox_id])[0]
            attempts = tx.select("attempts_of_event", outbox_id=outbox_id)
        delivery = _delivery(rows[0])
        return WholeDelivery(
            delivery=delivery,
            event=event_from(event, delivery.attempt),
            attempts=tuple(
                DeliveryAttempt(
                    attempt=row["attempt"],
                    dispatcher=row["dispatcher"],
                    outcome=AttemptOutcome(row["outcome"]),
                    duplicate=bool(row["duplicate"]),
                    error_code=row["error_code"],
                    error=row["error"],
                    ended_at=instant(row["ended_at"]),
                )
                for row in attempts
            ),
        )

    def ledger(
        self, read_archive: Callable[[Row], Iterable[Row]]
    ) -> Generator[LedgerEntry, None, None]:
        """Yield every attempt that ended, by event and attempt, as of one moment.

        What left for archives is among them; `read_archive` yields the events of one.
        """
        with self._database.reading() as tx:
            chains = _chains(tx.select("archived_events"))
            archived = [_archived(tx, chain, read_archive) for chain in chains]
            told = None
            for entry in heapq.merge(_stored(tx), *archived, key=_key):
                # What has yet to leave is in both places.
                if (key := _key(entry)) != told:
                    yield entry
                told = key


def _index_for(wanted: DeliveryFilter) -> str:
    """Return which statement reads the fewest deliveries."""
    if wanted.error_code is not None:
        return _CODED
    return "" if wanted.state is None else _INDEX_OF_STATE.get(wanted.state, "")


def event_from(row: Row, attempt: int) -> OutboxEvent:
    """Read a row of the outbox, claimed for an attempt."""
    return OutboxEvent._make((*_WRITTEN(row), instant(row["created_at"]), attempt, None))


def _delivery(row: Row) -> StoredDelivery:
    return StoredDelivery(
        outbox_id=row["outbox_id"],
        target=row["target"],
        pipeline_id=row["pipeline_id"],
        event_name=row["event_name"],
        dataset_id=row["dataset_id"],
        state=DeliveryState(row["state"]),
        status=row["status"],
        attempt=row["attempt"],
        due_at=instant_or_none(row["due_at"]),
        error_code=row["error_code"],
        last_error=row["last_error"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )


def _stored(tx: Transaction) -> Iterator[LedgerEntry]:
    """Yield the attempts that are in the database."""
    after = (_FIRST_ID, 0)
    while rows := tx.select(
        "delivery_ledger", after_id=after[0], after_attempt=after[1], size=_PAGE_SIZE
    ):
        yield from map(_entry, rows)
        after = (rows[-1]["outbox_id"], rows[-1]["attempt"])


def _chains(archives: Sequence[Row]) -> list[list[Row]]:
    """Put archives that do not overlap one behind the other: of a chain one file is open at a time.

    They come in the order of their first keys.
    """
    chains: list[list[Row]] = []
    for archive in archives:
        before = (each for each in chains if each[-1]["last_key"] < archive["first_key"])
        if (chain := next(before, None)) is None:
            chains.append(chain := [])
        chain.append(archive)
    return chains


def _archived(
    tx: Transaction, chain: Sequence[Row], read_archive: Callable[[Row], Iterable[Row]]
) -> Iterator[LedgerEntry]:
    """Yield the attempts that archives hold."""
    for archive in chain:
        for number, event in enumerate(read_archive(archive)):
            if number % _PAGE_SIZE == 0:
                tx.now()  # a transaction that does nothing for long is ended by the server
            for attempt in event["attempts"]:
                yield _entry({**event, **attempt})


def _key(entry: LedgerEntry) -> tuple[str, int]:
    return entry.outbox_id, entry.attempt


def _entry(row: Row) -> LedgerEntry:
    return LedgerEntry(
        outbox_id=row["outbox_id"],
        pipeline_id=row["pipeline_id"],
        event_name=row["event_name"],
        dataset_id=row["dataset_id"],
        target=row["target"],
        care_label=row["care_label"],
        attempt=row["attempt"],
        outcome=AttemptOutcome(row["outcome"]),
        duplicate=bool(row["duplicate"]),
        error_code=row["error_code"],
        error=row["error"],
        created_at=instant(row["created_at"]),
        ended_at=instant(row["ended_at"]),
    )
