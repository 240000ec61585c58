"""What must hold of replays, from raw tables: none without its run, none twice, none unapproved."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.tables import Tables

#: Why succeeded units are run again on a person's word.
_AGAIN = {"repair", "backfill"}


def replays_are_applied_once(tables: Tables) -> Iterator[str]:
    """A run moves a unit at most once, and has a row of each unit that it moved."""
    moves = Counter(
        (t["replay_run_id"], t["wal_id"]) for t in tables.transitions if t["kind"] == "replay"
    )
    rows = {(r["replay_run_id"], r["wal_id"]) for r in tables.run_records}
    for (run, wal_id), count in moves.items():
        if count > 1:
            yield f"run {run} put {wal_id} to work {count} times"
        if (run, wal_id) not in rows:
            yield f"run {run} put {wal_id} to work and keeps no row of it"


def replayed_rows_follow_attempts(tables: Tables) -> Iterator[str]:
    """A row that is done names an applied attempt of its run; an applied one closed its row."""
    attempts = {(a["wal_id"], a["attempt_no"]): a for a in tables.attempts}
    for row in tables.run_records:
        name = f"run {row['replay_run_id']}, {row['wal_id']}"
        attempt = attempts.get((row["wal_id"], row["attempt_no"]))
        if row["outcome"] == "done" and (
            attempt is None
            or attempt["status"] != "applied"
            or attempt["replay_run_id"] != row["replay_run_id"]
        ):
            yield f"{name} is done by attempt {row['attempt_no']}, which did not do it"
        if row["mismatch"]:
            yield f"{name} gave another result than before"
    done = {(r["replay_run_id"], r["wal_id"]) for r in tables.run_records if r["outcome"] == "done"}
    for attempt in tables.attempts:
        run = attempt["replay_run_id"]
        if (
            run is not None
            and attempt["status"] == "applied"
            and (run, attempt["wal_id"]) not in done
        ):
            yield f"run {run}, {attempt['wal_id']} was applied, and its row does not say so"


def reruns_were_approved(tables: Tables) -> Iterator[str]:
    """No finished unit was run again on a person's word without somebody else's approval."""
    runs = {run["replay_run_id"]: run for run in tables.runs}
    approvals = {each["approval_id"]: each for each in tables.approvals}
    approvers = {
        (d["approval_id"], d["actor"]) for d in tables.decisions if d["decision"] == "approve"
    }
    for attempt in tables.attempts:
        if attempt["claimed_from"] != "succeeded" or attempt["intent"] not in _AGAIN:
            continue
        run = runs.get(attempt["replay_run_id"] or "")
        approval = approvals.get((run or {}).get("approval_id") or "")
        name = f"{attempt['wal_id']} attempt {attempt['attempt_no']}"
        if run is None or approval is None or approval["used_at"] is None:
            yield f"{name} ran a finished unit again without an approval"
        elif approval["subject_sha256"] != run["plan_sha256"]:
            yield f"{name} ran under an approval of another plan"
        elif not any(
            i == approval["approval_id"] and who != approval["requested_by"] for i, who in approvers
        ):
            yield f"{name} ran under an approval that nobody else gave"


def runs_are_settled(tables: Tables) -> Iterator[str]:
    """At the end every record of every run has its outcome."""
    for row in tables.run_records:
        if row["outcome"] == "due":
            yield f"run {row['replay_run_id']}, {row['wal_id']} is still due"


REPLAY_PROMISES = (
    replays_are_applied_once,
    replayed_rows_follow_attempts,
    reruns_were_approved,
)
