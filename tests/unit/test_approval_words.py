"""What an approval counts, asks for by default, and says when it is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tallgrass.errors import ApprovalInvalid, InvalidInput
from tallgrass.governance.approvals import (
    Approval,
    Decision,
    Subject,
    Verdict,
    plan_subject,
    release_subject,
    require_usable,
)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
ASKED = Approval(
    approval_id="A-1",
    purpose="replay",
    subject_sha256="a" * 64,
    summary={},
    reason="CHG-2041",
    needed=1,
    requested_by="otto",
    requested_at=NOON,
    expires_at=NOON + timedelta(hours=24),
)
YES = Decision(actor="ann", verdict=Verdict.APPROVE, note="", decided_at=NOON)
NO = replace(YES, actor="bob", verdict=Verdict.REJECT)


def units(number: int) -> list[tuple[str, int]]:
    """Return so many units, each at its first version."""
    return [(f"unit-{each:04}", 1) for each in range(number)]


def test_a_rejection_is_no_approval() -> None:
    """Only those who said yes, and still may, are counted."""
    assert replace(ASKED, decisions=(YES, NO)).approvals == 1
    assert replace(ASKED, decisions=(NO,)).approvals == 0
    assert replace(ASKED, decisions=(YES, replace(YES, actor="eve", counts=False))).approvals == 1


def test_one_word_of_one_approver_is_enough_unless_more_is_asked() -> None:
    """What nobody states is one approval, and a decision that counts."""
    assert YES.counts is True
    assert Subject(purpose="replay", sha256="a" * 64, summary={}).needed == 1
    assert plan_subject({}, "a" * 64).needed == 1
    assert plan_subject({"approvals_needed": 2}, "a" * 64).needed == 2
    assert plan_subject({"approvals_needed": 0}, "a" * 64).needed == 1
    assert release_subject(units(1)).needed == 1


@pytest.mark.parametrize(
    ("approval", "hours", "told"),
    [
        (replace(ASKED, used_at=NOON, used_for="run-1"), 1, "A-1 is used for run-1, not approved"),
        (ASKED, 1, "A-1 is requested, not approved"),
        (replace(ASKED, decisions=(YES,), used_for="run-1"), 25, "A-1 is expired, not approved"),
        (replace(ASKED, decisions=(NO,)), 1, "A-1 is rejected, not approved"),
    ],
)
def test_a_refusal_says_where_the_approval_stands(
    approval: Approval, hours: int, told: str
) -> None:
    """And what a used one was used for."""
    now = NOON + timedelta(hours=hours)
    with pytest.raises(ApprovalInvalid) as refused:
        require_usable(approval, purpose="replay", subject_sha256="a" * 64, now=now)
    assert str(refused.value) == told


def test_a_release_names_at_most_a_thousand_units() -> None:
    """An approver reads all of them, beside what else is shown."""
    subject = release_subject(units(1000), shown={"note": "radar"})
    listed = [[f"unit-{each:04}", 1] for each in range(1000)]
    assert subject.summary == {"note": "radar", "units": listed}
    with pytest.raises(InvalidInput, match="at most 1,000 units"):
        release_subject(units(1001))
