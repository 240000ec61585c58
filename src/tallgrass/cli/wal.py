"""``tallgrass wal``: look at the ledger, note, move it. Reading needs only rights to read."""

from __future__ import annotations

import click

from tallgrass.cli import wal_exchange
from tallgrass.cli.identity import acting, actor_option, require_somebody
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    output_option,
    page_options,
    pass_invocation,
)
from tallgrass.cli.tables import say
from tallgrass.cli.text import print_json
from tallgrass.cli.wal_tables import show_history, show_page, show_stats, show_unit
from tallgrass.views.records import (
    record_filter,
    require_cursor,
    stats_document,
    unit_document,
)


@click.group(
    name="wal",
    epilog=examples("tallgrass wal list --status failed", "tallgrass wal stats"),
)
def command() -> None:
    """Look at the ledger: list, show, history, stats, annotate, export, import."""


command.add_command(wal_exchange.export)
command.add_command(wal_exchange.import_)


@command.command(
    name="list",
    epilog=examples(
        "tallgrass wal list --dataset goes-glm --status failed --since 2026-06-01",
        "tallgrass wal list --stale --output json",
    ),
)
@click.option(
    "--dataset", "datasets", metavar="ID", multiple=True, help="Only this dataset; repeatable."
)
@click.option(
    "--status", "statuses", multiple=True, metavar="STATUS", help="Only this status; repeatable."
)
@click.option("--since", metavar="TIME", help="Data that start at or after this time or date.")
@click.option("--until", metavar="TIME", help="Data that start before this time or date.")
@click.option("--error-code", metavar="CODE", help="Only units whose last error has this code.")
@click.option("--stale", is_flag=True, help="Only succeeded units whose last re-run failed.")
@page_options("Records")
@output_option
@pass_invocation
def list_records(  # noqa: PLR0913 - one a filter
    invocation: Invocation,
    *,
    datasets: tuple[str, ...],
    statuses: tuple[str, ...],
    since: str | None,
    until: str | None,
    error_code: str | None,
    stale: bool,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List records in order of data time. All filters hold together."""
    wanted = record_filter(
        datasets=datasets,
        statuses=statuses,
        since=since,
        until=until,
        error_code=error_code,
        stale=stale,
    )
    if after is not None:
        require_cursor(after)
    with invocation.stores(read_only=True) as stores:
        page = stores.reader.page(wanted, after=after, size=limit)
        if not page.records:
            invocation.require_datasets(datasets, stores)
    if as_json:
        print_json({"records": page.records, "next_cursor": page.next_cursor})
        return
    show_page(page.records, page.next_cursor)


@command.command(epilog=examples("tallgrass wal show s3://noaa-goes19/GLM-L2-LCFA/…nc"))
@click.argument("name", metavar="ID|URI")
@output_option
@pass_invocation
def show(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Show one unit: its record, its attempts and the notes on them."""
    with invocation.stores(read_only=True) as stores:
        record = stores.reader.record(name)
        attempts = stores.reader.attempts(record.wal_id)
        annotations = stores.reader.annotations(record.wal_id)
    if as_json:
        print_json(unit_document(record, attempts, annotations))
        return
    show_unit(record, attempts, annotations)


@command.command(epilog=examples("tallgrass wal history 0ebf7d5e-1c00-8f3a-9c1d-5a1b2c3d4e5f"))
@click.argument("name", metavar="ID|URI")
@output_option
@pass_invocation
def history(invocation: Invocation, *, name: str, as_json: bool) -> None:
    """Tell the life of one unit, one line a change of its status."""
    with invocation.stores(read_only=True) as stores:
        record = stores.reader.record(name)
        events = stores.reader.history(record.wal_id)
    if as_json:
        print_json({"wal_id": record.wal_id, "events": events})
        return
    show_history(record, events)


@command.command(
    epilog=examples("tallgrass wal annotate 0ebf7d5e-… 2 --note 'radar was under repair'")
)
@click.argument("name", metavar="ID|URI")
@click.argument("attempt", type=click.IntRange(1))
@click.option("--note", metavar="TEXT", required=True, help="What to remember of the attempt.")
@actor_option
@output_option
@pass_invocation
def annotate(
    invocation: Invocation, *, name: str, attempt: int, note: str, actor: str | None, as_json: bool
) -> None:
    """Write a note to an attempt, for good; the attempt itself stays as it is."""
    from tallgrass.bootstrap.governing import annotate_attempt  # noqa: PLC0415 - to read needs none

    require_somebody(actor)
    with invocation.stores(read_only=False) as stores:
        by = acting(stores, actor, action="annotate")
        noted = annotate_attempt(stores, name, attempt, note=note, by=by)
    if as_json:
        print_json(noted)
        return
    say(f"Noted on attempt {attempt} of {noted['wal_id']}.")


@command.command(epilog=examples("tallgrass wal stats"))
@output_option
@pass_invocation
def stats(invocation: Invocation, *, as_json: bool) -> None:
    """Count records by dataset and status, what is due, and who works."""
    with invocation.stores(read_only=True) as stores:
        found = stores.reader.stats()
    if as_json:
        print_json(stats_document(found))
        return
    show_stats(found)
