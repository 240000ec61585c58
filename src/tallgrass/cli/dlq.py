"""``tallgrass dlq``: dead letters, from what stands behind them to their way out."""

import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.drain_preparing import DrainRequest, prepare_drain
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.bootstrap.replay_reporting import reported
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.cli import dlq_view
from tallgrass.cli.governed_options import (
    approval_option,
    change_option,
    incident_option,
    yes_option,
)
from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.text import print_json
from tallgrass.cli.whole_files import appearing_whole
from tallgrass.config import Config
from tallgrass.errors import GuardRefused
from tallgrass.governance.gate import Rule
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.replay.dead_letter_plan import DrainPlan, read_plan
from tallgrass.replay.dead_letters import Cause
from tallgrass.replay.drain_report import DrainReport, Thresholds
from tallgrass.views.dead_letters import wanted_letters

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The run went on, but units failed again, or more came of it than is borne.
_NOT_ALL_WELL = 1


@click.group(
    name="dlq",
    epilog=examples(
        "tallgrass dlq classify",
        "tallgrass dlq plan --cause connectivity --file drain.jsonl",
        "tallgrass dlq drain --plan drain.jsonl --change CHG-2041 "
        "--remediation 'endpoint restored' --yes",
    ),
)
def command() -> None:
    """Dead letters: classify, plan, drain, report, close."""


_SELECTION = (
    click.option("--queue", metavar="URL", help="The queue whose dead letters they are."),
    click.option(
        "--dataset", "datasets", metavar="ID", multiple=True, help="Only this dataset; repeatable."
    ),
    click.option("--since", metavar="TIME", help="Data that start at or after this time or date."),
    click.option("--until", metavar="TIME", help="Data that start before this time or date."),
    click.option(
        "--error-code",
        "--code",
        "codes",
        multiple=True,
        metavar="CODE",
        help="Only units whose last error has this code; repeatable. Its cause counts as mended.",
    ),
    click.option(
        "--cause",
        "causes",
        multiple=True,
        type=click.Choice([cause.value for cause in Cause]),
        help="Only letters that died of this; repeatable.",
    ),
)
_THRESHOLDS = tuple(
    click.option(
        f"--max-{name.replace('_', '-')}",
        f"max_{name}",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help=f"End with 1 beyond so many {words}.",
    )
    for name, words in (
        ("duplicates", "units that were applied twice"),
        ("lineage_regressions", "units without whole provenance"),
        ("mismatches", "items that differ as nobody announced"),
    )
)


def _with(options: tuple[Callable[[Any], Any], ...]) -> Callable[[_Function], _Function]:
    def add(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command(
    epilog=examples(
        "tallgrass dlq classify",
        "tallgrass dlq classify --dataset goes-glm --since 2026-06-01 --output json",
    )
)
@_with(_SELECTION)
@output_option
@pass_invocation
def classify(invocation: Invocation, /, *, queue: str | None, as_json: bool, **chosen: Any) -> None:
    """Sort dead letters by cause, dataset, code and time; none is taken away.

    What the ledger knows of a letter's units says why it died, not the letter itself.
    """
    config = invocation.use({"queue.url": queue})
    wanted = wanted_letters(**chosen)
    with invocation.stores(read_only=True) as stores:
        desk = DeadLetterDesk(config, stores, open_catalogue(config))
        found = dlq_view.classified(desk.each(wanted))
    dlq_view.show_classes(
        config.text("queue.name"), found, truncated=desk.truncated, as_json=as_json
    )


@command.command(
    epilog=examples(
        "tallgrass dlq plan --file drain.jsonl",
        "tallgrass dlq plan --cause schema --dataset hrrr --max-events 100 --file pilot.jsonl",
    )
)
@_with(_SELECTION)
@click.option("--max-events", type=click.IntRange(1), metavar="N", help="Send at most N letters.")
@click.option("--replay-run-id", metavar="ID", help="Name the run; else an id is drawn.")
@click.option(
    "--file",
    "target",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan there; it appears whole or not at all.",
)
@output_option
@pass_invocation
def plan(
    invocation: Invocation,
    /,
    *,
    queue: str | None,
    max_events: int | None,
    replay_run_id: str | None,
    target: Path,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Write down what a drain would do with each letter; nothing is changed."""
    config = invocation.use({"queue.url": queue})
    request = DrainPlanRequest(
        wanted=wanted_letters(**chosen), max_events=max_events, replay_run_id=replay_run_id
    )
    with invocation.stores(read_only=True) as stores:
        made = DeadLetterDesk(config, stores, open_catalogue(config)).plan(request)
    with appearing_whole(target) as file:
        file.writelines(made.lines())
    dlq_view.show_plan(made, target, as_json=as_json)


@command.command(
    epilog=examples(
        "tallgrass dlq drain --plan drain.jsonl --incident INC-7 "
        "--remediation 'network restored' --yes",
        "tallgrass dlq drain --plan drain.jsonl --change CHG-2041 "
        "--remediation 'grammar mended' --to replay-queue --yes",
    )
)
@click.option("--queue", metavar="URL", help="The queue whose dead letters they are.")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The plan that `dlq plan` wrote.",
)
@change_option
@incident_option
@click.option("--remediation", metavar="TEXT", help="How the cause was mended; kept in the log.")
@approval_option("The approval that was given for the plan.")
@click.option(
    "--to",
    "target",
    type=click.Choice(["main", "replay-queue"]),
    default="main",
    show_default=True,
    help="Back to the main queue, or to a queue of the run's own.",
)
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Letters taken together.")
@click.option("--rate", type=FiniteRange(0.001), metavar="N", help="At most N letters a second.")
@click.option(
    "--max-events", type=click.IntRange(1), metavar="N", help="Send at most N letters now."
)
@click.option("--dry-run", is_flag=True, help="Tell what it would do, change nothing.")
@yes_option
@_with(_THRESHOLDS)
@actor_option
@output_option
@pass_invocation
def drain(  # noqa: PLR0913 - one a flag
    invocation: Invocation,
    /,
    *,
    queue: str | None,
    plan_file: Path | None,
    change_ref: str | None,
    incident_ref: str | None,
    remediation: str | None,
    approval_id: str | None,
    target: str,
    batch: int | None,
    rate: float | None,
    max_events: int | None,
    dry_run: bool,
    confirmed: bool,
    actor: str | None,
    as_json: bool,
    **limits: int,
) -> None:
    """Take letters out by a plan: record, send, confirm, then delete.

    Broken off at any point, the same command goes on. Without a plan, an open reference and a word
    on what was mended it is refused. Ends with 1 as `dlq report` does.
    """
    if not (confirmed or dry_run) and (as_json or not sys.stdin.isatty()):
        message = "nobody can be asked here: say --yes to drain"
        raise click.UsageError(message)
    config = invocation.use({"queue.url": queue})
    request = DrainRequest(
        plan=None if plan_file is None else _read(plan_file),
        change_ref=change_ref,
        incident_ref=incident_ref,
        remediation=remediation,
        approval_id=approval_id,
    )
    catalogue = open_catalogue(config)
    with (
        reported(config, "dlq drain", dry_run=dry_run) as recorder,
        closing(open_current_stores(config, catalogue=catalogue, recorder=recorder)) as stores,
        told_to_stop() as stop,
    ):
        desk = DeadLetterDesk(config, stores, catalogue, recorder=recorder)
        by = acting(stores, actor, action="dlq_drain")
        prepared = prepare_drain(config, stores, catalogue, request, by=by)
        if dry_run:
            dlq_view.show_preview(prepared.plan, desk.preview(prepared.plan), as_json=as_json)
            return
        if not confirmed:
            click.confirm(dlq_view.question(prepared), abort=True, err=True)
        with dlq_view.bar(len(prepared.plan.rows)) as progress:
            options = DrainOptions(
                to_replay_queue=target == "replay-queue",
                batch=batch,
                rate=rate,
                max_events=max_events,
                borne=_borne(limits),
                stop=stop.is_set,
                sleep=stop.wait,
                progress=progress,
            )
            report = desk.drain(prepared, options, by=by)
    url = _replay_url(config, report) if target == "replay-queue" else None
    dlq_view.show_report(report, queue_url=url, as_json=as_json)
    _end(report)


@command.command(epilog=examples("tallgrass dlq report RUN_ID"))
@click.argument("run_id")
@_with(_THRESHOLDS)
@output_option
@pass_invocation
def report(invocation: Invocation, /, run_id: str, *, as_json: bool, **limits: int) -> None:
    """Tell what came of a drain's letters and of their units.

    Ends with 1 if units failed again, or if duplicates, lineage regressions or mismatches are above
    what is borne.
    """
    with invocation.stores(read_only=True) as stores:
        found = _report_of(invocation.config, stores, run_id, limits)
    dlq_view.show_report(found, queue_url=None, as_json=as_json)
    _end(found)


@command.command(epilog=examples("tallgrass dlq close RUN_ID"))
@click.argument("run_id")
@click.option("--queue", metavar="URL", help="The main queue that the letters came from.")
@actor_option
@output_option
@pass_invocation
def close(
    invocation: Invocation, run_id: str, *, queue: str | None, actor: str | None, as_json: bool
) -> None:
    """End a drain: remove its replay queue if that is empty, and settle its records.

    A queue is never removed with messages in it, or while units wait for one: work it off first,
    with `tallgrass ingest --queue URL --replay-run-id RUN_ID --drain`.
    """
    config = invocation.use({"queue.url": queue})
    catalogue = open_catalogue(config)
    with closing(open_current_stores(config, catalogue=catalogue)) as stores:
        desk = DeadLetterDesk(config, stores, catalogue)
        run = desk.find(run_id)
        by = acting(stores, actor, action="dlq_close")
        found, removed = desk.close(run, by=by)
    if as_json:
        print_json({**found.document(), "queue_removed": removed})
        return
    dlq_view.show_report(found, queue_url=None, as_json=False)
    sys.stdout.write("its replay queue was removed\n" if removed else "it has no replay queue\n")


def _read(file: Path) -> DrainPlan:
    with file.open("rb") as lines:
        return read_plan(lines)


def _borne(limits: dict[str, int]) -> Thresholds:
    return Thresholds(**{name.removeprefix("max_"): value for name, value in limits.items()})


def _report_of(config: Config, stores: Stores, run_id: str, limits: dict[str, int]) -> DrainReport:
    desk = DeadLetterDesk(config, stores, open_catalogue(config))
    return desk.report(desk.find(run_id), _borne(limits))


def _replay_url(config: Config, report: DrainReport) -> str:
    return replay_queue_url(config.text("queue.url"), report.replay_run_id)


def _end(report: DrainReport) -> None:
    if report.exceeded:
        raise click.exceptions.Exit(_NOT_ALL_WELL)
    held = report.by_reason.get(Rule.KILL_SWITCH_ACTIVE.value, 0)
    if held:
        message = f"replay is switched off: {held:,} letters stay; when it is on, drain again"
        raise GuardRefused(message, guard=Rule.KILL_SWITCH_ACTIVE.value)
    if report.units.failed:
        raise click.exceptions.Exit(_NOT_ALL_WELL)
