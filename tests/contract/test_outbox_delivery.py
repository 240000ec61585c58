"""Deliveries on both databases: claimed once, fenced, retried, exhausted, asked for again."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput
from tallgrass.governance.switches import SwitchScope
from tallgrass.outbox.deliveries import DeliveryFilter
from tallgrass.outbox.dispatch_rules import (
    AttemptOutcome,
    ClaimedEvent,
    Claims,
    DeliveryState,
    DispatchRules,
    Settlement,
    release,
)
from tests.support.backends import Backend, ManualClock, prepare
from tests.support.events import CREATED_AT, event_id, insert, payload_of, row, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.bootstrap.stores import Stores
    from tests.plugins.postgres import Databases

ONE, TWO = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
RULES = DispatchRules()
#: A database's time: SQLite's is the injected clock, PostgreSQL's its own.
LONG_AGO = "2000-01-01T00:00:00.000000Z"
#: How often an ordered claim is made anew, and how long after the last.
LOOKS, BETWEEN_LOOKS_S = 200, 0.05


class Outbox:
    """Stores over an outbox, with shorter words for the tests."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.clock = ManualClock(parse_instant(CREATED_AT) + timedelta(minutes=1))
        self.stores: Stores = backend.open(clock=self.clock)
        self.store = self.stores.outbox

    def claim(self, dispatcher: str = ONE, limit: int = 100, **options: Any) -> list[ClaimedEvent]:
        """Claim of the target `t`."""
        return list(self.claims(dispatcher, limit, **options).events)

    def claims(self, dispatcher: str = ONE, limit: int = 100, **options: Any) -> Claims:
        """Claim of the target `t`; return what was given up as well."""
        options = {"rules": RULES, **options}
        return self.store.claim("t", dispatcher=dispatcher, limit=limit, **options)

    def ordered(self, count: int = 1) -> list[ClaimedEvent]:
        """Claim in order until so many events have come, or far too often; sorted by id.

        On PostgreSQL a transaction of another database that ends during the look holds events
        back once more, and tests beside this one write in such databases all the time.
        """
        found: list[ClaimedEvent] = []
        for _ in range(LOOKS):
            found += self.claim(ordered=True)
            if len(found) >= count:
                break
            time.sleep(BETWEEN_LOOKS_S)
        return sorted(found, key=lambda one: one.event.outbox_id)

    def settle(self, claims: Sequence[ClaimedEvent], dispatcher: str = ONE, **how: Any) -> set[str]:
        """Settle all alike; return the lost."""
        values: dict[str, Any] = {"outcome": AttemptOutcome.DISPATCHED, **how}
        settlements = [Settlement(event=one.event, **values) for one in claims]
        return set(self.store.settle(dispatcher, settlements).lost)

    def fail(self, claims: Sequence[ClaimedEvent], wait_s: float | None, **how: Any) -> set[str]:
        """Settle all as failed."""
        values: dict[str, Any] = {"error_code": "sink_timeout", "error": "late", **how}
        return self.settle(claims, outcome=AttemptOutcome.FAILED, wait_s=wait_s, **values)

    def expire(self) -> None:
        """Let all leases and waits end."""
        self.backend.sql("UPDATE outbox_delivery SET due_at = ? WHERE due_at IS NOT NULL", LONG_AGO)

    def deliveries(self) -> list[tuple[Any, ...]]:
        """Return how each delivery stands, by raw SQL."""
        return self.backend.sql(
            "SELECT status, attempt, budget_from, due_at IS NOT NULL, claimed_by, error_code,"
            " last_error FROM outbox_delivery ORDER BY outbox_id"
        )

    def attempts(self) -> list[tuple[Any, ...]]:
        """Return all attempts that ended, by raw SQL."""
        return self.backend.sql(
            "SELECT attempt, dispatcher, outcome, error_code FROM outbox_attempts"
            " ORDER BY outbox_id, attempt"
        )


@pytest.fixture
def outbox(backend: Backend) -> Outbox:
    """An outbox without events."""
    return Outbox(backend)


def ids(claims: Sequence[ClaimedEvent]) -> list[str]:
    """Return the ids of claimed events."""
    return [one.event.outbox_id for one in claims]


@pytest.mark.conformance("OB-4.1", "OB-2.4")
def test_a_claim_hands_out_the_event_as_it_was_written(outbox: Outbox) -> None:
    """Every field, the payload byte by byte, and the attempt that it is for."""
    write(outbox.backend, 7, dataset="goes-glm")
    (claimed,) = outbox.claim()
    event = claimed.event
    assert (event.outbox_id, event.subject) == (event_id(7), "subject-7")
    assert (event.pipeline_id, event.event_name, event.dataset_id) == (
        "pipeline",
        "made",
        "goes-glm",
    )
    assert (event.version, event.idempotency_key, event.target) == ("1.0.0", "key-7", "t")
    assert event.payload == payload_of(7)
    assert (event.care_label, event.governance_ref) == ("public", None)
    assert format_instant(event.created_at) == CREATED_AT
    assert (event.attempt, claimed.tries) == (1, 1)


@pytest.mark.conformance("OB-4.2", "OB-2.6", "C-31")
def test_what_is_claimed_is_nobody_elses(outbox: Outbox) -> None:
    """The attempt counts from the claim on; a second claim gets nothing before the lease ends."""
    write(outbox.backend, 1, 2)
    first = outbox.claim(limit=1)
    second = outbox.claim(TWO)
    assert ids(first) == [event_id(1)]
    assert ids(second) == [event_id(2)]
    assert outbox.claim() == []
    assert outbox.deliveries() == [
        ("pending", 1, 0, 1, ONE, None, None),
        ("pending", 1, 0, 1, TWO, None, None),
    ]


def test_a_lease_lasts_as_long_as_it_is_said_to(outbox: Outbox) -> None:
    """The due time moves to the end of the lease, by the database's clock."""
    write(outbox.backend, 1)
    before = _now(outbox)
    outbox.claim(rules=DispatchRules(lease_s=90.0))
    after = _now(outbox)
    due_at = parse_instant(outbox.backend.sql("SELECT due_at FROM outbox_delivery")[0][0])
    assert before + timedelta(seconds=90) <= due_at <= after + timedelta(seconds=90)


def _now(outbox: Outbox) -> Any:
    with outbox.stores.database.reading() as tx:
        return tx.now()


def test_claims_come_in_order_of_due_time_and_of_one_target_only(outbox: Outbox) -> None:
    """The longest waiting comes first; other targets are left alone."""
    write(outbox.backend, 1, created_at="2026-06-01T12:00:02.000000Z")
    write(outbox.backend, 2, created_at="2026-06-01T12:00:01.000000Z")
    write(outbox.backend, 3, target="other")
    assert outbox.store.is_due("t")
    assert not outbox.store.is_due("nowhere")
    assert ids(outbox.claim()) == [event_id(2), event_id(1)]
    assert not outbox.store.is_due("t")
    assert outbox.store.is_due("other")


@pytest.mark.conformance("OB-4.4")
def test_a_delivery_is_dispatched_once_and_for_good(outbox: Outbox) -> None:
    """Success is final: no later report, not even of its own dispatcher, can undo it."""
    write(outbox.backend, 1)
    claims = outbox.claim()
    assert outbox.settle(claims) == set()
    assert outbox.deliveries() == [("dispatched", 1, 0, 0, None, None, None)]
    assert outbox.fail(claims, 1.0) == {event_id(1)}
    assert outbox.fail(claims, None) == {event_id(1)}
    assert outbox.deliveries() == [("dispatched", 1, 0, 0, None, None, None)]
    assert outbox.attempts() == [(1, ONE, "dispatched", None)]
    outbox.expire()
    assert outbox.claim() == []


@pytest.mark.conformance("OB-4.5", "C-30", "OB-2.7")
def test_a_failure_is_due_again_after_its_wait(outbox: Outbox) -> None:
    """Failed with a due time: tried again then, with the error kept, without secrets."""
    write(outbox.backend, 1)
    before = _now(outbox)
    secret = "s3cr3t-t0ken-value"  # noqa: S105 - one that must not be kept
    outbox.fail(outbox.claim(), 30.0, error=f"token={secret} " + "x" * 2000)
    ((status, attempt, _, due, holder, code, error),) = outbox.deliveries()
    assert (status, attempt, due, holder, code) == ("failed", 1, 1, None, "sink_timeout")
    assert secret not in error
    assert len(error) <= 500
    due_at = parse_instant(outbox.backend.sql("SELECT due_at FROM outbox_delivery")[0][0])
    assert before + timedelta(seconds=30) <= due_at <= _now(outbox) + timedelta(seconds=30)
    assert outbox.claim() == []
    outbox.expire()
    (again,) = outbox.claim(TWO)
    assert (again.event.attempt, again.tries) == (2, 2)
    outbox.settle([again], TWO)
    assert outbox.deliveries() == [("dispatched", 2, 0, 0, None, None, None)]
    assert outbox.attempts() == [
        (1, ONE, "failed", "sink_timeout"),
        (2, TWO, "dispatched", None),
    ]


@pytest.mark.conformance("OB-4.8", "C-30")
def test_a_failure_without_a_wait_is_exhausted(outbox: Outbox) -> None:
    """It stays failed and is never due by itself."""
    write(outbox.backend, 1)
    outbox.fail(outbox.claim(), None)
    outbox.expire()
    assert outbox.claim() == []
    assert outbox.deliveries() == [("failed", 1, 0, 0, None, "sink_timeout", "late")]


@pytest.mark.conformance("OB-2.8")
def test_the_time_of_change_moves_with_the_status_only(outbox: Outbox) -> None:
    """A claim, a lost lease and a second failure change no status, so they leave it alone."""
    write(outbox.backend, 1)

    def changed_at() -> str:
        return str(outbox.backend.sql("SELECT updated_at FROM outbox_delivery")[0][0])

    assert changed_at() == CREATED_AT
    outbox.claim()
    outbox.clock.advance(1)
    outbox.expire()
    claims = outbox.claim()
    assert changed_at() == CREATED_AT
    outbox.fail(claims, 0.0)
    failed_at = changed_at()
    assert failed_at > CREATED_AT
    outbox.clock.advance(1)
    outbox.expire()
    outbox.fail(outbox.claim(), 0.0)
    assert changed_at() == failed_at
    outbox.clock.advance(1)
    outbox.expire()
    outbox.settle(outbox.claim())
    assert changed_at() > failed_at


@pytest.mark.conformance("OB-4.10", "OB-4.9")
def test_a_late_result_is_fenced(outbox: Outbox) -> None:
    """Whoever lost its lease writes nothing, whatever it says; the new holder's word counts."""
    write(outbox.backend, 1)
    late = outbox.claim(ONE)
    outbox.expire()
    current = outbox.claim(TWO)
    assert [one.event.attempt for one in (*late, *current)] == [1, 2]
    for outcome, wait_s in (
        (AttemptOutcome.DISPATCHED, None),
        (AttemptOutcome.FAILED, 1.0),
        (AttemptOutcome.FAILED, None),
        (AttemptOutcome.RELEASED, 0.0),
    ):
        assert outbox.settle(late, ONE, outcome=outcome, wait_s=wait_s) == {event_id(1)}
    assert outbox.deliveries() == [("pending", 2, 0, 1, TWO, None, None)]
    assert outbox.attempts() == [(1, ONE, "lost", "dispatcher_lost")]
    outbox.settle(current, TWO)
    assert outbox.attempts()[1:] == [(2, TWO, "dispatched", None)]


@pytest.mark.conformance("OB-4.10")
def test_an_earlier_attempt_of_the_same_dispatcher_is_fenced_too(outbox: Outbox) -> None:
    """The attempt is the token, not the name: a dispatcher cannot settle its own lost attempt."""
    write(outbox.backend, 1)
    late = outbox.claim(ONE)
    outbox.expire()
    current = outbox.claim(ONE)
    assert outbox.settle(late) == {event_id(1)}
    assert outbox.settle(current) == set()
    assert [attempt[:3] for attempt in outbox.attempts()] == [
        (1, ONE, "lost"),
        (2, ONE, "dispatched"),
    ]


def test_of_a_batch_only_the_lost_are_left_out(outbox: Outbox) -> None:
    """What is still the dispatcher's is written beside what is not."""
    write(outbox.backend, 1, 2, 3)
    claims = outbox.claim()
    outbox.backend.sql(
        "UPDATE outbox_delivery SET due_at = ? WHERE outbox_id = ?", LONG_AGO, event_id(2)
    )
    outbox.claim(TWO)
    assert outbox.settle(claims) == {event_id(2)}
    assert [status for status, *_ in outbox.deliveries()] == ["dispatched", "pending", "dispatched"]


@pytest.mark.conformance("OB-4.7", "OB-2.6")
def test_the_last_attempt_may_be_lost_but_none_follows(outbox: Outbox) -> None:
    """A dispatcher that dies costs an attempt; at the limit the event is exhausted, not sent."""
    write(outbox.backend, 1, 2)
    for _ in range(5):
        assert len(outbox.claim()) == 2
        outbox.expire()
    assert outbox.claim() == []
    said = "the last dispatcher that had it was not heard of again"
    assert outbox.deliveries() == [("failed", 5, 0, 0, None, "dispatcher_lost", said)] * 2
    assert [outcome for _, _, outcome, _ in outbox.attempts()] == ["lost"] * 10
    outbox.expire()
    assert outbox.claim() == []


def test_a_claim_tells_what_it_gave_up(outbox: Outbox) -> None:
    """Of events without a try left the claim tells how they stand, beside those it hands out."""
    write(outbox.backend, 1)
    once = DispatchRules(attempts_max=1)
    assert ids(outbox.claim(rules=once)) == [event_id(1)]
    outbox.expire()
    write(outbox.backend, 2)
    claims = outbox.claims(TWO, rules=once)
    assert ids(claims.events) == [event_id(2)]
    (given_up,) = claims.exhausted
    assert (given_up.event.outbox_id, given_up.event.attempt) == (event_id(1), 1)
    assert given_up.exhausted
    assert given_up.error_code == "dispatcher_lost"
    assert given_up.error == "the last dispatcher that had it was not heard of again"


def test_fewer_attempts_than_were_made_keep_the_true_error(outbox: Outbox) -> None:
    """A lower limit gives up what failed before by its own error, not by a lost dispatcher."""
    write(outbox.backend, 1)
    for _ in range(2):
        outbox.fail(outbox.claim(), 0.0)
        outbox.expire()
    claims = outbox.claims(rules=DispatchRules(attempts_max=2))
    assert not claims.events
    assert [(one.error_code, one.error) for one in claims.exhausted] == [("sink_timeout", "late")]
    assert outbox.deliveries() == [("failed", 2, 0, 0, None, "sink_timeout", "late")]
    assert [outcome for _, _, outcome, _ in outbox.attempts()] == ["failed", "failed"]


def test_what_is_given_back_costs_no_try(outbox: Outbox) -> None:
    """A released event is due at once, and keeps all of its attempts for sends."""
    write(outbox.backend, 1)
    for number in range(1, 8):
        (claimed,) = outbox.claim()
        assert (claimed.event.attempt, claimed.tries) == (number, 1)
        assert outbox.store.settle(ONE, [release(claimed)]).lost == set()
    outbox.claim()
    assert outbox.deliveries() == [("pending", 8, 7, 1, ONE, None, None)]
    assert {outcome for _, _, outcome, _ in outbox.attempts()} == {"released"}


def test_a_dispatcher_can_give_back_what_it_does_not_know_of(outbox: Outbox) -> None:
    """After a claim whose answer was lost, all that it holds is due again; others keep theirs."""
    write(outbox.backend, 1, 2, 3)
    outbox.claim(ONE, limit=2)
    outbox.claim(TWO)
    assert outbox.store.abandon("t", ONE) == 2
    assert outbox.store.abandon("t", ONE) == 0
    assert [holder for *_, holder, _, _ in outbox.deliveries()] == [None, None, TWO]
    assert ids(outbox.claim(TWO)) == [event_id(1), event_id(2)]


@pytest.mark.conformance("OB-4.1", "C-32")
def test_a_row_that_commits_late_is_found(outbox: Outbox) -> None:
    """Ids tell no order: a row with a lower id and an older time that commits later is claimed."""
    backend = outbox.backend
    if backend.name == "sqlite":
        write(backend, 2, created_at="2026-06-01T12:00:30.000000Z")
        outbox.settle(outbox.claim())
        write(backend, 1)
    else:
        late = backend.connect()
        late.execute("BEGIN")
        insert(late, backend, [row(1)])
        write(backend, 2, created_at="2026-06-01T12:00:30.000000Z")
        outbox.settle(outbox.claim())
        late.execute("COMMIT")
    assert ids(outbox.claim()) == [event_id(1)]


@pytest.mark.parametrize("dataset", ["d", "*"])
def test_a_switch_stops_what_is_not_yet_claimed(outbox: Outbox, dataset: str) -> None:
    """Nothing of the dataset is handed out while it is on; what is in flight is settled."""
    write(outbox.backend, 1, 2)
    write(outbox.backend, 3, dataset="e")
    claims = outbox.claim(limit=1)

    def switch(*, is_on: bool) -> None:
        outbox.stores.switches.set(
            SwitchScope.DISPATCH, dataset, is_on=is_on, actor="ann", reason="storm"
        )

    switch(is_on=True)
    free = [] if dataset == "*" else [event_id(3)]
    assert ids(outbox.ordered() if free else outbox.claim(ordered=True)) == free
    assert ids(outbox.claim(ordered=True)) == []
    assert ids(outbox.claim()) == []
    assert outbox.settle(claims) == set()
    switch(is_on=False)
    assert event_id(2) in ids(outbox.claim())


def test_a_switch_of_another_scope_does_not_stop_dispatch(outbox: Outbox) -> None:
    """Ingest may be off while what was committed goes out."""
    write(outbox.backend, 1)
    outbox.stores.switches.set(SwitchScope.INGEST, "*", is_on=True, actor="ann", reason="storm")
    assert ids(outbox.claim()) == [event_id(1)]


# --- order ----------------------------------------------------------------------------------------


@pytest.mark.conformance("C-32")
def test_an_ordered_target_gets_one_event_of_a_dataset_at_a_time(outbox: Outbox) -> None:
    """Events of a dataset go out in the order in which they were written, whatever their ids."""
    for number in (3, 1, 2):
        write(outbox.backend, number)
    write(outbox.backend, 9, 4, dataset="e")
    seen: dict[str, list[str]] = {"d": [], "e": []}
    for datasets in (["d", "e"], ["d", "e"], ["d"]):
        claims = outbox.ordered(len(datasets))
        assert outbox.claim(TWO, ordered=True) == []
        assert sorted(one.event.dataset_id for one in claims) == datasets
        for one in claims:
            seen[one.event.dataset_id].append(one.event.outbox_id)
        outbox.settle(claims)
    assert outbox.claim(ordered=True) == []
    assert seen["d"] == [event_id(3), event_id(1), event_id(2)]
    # Of one transaction; PostgreSQL knows no order within it but that of the ids.
    written = [9, 4] if outbox.backend.name == "sqlite" else [4, 9]
    assert seen["e"] == [event_id(number) for number in written]


@pytest.mark.conformance("C-32")
def test_an_ordered_event_waits_for_the_one_before(outbox: Outbox) -> None:
    """Neither a failure nor an exhausted event lets the next one pass; other datasets go on."""
    write(outbox.backend, 1)
    write(outbox.backend, 2)
    write(outbox.backend, 3, dataset="e")
    first, other = outbox.ordered(2)
    outbox.settle([other])
    outbox.fail([first], 60.0)
    assert outbox.claim(ordered=True) == []
    outbox.expire()
    claims = outbox.ordered()
    assert ids(claims) == [event_id(1)]
    outbox.fail(claims, None)
    outbox.expire()
    assert outbox.claim(ordered=True) == []
    assert outbox.stores.deliveries.held_back("t") == {"d": 1}
    outbox.store.requeue([event_id(1)], actor="ann", reason="mended")
    outbox.settle(outbox.ordered())
    assert ids(outbox.ordered()) == [event_id(2)]
    assert outbox.stores.deliveries.held_back("t") == {}


@pytest.mark.conformance("C-32")
def test_an_ordered_event_waits_for_a_transaction_that_began_before(
    postgres_databases: Databases,
) -> None:
    """What was written first goes first, even if its transaction commits last.

    SQLite has one writer at a time: nothing can commit late there.
    """
    outbox = Outbox(Backend("postgres", postgres_databases.create(template(postgres_databases))))
    early = outbox.backend.connect()
    early.execute("BEGIN")
    insert(early, outbox.backend, [row(5)])
    write(outbox.backend, 1)
    assert outbox.claim(ordered=True) == []
    early.execute("COMMIT")
    claims = outbox.ordered()
    assert ids(claims) == [event_id(5)]
    assert outbox.claim(TWO, ordered=True) == []
    outbox.settle(claims)
    assert ids(outbox.ordered()) == [event_id(1)]
    outbox.backend.close()
    postgres_databases.drop(outbox.backend.url)


@pytest.mark.conformance("C-32")
def test_an_ordered_event_does_not_wait_for_another_database(
    postgres_databases: Databases,
) -> None:
    """Who writes in another database of the server writes no event here, however long it takes."""
    outbox = Outbox(Backend("postgres", postgres_databases.create(template(postgres_databases))))
    elsewhere = Backend("postgres", postgres_databases.create())
    unfinished = elsewhere.connect()
    unfinished.execute("BEGIN")
    unfinished.execute("SELECT pg_current_xact_id()")
    write(outbox.backend, 1)
    outbox.settle(claims := outbox.ordered())
    assert ids(claims) == [event_id(1)]
    unfinished.execute("PREPARE TRANSACTION 'elsewhere'")
    write(outbox.backend, 2)
    assert ids(outbox.ordered()) == [event_id(2)]
    unfinished.execute("ROLLBACK PREPARED 'elsewhere'")
    for backend in (outbox.backend, elsewhere):
        backend.close()
        postgres_databases.drop(backend.url)


def template(databases: Databases) -> str:
    """Return the name of a migrated database."""
    return databases.template("ledger", lambda url: prepare("postgres", url).close())


# --- asked for again ------------------------------------------------------------------------------


def exhaust(outbox: Outbox, *numbers: int, **changes: Any) -> None:
    """Write events and give each up at once."""
    code = changes.pop("code", "sink_refused")
    write(outbox.backend, *numbers, **changes)
    target = changes.get("target", "t")
    outbox.fail(
        outbox.store.claim(target, dispatcher=ONE, limit=100, rules=RULES).events,
        None,
        error_code=code,
    )


@pytest.mark.conformance("OB-4.8")
def test_an_exhausted_event_can_be_asked_for_again(outbox: Outbox) -> None:
    """It is due at once with all attempts anew; who asked for it why stands in the audit log."""
    exhaust(outbox, 1, 2)
    done = outbox.store.requeue([event_id(1)], actor="ann", reason="mended")
    assert (done.requeued, done.left_out) == ((event_id(1),), {})
    (claimed,) = outbox.claim()
    assert (claimed.event.outbox_id, claimed.event.attempt, claimed.tries) == (event_id(1), 2, 1)
    assert outbox.deliveries()[1][0] == "failed"
    assert outbox.backend.sql("SELECT actor, action, subject, reason, detail FROM audit_log") == [
        (
            "ann",
            "outbox_requeue",
            f"outbox:{event_id(1)}",
            "mended",
            '{"attempt":1,"error_code":"sink_refused","proved":false,"target":"t"}',
        )
    ]


def test_only_what_is_exhausted_is_asked_for_again(outbox: Outbox) -> None:
    """What is pending, in flight, retrying, done or unknown is left out and told."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, 3, 4, 5)
    claims = outbox.claim(limit=3)
    outbox.settle(claims[:1])
    outbox.fail(claims[1:2], 60.0)
    done = outbox.store.requeue(
        [event_id(number) for number in (1, 2, 3, 4, 5, 6)], actor="ann", reason="mended"
    )
    assert done.requeued == (event_id(1),)
    assert done.left_out == {
        event_id(2): DeliveryState.DISPATCHED,
        event_id(3): DeliveryState.RETRYING,
        event_id(4): DeliveryState.IN_FLIGHT,
        event_id(5): DeliveryState.PENDING,
        event_id(6): None,
    }
    assert outbox.backend.sql("SELECT count(*) FROM audit_log") == [(1,)]


def test_exhausted_events_are_asked_for_by_target_and_code(outbox: Outbox) -> None:
    """Only those that match, each once, each audited; nobody may do it without a name."""
    exhaust(outbox, 1, 2)
    exhaust(outbox, 3, code="sink_timeout")
    exhaust(outbox, 4, target="u")

    def requeue(**wanted: str) -> list[str]:
        options: dict[str, Any] = {"target": None, "error_code": None, **wanted}
        pages = outbox.store.requeue_all(actor="ann", reason="mended", **options)
        return [one for page in pages for one in page]

    assert requeue(target="t", error_code="sink_timeout") == [event_id(3)]
    assert requeue(target="u") == [event_id(4)]
    assert requeue() == [event_id(1), event_id(2)]
    assert requeue() == []
    assert outbox.backend.sql("SELECT count(*) FROM audit_log") == [(4,)]
    with pytest.raises(InvalidInput):
        outbox.store.requeue([event_id(1)], actor=" ", reason="mended")


# --- shown ----------------------------------------------------------------------------------------


def test_deliveries_are_counted_by_target(outbox: Outbox) -> None:
    """Each event is counted once, where it stands; the oldest undelivered one tells the age."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, created_at="2026-06-01T11:00:00.000000Z")
    write(outbox.backend, 3, 4, 5, 6)
    write(outbox.backend, 7, target="u")
    claims = outbox.claim(limit=4)
    outbox.settle(claims[:2])
    outbox.fail(claims[2:3], 60.0)
    counts = outbox.stores.deliveries.counts(with_dispatched=True)
    assert set(counts) == {"t", "u"}
    here = counts["t"]
    assert (here.pending, here.in_flight, here.retrying, here.exhausted, here.dispatched) == (
        (1, 1, 1, 1, 2)
    )
    assert here.undelivered == 4
    assert here.oldest_at == parse_instant(CREATED_AT)
    assert (counts["u"].pending, counts["u"].dispatched) == (1, 0)
    assert outbox.stores.deliveries.counts()["t"].dispatched is None


def test_deliveries_are_listed_by_page_and_filter(outbox: Outbox) -> None:
    """Each delivery is on exactly one page; every filter holds alone and together."""
    exhaust(outbox, 1)
    write(outbox.backend, 2, dataset="e", event_name="gone")
    write(outbox.backend, 3, target="u")
    outbox.claim()
    reader = outbox.stores.deliveries
    pages = [reader.page(size=2), reader.page(size=2, after=event_id(2))]
    assert [[one.outbox_id for one in page.deliveries] for page in pages] == [
        [event_id(1), event_id(2)],
        [event_id(3)],
    ]
    assert [page.next_cursor for page in pages] == [event_id(2), None]

    def found(**wanted: Any) -> list[str]:
        return [one.outbox_id for one in reader.page(DeliveryFilter(**wanted)).deliveries]

    assert found(target="u") == [event_id(3)]
    assert found(dataset="e") == [event_id(2)]
    assert found(event_name="gone") == [event_id(2)]
    assert found(error_code="sink_refused") == [event_id(1)]
    assert found(state=DeliveryState.EXHAUSTED) == [event_id(1)]
    assert found(state=DeliveryState.IN_FLIGHT) == [event_id(2)]
    assert found(state=DeliveryState.PENDING) == [event_id(3)]
    assert found(state=DeliveryState.RETRYING) == []
    assert found(state=DeliveryState.DISPATCHED) == []
    assert found(target="t", dataset="e", state=DeliveryState.IN_FLIGHT) == [event_id(2)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (DeliveryFilter(target="u"), [9]),
        (DeliveryFilter(dataset="e"), [9]),
        (DeliveryFilter(state=DeliveryState.EXHAUSTED), [1, 2, 3]),
        (DeliveryFilter(state=DeliveryState.DISPATCHED), [4]),
        (DeliveryFilter(error_code="sink_refused"), [1, 2, 3]),
        (DeliveryFilter(error_code="sink_refused", dataset="e"), []),
    ],
)
def test_pages_of_deliveries_end_where_they_may_look_no_further(
    outbox: Outbox, wanted: DeliveryFilter, expected: list[int]
) -> None:
    """Of nine deliveries two are looked at for a page; each that is wanted is met once."""
    exhaust(outbox, 1, 2, 3)
    write(outbox.backend, 4)
    outbox.settle(outbox.claim())
    write(outbox.backend, 5, 6, 7, 8)
    write(outbox.backend, 9, target="u", dataset="e")
    met: list[str] = []
    after, pages = None, 0
    while pages == 0 or after is not None:
        page = outbox.stores.deliveries.page(wanted, after=after, size=3, look_at_most=2)
        assert len(page.deliveries) <= 2
        met += [each.outbox_id for each in page.deliveries]
        after, pages = page.next_cursor, pages + 1
        assert pages < 9
    assert met == [event_id(number) for number in expected]
    assert pages > 1


def test_open_deliveries_are_all_looked_at(outbox: Outbox) -> None:
    """They are few, and read through an index of their own: in the order of ids, page by page."""
    write(outbox.backend, 1)
    outbox.settle(outbox.claim())
    write(outbox.backend, 5, target="u", dataset="e")
    write(outbox.backend, 3, 4)
    write(outbox.backend, 2, target="u")
    page = outbox.stores.deliveries.page
    pending = DeliveryFilter(state=DeliveryState.PENDING)
    first = page(pending, size=3, look_at_most=1)
    assert [each.outbox_id for each in first.deliveries] == [event_id(2), event_id(3), event_id(4)]
    rest = page(pending, after=first.next_cursor, size=3, look_at_most=1)
    assert [each.outbox_id for each in rest.deliveries] == [event_id(5)]
    assert rest.next_cursor is None
    of_u = page(replace(pending, target="u"), size=3, look_at_most=1)
    assert [each.outbox_id for each in of_u.deliveries] == [event_id(2), event_id(5)]
    assert of_u.next_cursor is None


def test_one_delivery_is_shown_with_its_event_and_attempts(outbox: Outbox) -> None:
    """Everything that was tried, in order, with the payload as it was written."""
    write(outbox.backend, 1)
    outbox.fail(outbox.claim(), 0.0)
    outbox.expire()
    outbox.settle(outbox.claim(TWO), TWO, duplicate=True)
    whole = outbox.stores.deliveries.find(event_id(1))
    assert whole is not None
    assert whole.delivery.state is DeliveryState.DISPATCHED
    assert whole.event.payload == payload_of(1)
    assert [
        (one.attempt, one.dispatcher, one.outcome, one.duplicate, one.error_code)
        for one in whole.attempts
    ] == [
        (1, ONE, AttemptOutcome.FAILED, False, "sink_timeout"),
        (2, TWO, AttemptOutcome.DISPATCHED, True, None),
    ]
    assert outbox.stores.deliveries.find(event_id(2)) is None


@pytest.mark.conformance("OB-6.5", "C-38")
def test_the_ledger_tells_every_attempt(outbox: Outbox) -> None:
    """One entry each attempt that ended, in the order of event and attempt; none can be edited."""
    write(outbox.backend, 1, 2)
    outbox.fail(outbox.claim(limit=1), 0.0)
    outbox.expire()
    outbox.settle(outbox.claim())
    entries = [
        (one.outbox_id, one.attempt, one.outcome.value, one.care_label, one.pipeline_id)
        for one in outbox.stores.deliveries.ledger()
    ]
    assert entries == [
        (event_id(1), 1, "failed", "public", "pipeline"),
        (event_id(1), 2, "dispatched", "public", "pipeline"),
        (event_id(2), 1, "dispatched", "public", "pipeline"),
    ]
    for statement in (
        "UPDATE outbox_attempts SET outcome = 'lost'",
        "DELETE FROM outbox_attempts",
        "DELETE FROM outbox_delivery",
        "UPDATE outbox_delivery SET status = 'pending', due_at = '2026-06-01T12:00:00.000000Z'",
    ):
        with pytest.raises(Exception, match="append_only"):
            outbox.backend.sql(statement)


def test_an_event_of_restricted_data_without_a_reference_cannot_be_written(outbox: Outbox) -> None:
    """The table itself refuses it, whoever writes; with one, and of other data, it is taken."""
    write(outbox.backend, 1)

    def copy(number: int, care_label: str, governance_ref: str | None) -> None:
        outbox.backend.sql(
            "INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,"
            " idempotency_key, target, payload, care_label, governance_ref, created_at)"
            " SELECT ?, ?, pipeline_id, event_name, dataset_id, version, ?, target, payload, ?, ?,"
            " created_at FROM outbox WHERE outbox_id = ?",
            event_id(number), str(number), str(number), care_label, governance_ref, event_id(1),
        )  # fmt: skip

    copy(2, "restricted", "GOV-1")
    copy(3, "sensitive", None)
    for reference in (None, ""):
        with pytest.raises(Exception, match="restricted_is_allowed"):
            copy(4, "restricted", reference)
    assert outbox.backend.sql("SELECT count(*) FROM outbox") == [(3,)]


# --- many at once ---------------------------------------------------------------------------------


@pytest.mark.conformance("OB-4.2")
def test_threads_never_get_the_same_event(outbox: Outbox) -> None:
    """Eight that claim at the same moment share the events out; each has another's none."""
    write(outbox.backend, *range(1, 201))
    barrier = threading.Barrier(8)
    got: list[list[str]] = []

    def play(number: int) -> None:
        stores = outbox.backend.open(clock=outbox.clock)
        barrier.wait(60)
        mine: list[str] = []
        dispatcher = str(uuid.UUID(int=number + 10))
        while claims := stores.outbox.claim(
            "t", dispatcher=dispatcher, limit=7, rules=RULES
        ).events:
            mine += ids(claims)
        got.append(mine)
        stores.close()

    threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one for mine in got for one in mine) == sorted(map(event_id, range(1, 201)))
