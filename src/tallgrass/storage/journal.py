"""Rows of wal_transitions: the edges that no attempt tells."""

from tallgrass.ledger.vocabulary import Status


def transition_row(  # noqa: PLR0913 - one a column
    wal_id: str,
    kind: str,
    *,
    source: Status,
    target: Status,
    version: int,
    actor: str,
    reason: str,
    replay_run_id: str | None = None,
    approval_ref: str | None = None,
) -> tuple[object, ...]:
    """Return the journal's row of an edge that a record takes from `version` to the next."""
    return (
        wal_id,
        kind,
        source.value,
        target.value,
        version,
        version + 1,
        actor,
        reason,
        replay_run_id,
        approval_ref,
    )
