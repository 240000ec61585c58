"""Rows of statements on wal_records that several modules write: each column by its name."""


def reset_row(
    wal_id: str,
    version: int,
    *,
    due_at: str | None,
    budget_from: int,
    lease_expiries: int,
    replay_reason: str | None = None,
    replay_run_id: str | None = None,
    next_object: str | None = None,
) -> tuple[object, ...]:
    """Return the row of `reset_records`: a failed unit is pending again."""
    return (
        wal_id,
        version,
        replay_reason,
        replay_run_id,
        due_at,
        budget_from,
        next_object,
        lease_expiries,
    )


def failed_rerun_row(
    wal_id: str,
    version: int,
    *,
    error_code: str | None,
    error_message: str | None,
    due_at: str | None,
    budget_from: int,
    lease_expiries: int,
) -> tuple[object, ...]:
    """Return the row of `fail_reruns`: a re-run failed, and is due again unless it was given up."""
    return (
        wal_id,
        version,
        error_code,
        error_message,
        due_at,
        due_at,
        lease_expiries,
        budget_from,
    )
