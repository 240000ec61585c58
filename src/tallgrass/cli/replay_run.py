"""Carrying out a replay: the options of a run, the question before it, its bar and its report."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import PlanRequest
from tallgrass.bootstrap.replay_preparing import Prepared, ReplayRequest, prepare_replay
from tallgrass.bootstrap.replay_reporting import reported
from tallgrass.bootstrap.replaying import RunOptions, run_replay
from tallgrass.bootstrap.stores import open_current_stores
from tallgrass.cli.governed_options import (
    approval_option,
    change_option,
    incident_option,
    yes_option,
)
from tallgrass.cli.hints import hint_lines
from tallgrass.cli.identity import acting, actor_option
from tallgrass.cli.invocation import FiniteRange, Invocation
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import progress
from tallgrass.cli.text import print_json, printable
from tallgrass.errors import GuardRefused
from tallgrass.governance.actors import Acting
from tallgrass.governance.gate import Rule
from tallgrass.governance.policy import ReplayMode
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import NewRun, RunReport, RunState

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The run ends, but units failed, or more fields differ than were announced.
_NOT_ALL_WELL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """The options of a run, as one value."""

    plan: Path | None
    approval_id: str | None
    rate: float | None
    max_mismatches: int
    expected: tuple[str, ...]
    policy_ref: str | None
    change_ref: str | None
    incident_ref: str | None
    force: bool
    work: bool
    confirmed: bool
    actor: str | None


def _pointer(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> Any:
    for pointer in given:
        if not pointer.startswith("/"):
            message = f"{pointer!r} is no JSON Pointer: it begins with /, as /properties/datetime"
            raise click.BadParameter(message)
    return given


_OPTIONS = (
    click.option(
        "--plan",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Run this plan, as --dry-run --plan-out wrote it.",
    ),
    approval_option("The approval that was given for the plan."),
    click.option(
        "--rate",
        type=FiniteRange(0.001),
        metavar="N",
        help="At most N units a second; can only lower replay.max_records_per_second.",
    ),
    click.option(
        "--expect-changes",
        "expected",
        multiple=True,
        metavar="POINTER",
        callback=_pointer,
        help="A field of items that may change, as /properties/datetime; repeatable.",
    ),
    click.option(
        "--max-mismatches",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Stop, and end with 1, beyond so many changes that nobody announced.",
    ),
    click.option(
        "--policy-ref", metavar="REF", help="The policy that this brings in; it must be in force."
    ),
    change_option,
    incident_option,
    click.option(
        "--force", is_flag=True, help="Run again even what should give the same; by approved plan."
    ),
    click.option(
        "--work/--no-work",
        default=True,
        help="Work on the units here, or leave them to the workers of ingest.",
    ),
    yes_option,
    actor_option,
)
_NAMES = (
    "plan", "approval_id", "rate", "expected", "max_mismatches", "policy_ref", "change_ref",
    "incident_ref", "force", "work", "confirmed", "actor",
)  # fmt: skip


def run_options(function: _Function) -> _Function:
    """Add all options of a run; the command gets them as one value, `flags`."""

    @wraps(function)
    def command(*args: Any, **given: Any) -> Any:
        flags = RunFlags(**{name: given.pop(name) for name in _NAMES})
        return function(*args, flags=flags, **given)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


def carry_out(
    invocation: Invocation,
    plan: PlanRequest | None,
    flags: RunFlags,
    *,
    reason: str | None,
    replay_run_id: str | None,
    meant_for: tuple[str | None, ...],
    as_json: bool,
) -> None:
    """Run a replay and tell what came of it; the exit code says how it ended."""
    _require_answer(flags, as_json=as_json)
    config = invocation.config
    catalogue = open_catalogue(config)
    request = ReplayRequest(
        plan=plan,
        plan_file=flags.plan,
        replay_run_id=replay_run_id,
        reason=reason,
        approval_id=flags.approval_id,
        meant_for=meant_for,
    )
    with (
        reported(config, "replay") as recorder,
        closing(open_current_stores(config, catalogue=catalogue, recorder=recorder)) as stores,
        told_to_stop() as stop,
    ):
        by = acting(stores, flags.actor, action="replay_run")
        with closing(prepare_replay(config, stores, catalogue, request, by=by)) as prepared:
            _ask(prepared, by, flags)
            with _bar(prepared) as progress:
                options = RunOptions(
                    work=flags.work,
                    records_per_s=flags.rate,
                    mismatches_max=flags.max_mismatches,
                    stop=stop.is_set,
                    sleep=stop.wait,
                    progress=progress,
                    lagging=_say_lagging,
                )
                report = run_replay(
                    config, stores, catalogue, prepared, options, by=by, recorder=recorder
                )
    again = going_on(prepared.order, plan=flags.plan)
    show_report(report, again, as_json=as_json)
    _end(report, again)


def going_on(order: NewRun, *, plan: Path | None = None) -> str:
    """Return the command that takes a run up again: what was approved goes on by its plan."""
    if order.mode is ReplayMode.DLQ:
        return "tallgrass dlq drain --plan FILE, with the plan of the drain"
    if order.approval_id is not None:
        file = "FILE, with the plan that was approved" if plan is None else shlex.quote(str(plan))
        return f"tallgrass replay --plan {file}"
    return f"tallgrass replay --replay-run-id {order.replay_run_id}"


def show_report(report: RunReport, again: str, *, as_json: bool) -> None:
    """Print what a run has come to, and if it is not finished how it goes on."""
    if as_json:
        print_json(report.document())
        return
    lines = [
        f"Run {printable(report.replay_run_id)}: {report.state.value}",
        f"planned {report.planned:,} = done {report.done:,} + skipped {report.skipped:,}"
        f" + failed {report.failed:,}" + f" + due {report.due:,}" * bool(report.due),
    ]
    if report.hits:
        lines.append(f"  of the done, replay hits: {report.hits:,} (nothing had to be run)")
    if report.retrying:
        lines.append(f"  of the failed, tried again by the ledger: {report.retrying:,}")
    lines += [f"  {printable(name)}: {count:,}" for name, count in sorted(report.by_reason.items())]
    lines += [f"  {line}" for line in hint_lines(report.by_reason, "--error-code")]
    if report.failed:
        run_id = printable(report.replay_run_id)
        lines.append(f"  each of the failed: tallgrass replay runs show {run_id} --records")
    lines.append(f"mismatches: {report.mismatches:,}")
    if report.mismatches:
        lines.append(f"  field by field: tallgrass replay diff {printable(report.replay_run_id)}")
    if report.due:
        lines.append(f"  go on: {printable(again)}")
    sys.stdout.write("\n".join(lines) + "\n")


def _end(report: RunReport, again: str) -> None:
    if report.state is RunState.MISMATCHED:
        raise click.exceptions.Exit(_NOT_ALL_WELL)
    if report.state is RunState.PAUSED:
        message = (
            f"replay was switched off under way and holds {report.held:,} units;"
            f" when it is on again: {again}"
        )
        raise GuardRefused(message, guard=Rule.KILL_SWITCH_ACTIVE.value)
    if report.failed:
        raise click.exceptions.Exit(_NOT_ALL_WELL)


def _require_answer(flags: RunFlags, *, as_json: bool) -> None:
    if not flags.confirmed and (as_json or not sys.stdin.isatty()):
        message = "nobody can be asked here: say --yes to run it"
        raise click.UsageError(message)


def _ask(prepared: Prepared, by: Acting, flags: RunFlags) -> None:
    if flags.confirmed:
        return
    order, counts = prepared.order, prepared.by_action
    verb = "Resume" if prepared.resumed else "Begin"
    events = counts[PlanAction.REPLAY] + counts[PlanAction.RERUN]
    name = by if isinstance(by, str) else by.name
    question = (
        f"{verb} the run {order.replay_run_id} as {name}: {events:,} units to run"
        f" ({counts[PlanAction.RERUN]:,} of them again), reason {order.reason}?"
    )
    click.confirm(printable(question), abort=True, err=True)


def _say_lagging(lag_s: float) -> None:
    click.echo(
        f"slo_risk: the oldest work of ingest waits for {lag_s:.0f} s; the replay waits too"
        " (replay.lag_s_max)",
        err=True,
    )


@contextmanager
def _bar(prepared: Prepared) -> Iterator[Callable[[RunReport], None]]:
    """Show how far the run is, on stderr and only where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _report: None
        return
    with progress("replaying", prepared.order.planned) as bar:

        def tell(report: RunReport) -> None:
            if bar is not None:
                bar.update(bar.task_ids[0], completed=report.planned - report.due)

        yield tell
