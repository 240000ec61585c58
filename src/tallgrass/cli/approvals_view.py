"""Prints approvals, above all for the person who is to decide."""

from collections.abc import Iterator, Sequence

from tallgrass.canonical_json import canonical_text
from tallgrass.cli.tables import Cell, say, show_facts, show_table
from tallgrass.governance.approvals import Approval, ApprovalState


def show_approval(approval: Approval, state: ApprovalState) -> None:
    """Print one approval: what is asked, what was said, where it stands."""
    show_facts(_facts(approval, state))
    show_facts(_summary(approval), title=f"what the {approval.purpose} comes to")
    if not approval.decisions:
        return
    say()
    show_table(
        ("decided by", "decision", "when", "note"),
        [
            (
                each.actor,
                each.verdict.value + ("" if each.counts else " (revoked since)"),
                each.decided_at,
                each.note,
            )
            for each in approval.decisions
        ],
        wide=("note",),
    )


def show_page(page: Sequence[tuple[Approval, ApprovalState]], next_cursor: str | None) -> None:
    """Print a page of them."""
    if not page:
        say("No approvals match.")
        return
    show_table(
        ("approval", "state", "purpose", "requested by", "requested", "expires", "reason"),
        [
            (
                approval.approval_id,
                state.value,
                approval.purpose,
                approval.requested_by,
                approval.requested_at,
                approval.expires_at,
                approval.reason,
            )
            for approval, state in page
        ],
        wide=("reason",),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", style="dim")


def _facts(approval: Approval, state: ApprovalState) -> Iterator[tuple[str, Cell]]:
    yield "approval", approval.approval_id
    yield "state", state.value
    yield "purpose", approval.purpose
    yield "reason", approval.reason
    yield "requested by", approval.requested_by
    yield "requested", approval.requested_at
    yield "expires", approval.expires_at
    yield "approvals", f"{approval.approvals} of {approval.needed}"
    yield "sha256", approval.subject_sha256
    if approval.used_at is not None:
        yield "used", approval.used_at
        yield "used for", approval.used_for


def _summary(approval: Approval) -> Iterator[tuple[str, Cell]]:
    for name, value in approval.summary.items():
        if value not in (None, "", [], {}):
            yield name, value if isinstance(value, str | int) else canonical_text(value)
