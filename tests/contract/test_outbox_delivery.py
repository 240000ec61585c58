"""Deliveries on both databases: claimed once, fenced, retried, exhausted."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest

from tallgrass.clock import format_instant, parse_instant
from tallgrass.governance.switches import SwitchScope
from tallgrass.outbox.dispatch_rules import AttemptOutcome, DispatchRules, release
from tests.contract.twisted import UNDONE, Twisted
from tests.support.events import CREATED_AT, event_id, insert, payload_of, row, write
from tests.support.outbox import LONG_AGO, ONE, RULES, TWO, Outbox, ids


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


def test_what_another_wrote_as_lost_is_not_taken_for_settled(outbox: Outbox) -> None:
    """A COMMIT is undone, and before anybody can ask the lease ends: the results came late."""
    write(outbox.backend, 1)
    claimed, other = outbox.claim(), Outbox(outbox.backend)

    def claim(_wait_s: float) -> None:
        other.expire()
        other.claim(TWO)

    outbox.stores.runner._sleep = claim
    Twisted(outbox, commits=[UNDONE])
    assert outbox.settle(claimed) == {event_id(1)}
    assert outbox.attempts() == [(1, ONE, "lost", "dispatcher_lost")]


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
