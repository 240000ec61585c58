"""``tallgrass quarantine``: units that are held for a person, and the approved way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.governing import Released, open_releases
from tallgrass.cli.identity import proved
from tallgrass.cli.invocation import PAGE_MAX, Invocation, examples, output_option, pass_invocation
from tallgrass.cli.text import print_json
from tallgrass.error_codes import is_unit_code, lookup, nearest
from tallgrass.errors import GuardRefused, InvalidInput
from tallgrass.governance.gate import Rule
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.bootstrap.views import HistoryEvent
    from tallgrass.ledger.record import WalRecord


@click.group(
    name="quarantine",
    epilog=examples(
        "tallgrass quarantine list",
        "tallgrass quarantine release 00e6e7b5-… --approval 3f0a5b1c-…",
    ),
)
def command() -> None:
    """Units that are held for a person: list, show, release."""


@command.command(
    name="list",
    epilog=examples(
        "tallgrass quarantine list --dataset goes-glm",
        "tallgrass quarantine list --error-code governance_hard_fail --output json",
    ),
)
@click.option("--dataset", "datasets", multiple=True, help="Only this dataset; repeatable.")
@click.option("--error-code", metavar="CODE", help="Only units whose last error has this code.")
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=50,
    show_default=True,
    help="Units on a page.",
)
@click.option("--after", metavar="CURSOR", help="Go on after the page that gave this cursor.")
@output_option
@pass_invocation
def list_units(
    invocation: Invocation,
    *,
    datasets: tuple[str, ...],
    error_code: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List quarantined units in order of data time."""
    if error_code is not None and not is_unit_code(error_code):
        message = f"no unit can have the code {error_code!r}{nearest(error_code)}"
        raise InvalidInput(message, code="unknown_code")
    wanted = RecordFilter(
        datasets=list(dict.fromkeys(datasets)),
        statuses=[Status.QUARANTINED],
        error_code=error_code,
    )
    with invocation.stores(read_only=True) as stores:
        cursor = None if after is None else stores.reader.record(after).wal_id
        page = stores.reader.page(wanted, after=cursor, size=limit)
    if as_json:
        print_json({"units": page.records, "next_cursor": page.next_cursor})
    else:
        _show_page(page.records, page.next_cursor)


@command.command(epilog=examples("tallgrass quarantine show 00e6e7b5-…"))
@click.argument("name", metavar="ID|URI")
@output_option
@pass_invocation
def show(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Show why a unit is held, since when, and what a release would take."""
    with invocation.stores(read_only=True) as stores:
        record = stores.reader.record(name)
        held = _held_by(stores, record)
    if as_json:
        print_json({"record": record, "held": held, "newer_object": record.next_object})
    else:
        _show_unit(record, held)


@command.command(
    epilog=examples("tallgrass quarantine release 00e6e7b5-… 00e6e7b6-… --approval 3f0a5b1c-…")
)
@click.argument("names", metavar="ID|URI…", nargs=-1, required=True)
@click.option(
    "--approval",
    "approval_id",
    metavar="ID",
    help="The approval; `tallgrass approvals request --release WAL_ID` asks for one.",
)
@output_option
@pass_invocation
def release(
    invocation: Invocation, *, names: tuple[str, ...], approval_id: str | None, as_json: bool
) -> None:
    """Let units go on: pending and due, with a new budget of attempts and their newest object.

    The approval must be for exactly these units as they are now, and is used up. All are released,
    or none.
    """
    with invocation.stores(read_only=False) as stores:
        by = proved(stores, action="release")
        units = [stores.reader.record(name).wal_id for name in names]
        if approval_id is None:
            message = "nothing leaves quarantine without one; `tallgrass approvals request` asks"
            refused = GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)
            raise stores.actors.refuse(by.name, "release", refused, subject=units[0])
        releases = open_releases(invocation.config, stores)
        released = releases.release(units, approval_id=approval_id, by=by)
    if as_json:
        print_json(_document(released))
    else:
        _say_released(released)


def _document(released: Released) -> dict[str, object]:
    approval = released.approval
    return {
        "released": released.wal_ids,
        "approval_id": approval.approval_id,
        "reason": approval.reason,
        "requested_by": approval.requested_by,
        "approved_by": [each.actor for each in approval.decisions],
    }


def _held_by(stores: Stores, record: WalRecord) -> HistoryEvent:
    """Return the edge into quarantine; a unit that is not held is refused."""
    if record.status is not Status.QUARANTINED:
        raise InvalidInput(f"{record.wal_id} is {record.status.value}, not quarantined")
    into = [
        event
        for event in stores.reader.history(record.wal_id)
        if event.to_status == Status.QUARANTINED.value != event.from_status
    ]
    return into[-1]


def _show_page(records: Sequence[WalRecord], next_cursor: str | None) -> None:
    from tallgrass.cli.tables import cell, say, show_table  # noqa: PLC0415 - rich is for tables

    if not records:
        say("No unit is in quarantine.")
        return
    show_table(
        ("wal_id", "dataset", "held since", "error", "attempts", "newer", "object"),
        [
            (
                record.wal_id,
                record.dataset,
                record.updated_at,
                record.last_error_code,
                record.attempts,
                "-" if record.next_object is None else cell("yes", "bold"),
                record.object_uri,
            )
            for record in records
        ],
        right=("attempts",),
        wide=("object",),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", style="dim")


def _show_unit(record: WalRecord, held: HistoryEvent) -> None:
    from tallgrass.cli.tables import say, show_facts  # noqa: PLC0415 - rich is for tables only

    code = record.last_error_code
    show_facts(
        [
            ("object", record.object_uri),
            ("dataset", record.dataset),
            ("held since", held.occurred_at),
            ("by", held.actor),
            ("because of", held.reason),
            ("last error", record.last_error_message or code),
            ("attempts", record.attempts),
            ("newer object", "yes, a release takes it" if record.next_object else "no"),
            ("version", record.version),
        ],
        title=record.wal_id,
    )
    if code is not None:
        say(lookup(code).remedy)
    say(f"To let it go on: tallgrass approvals request --release {record.wal_id} --reason …")


def _say_released(released: Released) -> None:
    from tallgrass.cli.tables import say  # noqa: PLC0415 - rich is for tables only

    for wal_id in released.wal_ids:
        say(f"Released {wal_id}.")
    say("They are due now: a running worker takes them.", style="dim")
