"""``tallgrass quarantine``: units that are held for a person, the way in and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.governing import (
    held_by,
    held_document,
    hold_units,
    release_units,
    released_document,
)
from tallgrass.cli.governed_options import approval_option
from tallgrass.cli.identity import acting, actor_option, proved, require_somebody
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import print_json
from tallgrass.error_codes import lookup
from tallgrass.ledger.vocabulary import Status
from tallgrass.views.records import record_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.bootstrap.governing import Moved, Released
    from tallgrass.bootstrap.views import HistoryEvent
    from tallgrass.ledger.record import WalRecord


@click.group(
    name="quarantine",
    epilog=examples(
        "tallgrass quarantine list",
        "tallgrass quarantine hold 00e6e7b5-… --reason 'wrong calibration'",
        "tallgrass quarantine release 00e6e7b5-… --approval 3f0a5b1c-…",
    ),
)
def command() -> None:
    """Units that are held for a person: list, show, hold, release."""


@command.command(
    name="list",
    epilog=examples(
        "tallgrass quarantine list --dataset goes-glm",
        "tallgrass quarantine list --error-code governance_hard_fail --output json",
    ),
)
@click.option(
    "--dataset", "datasets", metavar="ID", multiple=True, help="Only this dataset; repeatable."
)
@click.option("--error-code", metavar="CODE", help="Only units whose last error has this code.")
@page_options("Units")
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
    wanted = record_filter(
        datasets=datasets, statuses=[Status.QUARANTINED.value], error_code=error_code
    )
    with invocation.stores(read_only=True) as stores:
        cursor = None if after is None else stores.reader.record(after).wal_id
        page = stores.reader.page(wanted, after=cursor, size=limit)
        if not page.records:
            invocation.require_datasets(datasets, stores)
    if as_json:
        print_json({"units": page.records, "next_cursor": page.next_cursor})
    else:
        whole = not (datasets or error_code or after)
        _show_page(page.records, page.next_cursor, whole=whole)


@command.command(epilog=examples("tallgrass quarantine show 00e6e7b5-…"))
@click.argument("name", metavar="ID|URI")
@output_option
@pass_invocation
def show(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Show why a unit is held, since when, and what a release would take."""
    with invocation.stores(read_only=True) as stores:
        record = stores.reader.record(name)
        held = held_by(stores, record)
    if as_json:
        print_json({"record": record, "held": held, "newer_object": record.next_object})
    else:
        _show_unit(record, held)


@command.command(
    epilog=examples("tallgrass quarantine hold 00e6e7b5-… 00e6e7b6-… --reason 'wrong calibration'")
)
@click.argument("names", metavar="ID|URI…", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", required=True, help="Why; the journal keeps it.")
@actor_option
@output_option
@pass_invocation
def hold(
    invocation: Invocation,
    *,
    names: tuple[str, ...],
    reason: str,
    actor: str | None,
    as_json: bool,
) -> None:
    """Take pending or failed units out of the flow, until a release.

    One that is under way, or done, cannot be held: it is told, and the others are held.
    """
    require_somebody(actor)
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="quarantine")
        held = hold_units(stores, names, reason=reason, by=by)
    if as_json:
        print_json(held_document(held))
    else:
        _say_held(held)
    if held.refused:
        raise click.exceptions.Exit(1)


@command.command(
    epilog=examples("tallgrass quarantine release 00e6e7b5-… 00e6e7b6-… --approval 3f0a5b1c-…")
)
@click.argument("names", metavar="ID|URI…", nargs=-1, required=True)
@approval_option("The approval; `tallgrass approvals request --release WAL_ID` asks for one.")
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
        released = release_units(invocation.config, stores, names, approval_id=approval_id, by=by)
    if as_json:
        print_json(released_document(released))
    else:
        _say_released(released)


def _show_page(records: Sequence[WalRecord], next_cursor: str | None, *, whole: bool) -> None:
    if not records:
        say("No unit is in quarantine." if whole else "No unit in quarantine matches.")
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


def _say_held(held: Moved) -> None:
    for wal_id in held.done:
        say(f"Held {wal_id}.")
    for wal_id, error in held.refused.items():
        say(f"Not held: {wal_id}: {error}", style="bold")


def _say_released(released: Released) -> None:
    for wal_id in released.wal_ids:
        say(f"Released {wal_id}.")
    say("They are due now: a running worker takes them.", style="dim")
