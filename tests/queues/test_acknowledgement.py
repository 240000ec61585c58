"""What becomes of a message follows from what became of its units."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.ledger.claim import Claim, ClosedClaim, Receipt
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.outcome import Verdict
from tallgrass.ledger.receipt import Action, Decision, Known, decide_receipt
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.queues.acknowledgement import Acknowledgement, acknowledge
from tests.support.backends import NO_BACKOFF
from tests.support.builders import EVENT_TIME, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

DELETE = None
SOON_S = 1.0


@dataclass(frozen=True)
class Fate:
    """What became of one unit, and the wish that follows: None lets the message go."""

    action: Action
    wait_s: float = 0.0
    claimed_from: Status | None = None
    verdict: Verdict | None = None
    error_code: str | None = None
    retry_s: float = 0.0


def fold(fates: Sequence[Fate], *, settled: bool = True) -> Acknowledgement:
    """Acknowledge a message whose units fared so."""
    receipts, closed = [], {}
    for number, fate in enumerate(fates):
        announced = unit(number)
        claim = None
        if fate.claimed_from is not None:
            claim = Claim(
                unit=announced,
                attempt_no=1,
                version=2,
                intent=Intent.INGEST,
                claimed_from=fate.claimed_from,
                budget_from=0,
                replay_run_id=None,
                has_message=True,
            )
        decision = Decision(action=fate.action, wait_s=fate.wait_s)
        receipts.append(Receipt(unit=announced, decision=decision, claim=claim))
        if fate.verdict is not None:
            closed[announced.wal_id] = ClosedClaim(
                verdict=fate.verdict, error_code=fate.error_code, retry_s=fate.retry_s
            )
    return acknowledge(receipts, closed, settled=settled)


def claimed(
    verdict: Verdict | None,
    error_code: str | None = None,
    retry_s: float = 0.0,
    claimed_from: Status = Status.PENDING,
) -> Fate:
    """Return the fate of a unit that was claimed."""
    return Fate(Action.CLAIM, 0.0, claimed_from, verdict, error_code, retry_s)


#: Every fate that a unit of a message can have → its wish, written by hand.
TABLE: dict[str, tuple[Fate, float | None]] = {
    "duplicate": (Fate(Action.DUPLICATE), DELETE),
    "due": (Fate(Action.DUE), DELETE),
    "park": (Fate(Action.PARK), DELETE),
    "ignore_older": (Fate(Action.IGNORE_OLDER), DELETE),
    "not_reingested": (Fate(Action.NOT_REINGESTED), DELETE),
    "quarantine": (Fate(Action.QUARANTINE), DELETE),
    "held": (Fate(Action.HELD), DELETE),
    "record_newer": (Fate(Action.RECORD_NEWER), DELETE),
    "wait for the holder": (Fate(Action.WAIT, wait_s=42.5), 42.5),
    "leave_failed": (Fate(Action.LEAVE_FAILED), 0.0),
    "recover": (Fate(Action.RECOVER), SOON_S),
    "a claim that nobody holds": (Fate(Action.CLAIM), SOON_S),
    "succeeded": (claimed(Verdict.SUCCEEDED), DELETE),
    "re-run succeeded": (claimed(Verdict.SUCCEEDED, claimed_from=Status.SUCCEEDED), DELETE),
    "quarantined": (claimed(Verdict.QUARANTINED, "governance_hard_fail", 9.0), DELETE),
    "at its limit": (claimed(Verdict.QUARANTINED, "io_error", 9.0), DELETE),
    "not yet": (claimed(Verdict.RETRY, "not_ready", 9.0), DELETE),
    "handed back": (claimed(Verdict.RETRY, "handed_back"), DELETE),
    "failed, retried": (claimed(Verdict.FAILED, "io_error", 7.25), 7.25),
    "failed, not retried": (claimed(Verdict.FAILED, "size_zero", 7.25), 0.0),
    "re-run failed": (claimed(Verdict.FAILED, "io_error", 7.0, Status.SUCCEEDED), DELETE),
    "re-run failed for good": (claimed(Verdict.FAILED, "size_zero", 7.0, Status.SUCCEEDED), DELETE),
    "lost": (claimed(None), SOON_S),
    "re-run lost": (claimed(None, claimed_from=Status.SUCCEEDED), SOON_S),
}


def test_the_table_names_every_action_and_verdict() -> None:
    """No decision and no verdict is left without a written answer."""
    fates = [fate for fate, _ in TABLE.values()]
    assert {fate.action for fate in fates} == set(Action)
    assert {fate.verdict for fate in fates} == {None, *Verdict}


@pytest.mark.conformance("C-10")
@pytest.mark.parametrize("name", TABLE)
def test_each_fate_has_its_written_answer(name: str) -> None:
    """A message with one unit is deleted, or kept for the unit's wish."""
    fate, wish = TABLE[name]
    assert fold([fate]).visibility_s == wish
    assert (fold([fate]).visibility_s is None) == (wish is None)


@pytest.mark.conformance("C-10")
@given(names=st.lists(st.sampled_from(sorted(TABLE)), max_size=6), stored=st.booleans())
def test_the_longest_wish_wins(names: list[str], stored: bool) -> None:  # noqa: FBT001
    """A message is deleted exactly when all let it go; otherwise the longest wish counts."""
    wishes = [TABLE[name][1] for name in names] + ([] if stored else [SOON_S])
    kept = [wish for wish in wishes if wish is not None]
    result = fold([TABLE[name][0] for name in names], settled=stored)
    assert (result.visibility_s is None) == (not kept)
    assert result.visibility_s == (max(kept) if kept else None)


@given(names=st.permutations(sorted(TABLE)))
def test_the_order_of_units_does_not_matter(names: list[str]) -> None:
    """Units of a message may be looked at in any order."""
    fates = [TABLE[name][0] for name in names]
    assert fold(fates).visibility_s == 42.5
    assert fold(fates[:5]) == fold(fates[4::-1])


@given(
    waits=st.lists(st.floats(min_value=0, max_value=1e7), min_size=1, max_size=4),
    retries=st.lists(st.floats(min_value=0, max_value=1e7), max_size=4),
)
def test_no_wish_is_longer_than_a_queue_allows(waits: list[float], retries: list[float]) -> None:
    """SQS hides a delivery for at most twelve hours, 43,200 s."""
    fates = [Fate(Action.WAIT, wait_s=seconds) for seconds in waits]
    fates += [claimed(Verdict.FAILED, "io_error", seconds) for seconds in retries]
    assert fold(fates).visibility_s == min(max(*waits, *retries, 0.0), 43_200.0)


def test_a_message_without_units_goes() -> None:
    """Deletions, test events and sidecars are counted and acknowledged."""
    assert fold([]).visibility_s is None


def test_a_message_that_is_not_settled_stays() -> None:
    """What could not be judged yet stays in the queue and comes again soon."""
    assert fold([]).visibility_s is None
    assert fold([], settled=False).visibility_s == SOON_S
    assert fold([TABLE["wait for the holder"][0]], settled=False).visibility_s == 42.5


def test_a_wish_for_the_past_means_at_once() -> None:
    """A back-off that has run out meanwhile is no time before now."""
    assert Acknowledgement.keep(-3.0).visibility_s == 0.0


NOW = EVENT_TIME


def known(status: Status, **changes: object) -> Known:
    """Return what the ledger knows of a unit in a status."""
    values: dict[str, object] = {
        "wal_id": unit(0).wal_id,
        "dataset": "goes-glm",
        "status": status,
        "version": 2,
        "attempts": 1,
        "budget_from": 0,
        "lease_expiries": 0,
        "last_error_code": None,
        "due_at": None,
        "retry_after": None,
        "rerun_intent": None,
        "replay_run_id": None,
        "held_until": None,
    }
    return Known(**{**values, **changes})  # type: ignore[arg-type]


#: State of a unit when its message comes again, unchanged → what becomes of the message.
REDELIVERIES = {
    "in progress elsewhere": (
        known(Status.IN_PROGRESS, held_until=NOW + timedelta(seconds=42)),
        42.0,
    ),
    "failed, its back-off runs": (
        known(Status.FAILED, last_error_code="io_error", retry_after=NOW + timedelta(seconds=12)),
        12.0,
    ),
    "failed, not retried": (known(Status.FAILED, last_error_code="size_zero"), 0.0),
    "failed, at its limit": (known(Status.FAILED, attempts=8, last_error_code="io_error"), DELETE),
    "succeeded": (known(Status.SUCCEEDED), DELETE),
    "quarantined": (known(Status.QUARANTINED), DELETE),
    "pending, scheduled": (known(Status.PENDING, due_at=NOW + timedelta(seconds=5)), DELETE),
}


@pytest.mark.conformance("C-10")
@pytest.mark.parametrize("state", REDELIVERIES)
def test_a_redelivery_does_to_its_message_what_its_unit_needs(state: str) -> None:
    """For each state in which a unit is not claimed, the message goes or waits as written."""
    unit_known, wish = REDELIVERIES[state]
    decision = decide_receipt(
        unit_known,
        ObjectOrder.SAME,
        now=NOW,
        switched_off=False,
        rules=LedgerRules(backoff=NO_BACKOFF),
    )
    assert decision.action is not Action.CLAIM
    assert acknowledge([Receipt(unit=unit(0), decision=decision)], {}).visibility_s == wish
