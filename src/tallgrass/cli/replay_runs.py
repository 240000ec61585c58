"""``tallgrass replay runs`` and ``tallgrass replay diff``: what replays came to; only read."""

import sys

import click

from tallgrass.bootstrap.replay_runs import find_run, page_of_runs, replayed_records, report_run
from tallgrass.cli.invocation import (
    Invocation,
    examples,
    limit_option,
    output_option,
    pass_invocation,
)
from tallgrass.cli.replay_run import going_on, show_report
from tallgrass.cli.tables import say, show_table
from tallgrass.cli.text import print_json, printable
from tallgrass.clock import format_instant
from tallgrass.replay.run import RunRecord
from tallgrass.views.replays import run_document, run_record_document


@click.group(name="runs", epilog=examples("tallgrass replay runs list"))
def runs() -> None:
    """Look at replay runs."""


@runs.command(name="list", epilog=examples("tallgrass replay runs list --limit 10"))
@limit_option("Runs shown.")
@click.option("--after", metavar="RUN_ID", help="Go on after this run.")
@output_option
@pass_invocation
def list_runs(invocation: Invocation, *, limit: int, after: str | None, as_json: bool) -> None:
    """List runs, newest first."""
    with invocation.stores(read_only=True) as stores:
        if after is not None:
            find_run(stores, after)
        found, more = page_of_runs(stores, after=after, limit=limit)
    if as_json:
        told = [run_document(run, report) for run, report in found]
        print_json({"runs": told, "next_cursor": more})
        return
    if not found:
        say("There are no runs." if after is None else "There are no more runs.")
        return
    show_table(
        ("run", "state", "reason", "by", "planned", "done", "failed", "mismatches", "started"),
        [
            (
                run.order.replay_run_id,
                report.state.value,
                run.order.reason,
                run.actor,
                report.planned,
                report.done,
                report.failed,
                report.mismatches,
                format_instant(run.started_at),
            )
            for run, report in found
        ],
    )
    if more is not None:
        say(f"More: --after {more}", style="dim")


@runs.command(name="show", epilog=examples("tallgrass replay runs show RUN_ID"))
@click.argument("run_id")
@click.option("--records", "with_records", is_flag=True, help="Tell each record too.")
@output_option
@pass_invocation
def show_run(invocation: Invocation, run_id: str, *, with_records: bool, as_json: bool) -> None:
    """Tell what a run was for and what it has come to."""
    with invocation.stores(read_only=True) as stores:
        run = find_run(stores, run_id)
        report = report_run(stores, run)
        records = list(stores.replay_runs.records(run_id)) if with_records else []
    if as_json:
        rows = {"records": [run_record_document(each) for each in records]} if with_records else {}
        print_json({**run_document(run, report), **rows})
        return
    order = run.order
    for name, value in (
        ("mode", order.mode.value),
        ("reason", order.reason),
        ("by", run.actor),
        ("approval", order.approval_id),
        ("change", order.change_ref),
        ("incident", order.incident_ref),
        ("policy", order.policy_ref),
        ("plan sha256", order.plan_sha256),
        ("started", format_instant(run.started_at)),
    ):
        if value is not None:
            sys.stdout.write(f"{name}: {printable(str(value))}\n")
    show_report(report, going_on(order), as_json=False)
    for each in records:
        about = printable(each.reason or "")
        sys.stdout.write(f"{each.wal_id}  {each.action.value:6}  {each.outcome.value:7}  {about}\n")


@click.command(
    name="diff",
    epilog=examples("tallgrass replay diff RUN_ID", "tallgrass replay diff WAL_ID --output json"),
)
@click.argument("name", metavar="RUN_ID|WAL_ID")
@click.option("--unexpected", is_flag=True, help="Only records that mismatch.")
@output_option
@pass_invocation
def diff(invocation: Invocation, name: str, *, unexpected: bool, as_json: bool) -> None:
    """Show field by field what a run changed, or what runs changed in a unit."""
    with invocation.stores(read_only=True) as stores:
        found = [
            each
            for each in replayed_records(stores, name)
            if each.mismatch or (each.changes and not unexpected)
        ]
    if as_json:
        print_json({"name": name, "records": [run_record_document(each) for each in found]})
        return
    for each in found:
        _show_changes(each)
    mismatches = sum(each.mismatch for each in found)
    sys.stdout.write(f"{len(found):,} records changed, {mismatches:,} of them a mismatch\n")


def _show_changes(record: RunRecord) -> None:
    word = "MISMATCH" if record.mismatch else "changed"
    sys.stdout.write(
        f"{record.wal_id}  {printable(record.dataset)}  {word}, {record.changed_fields:,} fields,"
        f" run {printable(record.replay_run_id)}, attempt {record.attempt_no}\n"
    )
    for change in record.changes:
        note = "  (announced)" if change.expected else ""
        sys.stdout.write(f"  {change.document}{printable(change.pointer)}{note}\n")
        for sign, value in (("-", change.before), ("+", change.after)):
            if value is not None:
                sys.stdout.write(f"    {sign} {printable(value)}\n")
    if record.changed_fields > len(record.changes):
        more = record.changed_fields - len(record.changes)
        sys.stdout.write(f"  … and {more:,} fields more\n")
