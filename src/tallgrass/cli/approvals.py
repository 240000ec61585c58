"""``tallgrass approvals``: ask for an approval, decide on it, see where it stands."""

import uuid
from collections import deque
from itertools import islice
from pathlib import Path

import click

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.stores import Stores
from tallgrass.cli.identity import proved
from tallgrass.cli.invocation import PAGE_MAX, Invocation, examples, output_option, pass_invocation
from tallgrass.cli.text import plain, print_json
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.approvals import (
    RELEASE_UNITS_MAX,
    Approval,
    ApprovalState,
    Subject,
    Verdict,
    plan_subject,
    release_subject,
)
from tallgrass.governance.gate import Action, approvals_needed
from tallgrass.governance.plan_lines import PLAN_BYTES_MAX
from tallgrass.governance.policy import Policies
from tallgrass.inventory.backfill import backfill_plan
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.dead_letter_plan import is_drain_plan, read_plan
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.plan_file import PlanReading


@click.group(
    name="approvals",
    epilog=examples(
        "tallgrass approvals request --plan plan.jsonl --reason CHG-2041",
        "tallgrass approvals approve 3f0a5b1c-2d3e-4cc1-9d7e-0190c7e85f4e",
    ),
)
def command() -> None:
    """What may be done once, because somebody else agreed: request, approve, reject, list."""


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
    help="A quarantined unit to be released; can be given several times.",
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
            subject = _plan(plan_file)
        else:
            subject = _release(stores, open_policies(invocation.config), units)
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
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=50,
    show_default=True,
    help="Approvals on a page.",
)
@click.option("--after", metavar="CURSOR", help="Go on after the page that gave this cursor.")
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
    cursor = None if after is None else _approval_id(after)
    with invocation.stores(read_only=True) as stores:
        matching = (
            (approval, now)
            for approval, now in stores.approvals.each(after=cursor)
            if state in {None, now.value} and purpose in {None, approval.purpose}
        )
        found = list(islice(matching, limit + 1))
    page, more = found[:limit], len(found) > limit
    next_cursor = page[-1][0].approval_id if more else None
    if as_json:
        documents = [_document(approval, now) for approval, now in page]
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
        approval, state = stores.approvals.find(_approval_id(approval_id))
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
            _approval_id(approval_id), verdict, by=by, note=note
        )
    _show(decided, state, as_json=as_json)


def _plan(file: Path) -> Subject:
    """Read a plan whole: its hash, and what its rows come to rather than what it says of them."""
    from tallgrass.nodes import clear_plan, rerun_plan  # noqa: PLC0415 - 80 ms for few plans

    with file.open("rb") as lines:
        data = lines.read(PLAN_BYTES_MAX + 1)
        if (order := backfill_plan(data)) is not None:
            return plan_subject(*order)
        if (clearing := clear_plan.read_clear_plan(data)) is not None:
            return plan_subject(clearing[0].document(), clearing[1])
        if (rerun := rerun_plan.read_rerun_plan(data)) is not None:
            return plan_subject(rerun[0].document(), rerun[1])
        lines.seek(0)
        if is_drain_plan(lines.readline()):
            lines.seek(0)
            plan = read_plan(lines)
            counted: dict[str, int] = dict(sorted(plan.by_action.items()))
            return plan_subject({**plan.header.document(), "actions": counted}, plan.sha256)
        lines.seek(0)
        reading = PlanReading(lines)
        header, rows = reading.open()
        deque(rows, maxlen=0)
    counted = {
        each.value: reading.by_action[each] for each in PlanAction if reading.by_action[each]
    }
    return plan_subject({**header.document(), "actions": counted}, reading.sha256)


def _release(stores: Stores, policies: Policies, names: tuple[str, ...]) -> Subject:
    if len(names) > RELEASE_UNITS_MAX:
        raise InvalidInput(f"a release names at most {RELEASE_UNITS_MAX:,} units")
    records = [stores.reader.record(name) for name in dict.fromkeys(names)]
    needed = 1
    for record in records:
        if record.status is not Status.QUARANTINED:
            message = f"{record.wal_id} is {record.status.value}, not quarantined"
            raise InvalidInput(message)
        if policy := policies.of(record.dataset):
            needed = max(needed, approvals_needed(Action.RELEASE, policy, None))
    shown = {
        "objects": {record.wal_id: record.object_uri for record in records},
        "codes": {record.wal_id: record.last_error_code for record in records},
    }
    units = [(record.wal_id, record.version) for record in records]
    return release_subject(units, needed=needed, shown=shown)


def _approval_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        message = f"{text!r} is no id of an approval"
        raise InvalidInput(message) from None


def _document(approval: Approval, state: ApprovalState) -> dict[str, object]:
    values: dict[str, object] = plain(approval)
    return {"state": state.value, **values, "approvals": approval.approvals}


def _show(approval: Approval, state: ApprovalState, *, as_json: bool) -> None:
    if as_json:
        print_json(_document(approval, state))
        return
    from tallgrass.cli.approvals_view import show_approval  # noqa: PLC0415 - loads rich

    show_approval(approval, state)


def _show_page(page: list[tuple[Approval, ApprovalState]], next_cursor: str | None) -> None:
    from tallgrass.cli.approvals_view import show_page  # noqa: PLC0415 - loads rich

    show_page(page, next_cursor)
