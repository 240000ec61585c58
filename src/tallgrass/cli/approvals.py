"""``tallgrass approvals``: ask for an approval, decide on it, see where it stands."""

from pathlib import Path

import click

from tallgrass.bootstrap.approving import (
    page_of_approvals,
    require_approval_id,
    subject_of_plan,
    subject_of_release,
)
from tallgrass.bootstrap.datasets import open_policies
from tallgrass.cli.approvals_view import show_approval, show_page
from tallgrass.cli.identity import proved
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.text import print_json
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import Approval, ApprovalState, Verdict
from tallgrass.views.governance import approval_document


@click.group(
    name="approvals",
    epilog=examples(
        "tallgrass approvals request --plan plan.jsonl --reason CHG-2041",
        "tallgrass approvals approve 3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e",
    ),
)
def command() -> None:
    """What may be done once, by another's leave: request, approve, reject, list, show."""


@command.command(
    epilog=examples(
        "tallgrass approvals request --plan plan.jsonl --reason CHG-2041",
        "tallgrass approvals request --release 00e6e7b5-… --reason 'the object was mended'",
    )
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A plan, as `replay --dry-run --plan-out FILE`, `backfill --dry-run --plan-out FILE`, "
    "`dlq plan --file FILE` or `nodes plan-clear|plan-rerun RUN NODE --file FILE` wrote it.",
)
@click.option(
    "--release",
    "units",
    metavar="WAL_ID",
    multiple=True,
    help="A quarantined unit to be released; repeatable.",
)
@click.option("--reason", required=True, help="Why; shown to the approver and kept.")
@output_option
@pass_invocation
def request(
    invocation: Invocation,
    *,
    plan_file: Path | None,
    units: tuple[str, ...],
    reason: str,
    as_json: bool,
) -> None:
    """Ask for an approval of a plan, or of a release from quarantine.

    It is bound to the bytes of the plan, or to the units as they are now: of what is changed
    afterwards nothing is approved. It ends by itself (governance.approval_hours) and is used once.
    """
    if (plan_file is None) == (not units):
        message = "say what for: --plan FILE, or --release WAL_ID"
        raise click.UsageError(message)
    if not reason.strip():
        message = "--reason must say something: the approver reads it"
        raise click.UsageError(message)
    with invocation.stores(read_only=False) as stores:
        by = proved(stores, action="approval_request")
        if plan_file is not None:
            with plan_file.open("rb") as lines:
                subject = subject_of_plan(lines)
        else:
            subject = subject_of_release(stores, open_policies(invocation.config), units)
        approval = stores.approvals.request(subject, reason=reason, by=by)
    _show(approval, ApprovalState.REQUESTED, as_json=as_json)


@command.command(
    name="list",
    epilog=examples("tallgrass approvals list", "tallgrass approvals list --state requested"),
)
@click.option(
    "--state",
    type=click.Choice([state.value for state in ApprovalState]),
    help="Only those that stand there.",
)
@click.option("--purpose", metavar="WORD", help="Only those for this purpose.")
@page_options("Approvals")
@output_option
@pass_invocation
def list_approvals(
    invocation: Invocation,
    *,
    state: str | None,
    purpose: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List approvals, newest first. All filters hold together."""
    cursor = None if after is None else require_approval_id(after)
    with invocation.stores(read_only=True) as stores:
        page, next_cursor = page_of_approvals(
            stores,
            state=None if state is None else ApprovalState(state),
            purpose=purpose,
            after=cursor,
            limit=limit,
        )
    if as_json:
        documents = [approval_document(approval, now) for approval, now in page]
        print_json({"approvals": documents, "next_cursor": next_cursor})
    else:
        _show_page(page, next_cursor)


@command.command(epilog=examples("tallgrass approvals show 3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e"))
@click.argument("approval_id", metavar="ID")
@output_option
@pass_invocation
def show(invocation: Invocation, *, approval_id: str, as_json: bool) -> None:
    """Show an approval: what it is for, who decided, where it stands.

    The SHA-256 of a plan is that of its file: `sha256sum FILE` tells whether it is this one.
    """
    with invocation.stores(read_only=True) as stores:
        approval, state = stores.approvals.find(require_approval_id(approval_id))
    _show(approval, state, as_json=as_json)


_note_option = click.option("--note", default="", help="Kept with the decision.")


@command.command(
    epilog=examples("tallgrass approvals approve 3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e --note ok")
)
@click.argument("approval_id", metavar="ID")
@_note_option
@output_option
@pass_invocation
def approve(invocation: Invocation, *, approval_id: str, note: str, as_json: bool) -> None:
    """Approve somebody else's request."""
    _decide(invocation, approval_id, Verdict.APPROVE, note, as_json=as_json)


@command.command(
    epilog=examples(
        "tallgrass approvals reject 3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e --note 'too many units'"
    )
)
@click.argument("approval_id", metavar="ID")
@_note_option
@output_option
@pass_invocation
def reject(invocation: Invocation, *, approval_id: str, note: str, as_json: bool) -> None:
    """Reject somebody else's request, for good; also one that is approved and not used yet."""
    _decide(invocation, approval_id, Verdict.REJECT, note, as_json=as_json)


def _decide(
    invocation: Invocation, approval_id: str, verdict: Verdict, note: str, *, as_json: bool
) -> None:
    with invocation.stores(read_only=False) as stores:
        by = proved(stores, action=f"approval_{verdict.value}", role=Role.APPROVER)
        decided, state = stores.approvals.decide(
            require_approval_id(approval_id), verdict, by=by, note=note
        )
    _show(decided, state, as_json=as_json)


def _show(approval: Approval, state: ApprovalState, *, as_json: bool) -> None:
    if as_json:
        print_json(approval_document(approval, state))
        return
    show_approval(approval, state)


def _show_page(page: list[tuple[Approval, ApprovalState]], next_cursor: str | None) -> None:
    show_page(page, next_cursor)
