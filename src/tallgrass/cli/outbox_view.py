"""Deliveries for people and programs."""

import sys
from collections.abc import Iterator, Sequence

from tallgrass.bootstrap.outbox import DispatchResult
from tallgrass.bootstrap.outbox_status import OutboxStatus
from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import duration, plain, printable
from tallgrass.clock import age_s
from tallgrass.governance.switches import ALL_DATASETS
from tallgrass.outbox.deliveries import Requeued, StoredDelivery, TargetCounts, WholeDelivery

_STATE_STYLES = {
    "pending": "cyan",
    "in_flight": "blue",
    "retrying": "yellow",
    "exhausted": "red",
    "dispatched": "green",
}


def dispatch_document(result: DispatchResult) -> dict[str, object]:
    """Return what dispatchers did and what is undelivered of each target."""
    left = {
        name: {
            "pending": counts.pending,
            "in_flight": counts.in_flight,
            "retrying": counts.retrying,
            "exhausted": counts.exhausted,
        }
        for name, counts in result.left.items()
    }
    return {**plain(result.report), "left": left, "stopped": result.stopped}


def show_status(status: OutboxStatus) -> None:
    """Print a line a target, and below what keeps events."""
    rows = []
    for name in status.names:
        one = status.counts_of(name)
        age = age_s(one.oldest_at, status.now)
        rows.append(
            (
                name,
                one.pending,
                one.in_flight,
                one.retrying,
                cell(one.exhausted, "red" if one.exhausted else ""),
                one.dispatched,
                "nothing waits" if age is None else duration(age),
            )
        )
    columns = ("target", "pending", "in flight", "retrying", "exhausted", "dispatched", "oldest")
    show_table(columns, rows, right=columns[1:])
    say_stopped(status.stopped)
    for name in status.names:
        for text, style in _oddities(status, name):
            say(cell(f"{name}: {text}", style))


def say_stopped(datasets: Sequence[str]) -> None:
    """Tell whose events a switch holds."""
    if datasets:
        whose = "all datasets" if ALL_DATASETS in datasets else ", ".join(datasets)
        say(cell(f"Dispatch is switched off for {whose}: `tallgrass switches list`.", "yellow"))


def _oddities(status: OutboxStatus, name: str) -> Iterator[tuple[str, str]]:
    """Yield what keeps the events of a target, each with its colour."""
    if name not in status.known:
        yield "no such target is declared; its events wait.", "yellow"
    for dataset, number in status.held.get(name, {}).items():
        yield f"{number:,} events of {dataset} wait behind an exhausted one.", "red"
    if (wait := status.waits.get(name)) is not None:
        since = "" if wait.open_s is None else f" for {duration(wait.open_s)}"
        whose = "" if wait.pid is None else f" (process {wait.pid} of the server)"
        yield f"{wait.events:,} events wait for a transaction open{since}{whose}.", "yellow"
    if (down := status.down(name)) is not None:
        in_s = max(0.0, (down.next_try_at - status.now).total_seconds())
        told = f"it is down: {down.error_code}, {down.last_error}; {down.due:,} events are due"
        yield f"{told}; it is tried again within {duration(in_s)}.", "red"


def show_page(page: Sequence[StoredDelivery], next_cursor: str | None) -> None:
    """Print a page of deliveries, one a line."""
    if not page:
        say("No events match.")
        return
    show_table(
        ("id", "state", "target", "event", "dataset", "attempt", "due", "code", "error"),
        [
            (
                one.outbox_id,
                cell(one.state.value, _STATE_STYLES[one.state]),
                one.target,
                one.event_name,
                one.dataset_id,
                one.attempt,
                one.due_at,
                one.error_code,
                one.last_error,
            )
            for one in page
        ],
        right=("attempt",),
        wide=("error",),
    )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", "dim")


def show_delivery(whole: WholeDelivery) -> None:
    """Print one event with its attempts and its payload."""
    one, event = whole.delivery, whole.event
    show_facts(
        [
            ("state", cell(one.state.value, _STATE_STYLES[one.state])),
            ("target", one.target),
            ("event", one.event_name),
            ("dataset", one.dataset_id),
            ("version", event.version),
            ("pipeline", one.pipeline_id),
            ("subject", event.subject),
            ("key", event.idempotency_key),
            ("care label", event.care_label),
            ("governance", event.governance_ref),
            ("attempts", one.attempt),
            ("due", one.due_at),
            ("code", one.error_code),
            ("error", one.last_error),
            ("written", one.created_at),
            ("status since", one.updated_at),
        ],
        title=f"Event {one.outbox_id}",
    )
    if whole.attempts:
        show_table(
            ("attempt", "outcome", "ended", "code", "error"),
            [
                (str(each.attempt), each.outcome.value, each.ended_at, each.error_code, each.error)
                for each in whole.attempts
            ],
            right=("attempt",),
            wide=("error",),
        )
    say("Payload", "bold")
    # Indented, so that no line of it can be taken for one of ours.
    sys.stdout.write(f"  {printable(event.payload.decode(errors='backslashreplace'))}\n")


def show_result(result: DispatchResult) -> None:
    """Print what dispatchers did and what they leave."""
    report = result.report
    say("What this run delivered", "bold")
    show_facts(
        [
            ("dispatched", report.dispatched),
            ("failed sends", report.failed),
            ("  given up", report.exhausted),
            ("given back unsent", report.released),
            ("results too late", report.lost),
            ("undelivered", result.undelivered),
            *(
                (f"  {name}", _undelivered(counts))
                for name, counts in result.left.items()
                if counts.undelivered
            ),
        ]
    )
    say_stopped(result.stopped)


def show_requeued(done: Requeued) -> None:
    """Print how many events are due again, and why others are not."""
    say(f"{len(done.requeued):,} events are due again.")
    for name, state in done.left_out.items():
        say(cell(f"{name}: {'there is no such event' if state is None else state.value}", "yellow"))


def _undelivered(counts: TargetCounts) -> str:
    parts = {
        "pending": counts.pending,
        "in flight": counts.in_flight,
        "retrying": counts.retrying,
        "exhausted": counts.exhausted,
    }
    return ", ".join(f"{number:,} {name}" for name, number in parts.items() if number)
