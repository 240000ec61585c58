"""``tallgrass reconcile``: bucket, ledger and catalog against each other, by reading only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.reconcile_report import FirstFindings, reconcile_document
from tallgrass.bootstrap.reconciling import ReconcileReport, ReconcileRequest, Reconciliation
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
from tallgrass.cli.reconcile_plan import FINDINGS, PlanFolder
from tallgrass.cli.tables import cell, progress, say, show_facts
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_folder
from tallgrass.clock import format_instant, system_clock
from tallgrass.inventory.mending import ADVICE, GAP_UNLISTED, UNPLANNED, failed_advice
from tallgrass.inventory.reconcile import Finding, Kind
from tallgrass.views.times import time_or_date

if TYPE_CHECKING:
    from datetime import datetime

#: Findings of each kind that are told one by one on a terminal.
_SHOWN = 20
#: A hundred years.
_GRACE_S_MAX = 36_500 * 86_400


@click.command(
    name="reconcile",
    epilog=examples(
        "tallgrass reconcile --dataset goes-glm --since 2026-06-01 --until 2026-06-02",
        "tallgrass reconcile --dataset hrrr --since 2026-06-01 --plan-dir mend",
        "tallgrass reconcile --dataset goes-glm --since 2026-06-01 --catalog-only --output json",
    ),
)
@click.option("--dataset", required=True, metavar="ID", help="The dataset to look at.")
@click.option("--since", required=True, metavar="TIME", help="Data that start from here on.")
@click.option("--until", metavar="TIME", help="Data that start before; now, if not given.")
@prefix_option
@bucket_option
@listing_option
@click.option("--catalog-only", is_flag=True, help="Ledger and catalog alone: ask no bucket.")
@click.option(
    "--grace",
    type=FiniteRange(0, _GRACE_S_MAX),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Leave alone what is younger: it may still be on its way.",
)
@click.option(
    "--rate",
    type=FiniteRange(0.001),
    metavar="N",
    help="Compare at most N listed objects a second; a request lists up to 1,000.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Findings of each kind in the JSON document; a plan folder has all.",
)
@click.option(
    "--plan-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write what would mend it: all findings, objects to backfill, units to replay.",
)
@objects_option
@output_option
@pass_invocation
def command(  # noqa: PLR0913 - one parameter an option
    invocation: Invocation,
    *,
    dataset: str,
    since: str,
    until: str | None,
    prefix: str,
    buckets: tuple[str, ...],
    listing: Path | None,
    catalog_only: bool,
    grace: float,
    rate: float | None,
    limit: int,
    plan_dir: Path | None,
    objects: str | None,
    as_json: bool,
) -> None:
    """Compare bucket, ledger and catalog, and say what would mend them.

    What was never announced, is stuck, failed, stale, held or gone; what changed in the bucket;
    items without a record and records without an item; gaps against the dataset's cadence. Writes
    nothing but the folder of --plan-dir. Ends with 0 if nothing was found, else with 1.
    """
    if catalog_only and (listing is not None or prefix or buckets):
        message = "--catalog-only asks no bucket: leave out --listing, --prefix and --bucket"
        raise click.UsageError(message)
    invocation.use({"objects.url": objects})
    request = ReconcileRequest(
        dataset=dataset,
        since=_required(since),
        until=system_clock() if until is None else _required(until),
        prefix=prefix,
        buckets=buckets,
        listing=listing,
        catalog_only=catalog_only,
        grace=timedelta(seconds=grace),
        rate=rate,
    )
    if request.since >= request.until:
        message = "--since must be before --until"
        raise click.UsageError(message)
    told = FirstFindings(limit if as_json else _SHOWN)
    report, commands = _carry_out(invocation, request, told, plan_dir)
    if as_json:
        print_json(reconcile_document(request, report, told.findings, commands))
    else:
        _show(report, told.findings, commands, request)
    if report.counts:
        raise click.exceptions.Exit(1)


def _carry_out(
    invocation: Invocation, request: ReconcileRequest, told: FirstFindings, plan_dir: Path | None
) -> tuple[ReconcileReport, list[str]]:
    """Take all findings, into a folder if one is wanted; return what came of it."""
    config = invocation.config
    with ExitStack() as stack:
        stores = stack.enter_context(invocation.stores(read_only=True))
        tell = stack.enter_context(_progress())
        folder = None
        if plan_dir is not None:
            place = stack.enter_context(appearing_folder(plan_dir, replace=_is_plan))
            folder = stack.enter_context(_plan_folder(place, request, config.text("env")))
        reconciliation = Reconciliation(config, stores, request, progress=tell)
        for finding in reconciliation.findings():
            told.take(finding)
            if folder is not None:
                folder.take(finding)
        if folder is not None:
            folder.finish()
    commands = [] if folder is None or plan_dir is None else folder.commands(plan_dir)
    return reconciliation.report, commands


def _required(text: str) -> "datetime":
    instant = time_or_date(text)
    if instant is None:
        raise click.UsageError("a time is needed")
    return instant


def _is_plan(folder: Path) -> bool:
    """Tell whether a folder is one that an earlier reconciliation wrote."""
    return (folder / FINDINGS).is_file()


def _plan_folder(place: Path, request: ReconcileRequest, env: str) -> PlanFolder:
    window = (format_instant(request.since), format_instant(request.until))
    return PlanFolder(place, dataset=request.dataset, env=env, window=window)


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show on stderr how many objects were compared, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with progress("comparing objects", None) as bar:
        yield lambda done: bar.update(bar.task_ids[0], completed=done) if bar is not None else None


def _show(
    report: ReconcileReport,
    findings: list[Finding],
    commands: list[str],
    request: ReconcileRequest,
) -> None:
    for finding in findings:
        what = finding.object_uri or finding.wal_id or (finding.start and f"{finding.start:%FT%TZ}")
        say(cell(f"{finding.kind.value}  {what}  {finding.detail}"))
    left_out = report.counts.total() - len(findings)
    if left_out:
        say(f"… and {left_out:,} more", "dim")
    compared = [("records", report.records), ("too young to be missed", report.recent)]
    if not request.catalog_only:
        compared.insert(0, ("listed objects", report.listed))
        compared.append(("listed, no units", report.ignored.total()))
    show_facts(compared, title="Compared")
    show_facts(
        [(kind.value, cell(report.counts[kind], "yellow")) for kind in Kind if report.counts[kind]]
        or [("nothing", "all three agree")],
        title="Found",
    )
    if report.gaps_unjudged:
        say("The window is too long for its cadence: gaps were not looked for.")
    for command_line in commands:
        say(cell(command_line))
    advices = {**ADVICE, Kind.GAP: GAP_UNLISTED} if request.catalog_only else ADVICE
    for kind, advice in (advices if commands else {**UNPLANNED, **advices}).items():
        if report.counts[kind]:
            say(f"{kind.value}: {advice}", "dim")
    window = f"--since {format_instant(request.since)} --until {format_instant(request.until)}"
    replay = None if commands else f"--dataset {request.dataset} {window}"
    for code, units in sorted(report.failed_codes.items()):
        say(cell(f"{Kind.FAILED.value}: {failed_advice(code, units, replay)}", "dim"))
