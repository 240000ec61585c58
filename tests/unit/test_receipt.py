"""The receipt table, written out by hand, and the rules that no cell may break."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.receipt import (
    NEW_UNIT,
    NEW_UNIT_PARKED,
    Action,
    Decision,
    Known,
    decide_due,
    decide_receipt,
    keeping_the_order,
)
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=30)
BEFORE = NOW - timedelta(seconds=30)
LIMIT = 8
RULES = LedgerRules(
    max_attempts=LIMIT,
    exceptions={
        "first-version-only": DatasetException(
            dataset="first-version-only", approval_ref="CR-1", reingest=False
        )
    },
    overwrites={"by-approval": Overwrite.APPROVE},
)
ORDERS = [ObjectOrder.SAME, ObjectOrder.NEWER, ObjectOrder.OLDER, ObjectOrder.INCOMPARABLE]

PENDING = Known(
    wal_id="w",
    dataset="d",
    status=Status.PENDING,
    version=5,
    attempts=2,
    budget_from=0,
    lease_expiries=0,
    last_error_code=None,
    due_at=BEFORE,
    retry_after=None,
    rerun_intent=None,
    replay_run_id=None,
    held_until=None,
)
IN_PROGRESS = replace(PENDING, status=Status.IN_PROGRESS, due_at=None, held_until=SOON)
FAILED = replace(PENDING, status=Status.FAILED, due_at=None, last_error_code="io_error")
SUCCEEDED = replace(PENDING, status=Status.SUCCEEDED, due_at=None, budget_from=2)
STALE = replace(
    SUCCEEDED, attempts=4, last_error_code="io_error", due_at=SOON, rerun_intent=Intent.REINGEST
)

STATES: dict[str, Known] = {
    "pending": PENDING,
    "pending_never_tried": replace(PENDING, attempts=0, due_at=None),
    "pending_due_later": replace(PENDING, due_at=SOON),
    "pending_lost_a_worker": replace(PENDING, lease_expiries=1, last_error_code="lease_expired"),
    "pending_at_limit": replace(PENDING, attempts=LIMIT),
    "in_progress_fresh": IN_PROGRESS,
    "in_progress_lost": replace(IN_PROGRESS, held_until=BEFORE),
    "failed": FAILED,
    "failed_backing_off": replace(FAILED, retry_after=SOON),
    "failed_for_good": replace(FAILED, last_error_code="size_zero"),
    "failed_at_limit": replace(FAILED, attempts=LIMIT),
    "succeeded": SUCCEEDED,
    "succeeded_rerun_held": replace(SUCCEEDED, held_until=SOON),
    "succeeded_rerun_lost": replace(SUCCEEDED, held_until=BEFORE),
    "succeeded_stale": STALE,
    "succeeded_lost_a_worker": replace(STALE, due_at=BEFORE, lease_expiries=1),
    "succeeded_given_up": replace(STALE, attempts=2 + LIMIT, due_at=None),
    "succeeded_first_only": replace(SUCCEEDED, dataset="first-version-only"),
    "succeeded_by_approval": replace(SUCCEEDED, dataset="by-approval"),
    "approval_rerun_held": replace(SUCCEEDED, dataset="by-approval", held_until=SOON),
    "quarantined": replace(PENDING, status=Status.QUARANTINED, due_at=None),
}

#: o: the announced object is taken over; b: a new budget begins; r: intent reingest.
SWITCHED_ON = """
                         same         newer          older         incomparable
pending                  claim+o      claim+ob       ignore_older  claim+o
pending_never_tried      claim+o      claim+ob       ignore_older  claim+o
pending_due_later        due          claim+ob       ignore_older  due
pending_lost_a_worker    due          park+ob        ignore_older  due
pending_at_limit         quarantine   claim+ob       ignore_older  quarantine
in_progress_fresh        wait         wait           ignore_older  wait
in_progress_lost         recover      recover        recover       recover
failed                   claim+o      claim+ob       ignore_older  claim+o
failed_backing_off       wait         claim+ob       ignore_older  wait
failed_for_good          leave_failed claim+ob       ignore_older  leave_failed
failed_at_limit          quarantine   claim+ob       ignore_older  quarantine
succeeded                duplicate    claim+obr      ignore_older  claim+or
succeeded_rerun_held     duplicate    wait           ignore_older  wait
succeeded_rerun_lost     recover      recover        recover       recover
succeeded_stale          duplicate    claim+obr      ignore_older  due
succeeded_lost_a_worker  duplicate    park+obr       ignore_older  due
succeeded_given_up       duplicate    claim+obr      ignore_older  quarantine
succeeded_first_only     duplicate    not_reingested ignore_older  not_reingested
succeeded_by_approval    duplicate    record_newer+o ignore_older  record_newer+o
approval_rerun_held      duplicate    wait           ignore_older  wait
quarantined              held         record_newer+o held          held
"""
SWITCHED_OFF = """
                         same         newer          older         incomparable
pending                  park         park+ob        ignore_older  park
pending_never_tried      park         park+ob        ignore_older  park
pending_due_later        park         park+ob        ignore_older  park
pending_lost_a_worker    park         park+ob        ignore_older  park
pending_at_limit         park         park+ob        ignore_older  park
in_progress_fresh        wait         wait           ignore_older  wait
in_progress_lost         recover      recover        recover       recover
failed                   park         park+ob        ignore_older  park
failed_backing_off       park         park+ob        ignore_older  park
failed_for_good          leave_failed park+ob        ignore_older  leave_failed
failed_at_limit          quarantine   park+ob        ignore_older  quarantine
succeeded                duplicate    park+obr       ignore_older  park+or
succeeded_rerun_held     duplicate    wait           ignore_older  wait
succeeded_rerun_lost     recover      recover        recover       recover
succeeded_stale          duplicate    park+obr       ignore_older  due
succeeded_lost_a_worker  duplicate    park+obr       ignore_older  due
succeeded_given_up       duplicate    park+obr       ignore_older  quarantine
succeeded_first_only     duplicate    not_reingested ignore_older  not_reingested
succeeded_by_approval    duplicate    record_newer+o ignore_older  record_newer+o
approval_rerun_held      duplicate    wait           ignore_older  wait
quarantined              held         record_newer+o held          held
"""


def table(text: str) -> dict[str, list[str]]:
    """Return a written table as its rows by state."""
    _, *rows = text.strip().splitlines()
    return {row.split()[0]: row.split()[1:] for row in rows}


def written(decision: Decision) -> str:
    """Write a decision as the tables do."""
    marks = (
        "o" * decision.adopts_object
        + "b" * decision.resets_budget
        + "r" * (decision.intent is Intent.REINGEST)
    )
    return decision.action.value + (f"+{marks}" if marks else "")


@pytest.mark.parametrize("switched_off", [False, True], ids=["on", "off"])
@pytest.mark.parametrize("state", STATES)
def test_each_receipt_has_its_written_answer(*, state: str, switched_off: bool) -> None:
    """Every known state answers each order of objects as the table says, switched on and off."""
    expected = table(SWITCHED_OFF if switched_off else SWITCHED_ON)[state]
    answers = [
        decide_receipt(STATES[state], order, now=NOW, switched_off=switched_off, rules=RULES)
        for order in ORDERS
    ]
    assert [written(answer) for answer in answers] == expected


def test_the_tables_name_every_state_and_status() -> None:
    """Both tables have a row for each state, and the states cover all five statuses."""
    assert set(table(SWITCHED_ON)) == set(table(SWITCHED_OFF)) == set(STATES)
    assert {known.status for known in STATES.values()} == set(Status)


def test_a_new_unit_is_claimed_or_parked_with_its_object() -> None:
    """A unit that nobody has seen is claimed, or parked while its dataset is switched off."""
    assert written(NEW_UNIT) == "claim+o"
    assert written(NEW_UNIT_PARKED) == "park+o"


def test_a_held_unit_is_waited_for_until_its_lease_ends() -> None:
    """The wait is the rest of the lease, and never less than a second."""
    for seconds, wait_s in ((30, 30), (1, 1), (0.2, 1)):
        known = replace(IN_PROGRESS, held_until=NOW + timedelta(seconds=seconds))
        answer = decide_receipt(known, ObjectOrder.SAME, now=NOW, switched_off=False, rules=RULES)
        assert (answer.action, answer.wait_s) == (Action.WAIT, wait_s)


def test_a_lease_that_ends_now_is_lost() -> None:
    """The end of a lease is not part of it."""
    known = replace(IN_PROGRESS, held_until=NOW)
    answer = decide_receipt(known, ObjectOrder.SAME, now=NOW, switched_off=False, rules=RULES)
    assert answer.action is Action.RECOVER


def test_a_failed_unit_waits_for_the_rest_of_its_back_off() -> None:
    """A redelivery within the back-off waits for exactly what is left of it; then it is claimed."""
    known = replace(FAILED, retry_after=NOW + timedelta(seconds=12.5))
    answer = decide_receipt(known, ObjectOrder.SAME, now=NOW, switched_off=False, rules=RULES)
    assert (answer.action, answer.wait_s) == (Action.WAIT, 12.5)
    over = decide_receipt(
        replace(known, retry_after=NOW), ObjectOrder.SAME, now=NOW, switched_off=False, rules=RULES
    )
    assert over.action is Action.CLAIM


instants = st.sampled_from([BEFORE, NOW, SOON, NOW + timedelta(microseconds=1)])
codes = st.sampled_from([None, "io_error", "size_zero", "lease_expired"])


@st.composite
def knowns(draw: st.DrawFn) -> Known:
    """Any unit that the ledger could hold, and some that it could not."""
    attempts = draw(st.integers(0, 20))
    status = draw(st.sampled_from(list(Status)))
    held = status in {Status.IN_PROGRESS, Status.SUCCEEDED}
    return Known(
        wal_id="w",
        dataset=draw(st.sampled_from(["d", "first-version-only"])),
        status=status,
        version=1 + attempts * 2,
        attempts=attempts,
        budget_from=draw(st.integers(0, attempts)),
        lease_expiries=draw(st.integers(0, 3)),
        last_error_code=draw(codes),
        due_at=draw(st.none() | instants),
        retry_after=draw(st.none() | instants),
        rerun_intent=draw(st.none() | st.sampled_from(list(Intent))),
        replay_run_id=draw(st.none() | st.just("run-1")),
        held_until=draw(st.none() | instants) if held else None,
    )


class TestNoCellBreaksARule:
    """Properties over any unit, order and switch."""

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_a_held_unit_is_never_claimed(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """While somebody's lease stands, nobody else gets the unit."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        if known.held_until is not None or known.status is Status.IN_PROGRESS:
            assert answer.action not in {Action.CLAIM, Action.PARK, Action.QUARANTINE}

    @given(knowns(), st.sampled_from(ORDERS))
    def test_a_switched_off_dataset_claims_nothing(self, known: Known, order: ObjectOrder) -> None:
        """A kill switch lets nothing begin."""
        answer = decide_receipt(known, order, now=NOW, switched_off=True, rules=RULES)
        assert answer.action is not Action.CLAIM

    @given(known=knowns(), off=st.booleans())
    def test_an_older_object_changes_nothing(self, known: Known, *, off: bool) -> None:
        """A stale event neither claims nor parks nor replaces anything."""
        answer = decide_receipt(known, ObjectOrder.OLDER, now=NOW, switched_off=off, rules=RULES)
        assert answer.action in {Action.IGNORE_OLDER, Action.HELD, Action.RECOVER}
        assert not answer.adopts_object
        assert not answer.resets_budget

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_a_quarantined_unit_stays_where_it_is(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """No message takes a unit out of quarantine; a newer object is noted for its release."""
        held = replace(known, status=Status.QUARANTINED, held_until=None)
        answer = decide_receipt(held, order, now=NOW, switched_off=off, rules=RULES)
        newer = order is ObjectOrder.NEWER
        assert answer.action is (Action.RECORD_NEWER if newer else Action.HELD)

    @pytest.mark.conformance("C-09")
    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_a_unit_at_its_limit_is_claimed_for_a_newer_object_only(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """With its attempts used up a unit is not tried again, unless the object is a newer one."""
        spent = replace(known, attempts=known.budget_from + LIMIT)
        answer = decide_receipt(spent, order, now=NOW, switched_off=off, rules=RULES)
        if answer.action is Action.CLAIM:
            assert order is ObjectOrder.NEWER
            assert answer.resets_budget

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_only_a_newer_object_starts_a_new_budget(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """Redelivery alone never gives a unit more attempts."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        if answer.resets_budget:
            assert order is ObjectOrder.NEWER
            assert answer.adopts_object

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_a_wait_has_a_length_and_nothing_else_has(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """A message is hidden for a positive time exactly when the answer is to wait."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        assert (answer.wait_s > 0) == (answer.action is Action.WAIT)

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_a_message_is_let_go_only_if_the_ledger_has_the_unit(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """`due` is answered only for a unit that the ledger really has on its schedule."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        if answer.action is Action.DUE:
            assert known.due_at is not None

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    def test_only_a_succeeded_unit_is_ingested_again(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """The intent is reingest exactly for a succeeded unit that gets an attempt or a wish."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        if answer.action in {Action.CLAIM, Action.PARK}:
            again = known.status is Status.SUCCEEDED
            assert answer.intent is (Intent.REINGEST if again else Intent.INGEST)

    @given(known=knowns(), order=st.sampled_from(ORDERS), off=st.booleans())
    @example(known=replace(PENDING, lease_expiries=1), order=ObjectOrder.NEWER, off=False)
    @example(known=replace(STALE, lease_expiries=1), order=ObjectOrder.NEWER, off=False)
    def test_a_suspected_killer_is_claimed_by_the_schedule_only(
        self, known: Known, order: ObjectOrder, *, off: bool
    ) -> None:
        """A due unit that lost its worker is not claimed with a batch: the schedule isolates it."""
        answer = decide_receipt(known, order, now=NOW, switched_off=off, rules=RULES)
        pending_or_done = known.status in {Status.PENDING, Status.SUCCEEDED}
        if pending_or_done and known.lease_expiries and known.due_at is not None:
            assert answer.action is not Action.CLAIM


@pytest.mark.conformance("C-09")
@pytest.mark.parametrize(
    ("used", "action"), [(0, "claim"), (7, "claim"), (8, "quarantine"), (9, "quarantine")]
)
@pytest.mark.parametrize("budget_from", [0, 5])
def test_a_due_unit_is_held_at_its_limit(used: int, action: str, budget_from: int) -> None:
    """The limit counts from the budget's start: one below it is claimed, at it held."""
    known = replace(PENDING, attempts=budget_from + used, budget_from=budget_from)
    assert decide_due(known, RULES).action == action


@pytest.mark.parametrize("wish", [None, *Intent])
def test_a_due_unit_runs_with_the_intent_it_was_given(wish: Intent | None) -> None:
    """A re-run has the intent of its wish; a unit without one is ingested."""
    assert decide_due(replace(STALE, rerun_intent=wish), RULES).intent == (wish or "ingest")


@pytest.mark.parametrize("action", Action)
def test_what_a_message_tells_is_kept_where_it_may_go_before_the_work(action: Action) -> None:
    """Four answers let a message go whose unit is still to be run, one whose unit is done.

    The object of the last stays what it is. No other answer changes.
    """
    kept = keeping_the_order(Decision(action=action, wait_s=2.0))
    may_go = action in {Action.DUE, Action.PARK, Action.QUARANTINE, Action.HELD}
    assert kept == Decision(
        action=action,
        wait_s=2.0,
        adopts_object=may_go,
        orders_object=may_go or action is Action.DUPLICATE,
    )


def test_a_newer_object_is_not_told_as_one_that_is_only_ordered() -> None:
    """It is adopted for what it is, so its answer stays as it was."""
    newer = Decision(action=Action.PARK, adopts_object=True, resets_budget=True)
    assert keeping_the_order(newer) == newer
