"""``tallgrass backfill``: what a bucket holds and no notification brought becomes due."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from tallgrass.bootstrap.backfilling import BackfillRequest, Surroundings, order_of, run_backfill
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.replay_reporting import recorded
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.cli.governed_options import approval_option, change_option, incident_option
from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.listing_options import (
    bucket_option,
    listing_option,
    objects_option,
    prefix_option,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import say, show_facts
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.errors import InvalidInput
from tallgrass.governance.switches import SwitchScope
from tallgrass.inventory.backfill import BackfillReport
from tallgrass.views.times import time_or_date


@click.command(
    name="backfill",
    epilog=examples(
        "tallgrass backfill --dataset goes-glm --since 2026-06-01 --until 2026-06-02 --dry-run",
        "tallgrass backfill --dataset goes-glm --since 2026-06-01 --until 2026-06-02 --actor j.doe",
        "tallgrass backfill --dataset hrrr --prefix hrrr.20260601/ --max-events 10000 --rate 200",
        "tallgrass backfill --dataset goes-glm --listing inventory/manifest.json",
    ),
)
@click.option(
    "--dataset", required=True, metavar="ID", help="The dataset; keys of others are passed over."
)
@click.option("--since", metavar="TIME", help="Data that start at or after this time or date.")
@click.option("--until", metavar="TIME", help="Data that start before this time or date.")
@prefix_option
@bucket_option
@listing_option
@objects_option
@click.option("--max-events", type=click.IntRange(1), metavar="N", help="Make at most N units due.")
@click.option(
    "--rate", type=FiniteRange(0.001), metavar="N", help="Make at most N units a second due."
)
@click.option("--dry-run", is_flag=True, help="Only tell what would become due.")
@click.option(
    "--reason", default="backfill", show_default=True, metavar="CODE", help="Why, for the log."
)
@change_option
@incident_option
@click.option(
    "--plan-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --dry-run: write the order there, for an approval.",
)
@approval_option("The approval that was given for the order.")
@actor_option
@output_option
@pass_invocation
def command(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    dataset: str,
    since: str | None,
    until: str | None,
    prefix: str,
    buckets: tuple[str, ...],
    listing: Path | None,
    objects: str | None,
    max_events: int | None,
    rate: float | None,
    dry_run: bool,
    reason: str,
    change_ref: str | None,
    incident_ref: str | None,
    plan_out: Path | None,
    approval_id: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Make due what a bucket holds and no notification brought.

    What the ledger lacks is recorded; workers of ingest take it from there. Objects that the ledger
    knows as they are listed are passed over, so the same command can be run again at any time, and
    goes on where it was broken off. One that was overwritten since is due again, as if it were
    announced.
    """
    if plan_out is not None and not dry_run:
        message = "--plan-out goes with --dry-run"
        raise click.UsageError(message)
    config = invocation.use({"objects.url": objects})
    request = BackfillRequest(
        dataset=dataset,
        since=time_or_date(since),
        until=time_or_date(until),
        prefix=prefix,
        buckets=buckets,
        listing=listing,
        max_events=max_events,
        rate=rate,
        dry_run=dry_run,
        reason=reason,
        change_ref=_given("--change", change_ref),
        incident_ref=_given("--incident", incident_ref),
        approval_id=approval_id,
    )
    catalogue = open_catalogue(config)
    if plan_out is not None:
        order = order_of(config, catalogue, request)
        with appearing_whole(plan_out) as file:
            file.write(order.plan())
    with (
        recorded(config, "backfill") as recorder,
        closing(
            open_current_stores(config, read_only=dry_run, catalogue=catalogue, recorder=recorder)
        ) as stores,
        told_to_stop() as stop,
        _counting() as progress,
    ):
        by = None if dry_run else acting(stores, actor, action="backfill")
        around = Surroundings(stop=stop.is_set, progress=progress, sleep=stop.wait)
        report = run_backfill(config, stores, catalogue, request, around, by=by)
        off = stores.switches.switched_off(SwitchScope.INGEST).stops(dataset)
    _show(report, request, stopped=stop.is_set(), off=off, as_json=as_json)


def _given(flag: str, ref: str | None) -> str | None:
    if ref is not None and not ref.strip():
        raise InvalidInput(f"{flag} names nothing", code="reference_missing")
    return ref


def _show(
    report: BackfillReport, request: BackfillRequest, *, stopped: bool, off: bool, as_json: bool
) -> None:
    if as_json:
        told = {"dry_run": request.dry_run, "stopped": stopped, "switched_off": off}
        print_json({"dataset": request.dataset, **told, **report.document()})
        return
    would = "would be due" if request.dry_run else "made due"
    say(f"What this backfill {'would do' if request.dry_run else 'did'}", "bold")
    show_facts(
        [
            ("listed", report.listed),
            ("known as listed", report.known),
            (f"new, {would}", report.recorded),
            (f"overwritten, {would}", report.changed),
            *(
                [(f"waited for a message, {would}", report.waited_for_message)]
                if report.waited_for_message
                else []
            ),
            *((f"overwritten, {name}", count) for name, count in sorted(report.left.items())),
            *((f"passed over, {name}", count) for name, count in sorted(report.passed.items())),
        ]
    )
    if report.capped:
        again = ", with a new approval" if request.approval_id is not None else ""
        click.echo(f"--max-events is reached: run it again for the rest{again}")
    if stopped:
        click.echo("stopped: run it again to go on")
    if off and report.due:
        click.echo(f"ingest of {request.dataset} is switched off: the units wait until it is on")


@contextmanager
def _counting() -> Iterator[Callable[[BackfillReport], None]]:
    """Show how far it is, on stderr and only where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _report: None
        return

    def tell(report: BackfillReport) -> None:
        click.echo(f"\rlisted {report.listed:,}, due {report.due:,} ", nl=False, err=True)

    yield tell
    click.echo(err=True)
