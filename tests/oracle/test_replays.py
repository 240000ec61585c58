"""The oracle's promises on replays: each finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.replays import (
    replayed_rows_follow_attempts,
    replays_are_applied_once,
    reruns_were_approved,
    runs_are_settled,
)
from tests.oracle.tables import Tables

EMPTY = (
    "records", "attempts", "transitions", "history", "items", "provenance", "outbox",
    "deliveries", "delivery_attempts", "poison", "workers", "audit", "seals",
)  # fmt: skip
ATTEMPT = {
    "wal_id": "w", "attempt_no": 2, "status": "applied", "replay_run_id": "r",
    "claimed_from": "succeeded", "intent": "repair",
}  # fmt: skip
ROW = {"replay_run_id": "r", "wal_id": "w", "outcome": "done", "attempt_no": 2, "mismatch": 0}
MOVE = {"replay_run_id": "r", "wal_id": "w", "kind": "replay"}
RUN = {"replay_run_id": "r", "approval_id": "a", "plan_sha256": "p"}
APPROVAL = {
    "approval_id": "a", "used_at": "t", "subject_sha256": "p", "requested_by": "otto",
}  # fmt: skip
DECISION = {"approval_id": "a", "actor": "ann", "decision": "approve"}


def tables(**changes: Any) -> Tables:
    """Return a run of one unit that is all right, changed."""
    good: dict[str, Any] = {
        "attempts": [ATTEMPT],
        "transitions": [MOVE],
        "run_records": [ROW],
        "runs": [RUN],
        "approvals": [APPROVAL],
        "decisions": [DECISION],
    }
    return Tables(**{**{name: [] for name in EMPTY}, **good, **changes})


@pytest.mark.parametrize(
    ("promise", "changes", "told"),
    [
        (replays_are_applied_once, {"transitions": [MOVE, MOVE]}, "2 times"),
        (replays_are_applied_once, {"run_records": []}, "keeps no row"),
        (replayed_rows_follow_attempts, {"attempts": []}, "did not do it"),
        (
            replayed_rows_follow_attempts,
            {"run_records": [{**ROW, "outcome": "due"}]},
            "does not say so",
        ),
        (replayed_rows_follow_attempts, {"run_records": [{**ROW, "mismatch": 1}]}, "another"),
        (reruns_were_approved, {"runs": [{**RUN, "approval_id": None}]}, "without an approval"),
        (reruns_were_approved, {"approvals": [{**APPROVAL, "used_at": None}]}, "without"),
        (reruns_were_approved, {"runs": [{**RUN, "plan_sha256": "q"}]}, "another plan"),
        (reruns_were_approved, {"decisions": [{**DECISION, "actor": "otto"}]}, "nobody else"),
        (runs_are_settled, {"run_records": [{**ROW, "outcome": "due"}]}, "still due"),
    ],
)
def test_a_broken_promise_is_found(promise: Any, changes: dict[str, Any], told: str) -> None:
    """Nothing is found where all is right; the change is found, and said."""
    assert list(promise(tables())) == []
    (found,) = promise(tables(**changes))
    assert told in found
