"""Deliveries for people and programs."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from tallgrass.bootstrap.outbox import DispatchResult
from tallgrass.cli.text import duration, plain, printable
from tallgrass.outbox.breaker import DOWN
from tallgrass.outbox.deliveries import (
    LastFailure,
    Requeued,
    StoredDelivery,
    TargetCounts,
    TransactionWait,
    WholeDelivery,
)

_STATE_STYLES = {
    "pending": "cyan",
    "in_flight": "blue",
    "retrying": "yellow",
    "exhausted": "red",
    "dispatched": "green",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """What `outbox status` tells, by target."""

    counts: Mapping[str, TargetCounts]
    #: Events behind an exhausted one, by dataset.
    held: Mapping[str, Mapping[str, int]]
    waits: Mapping[str, TransactionWait]
    failures: Mapping[str, LastFailure]
    #: Targets that the configuration declares.
    known: AbstractSet[str]
    now: datetime

    @property
    def names(self) -> list[str]:
        """All targets, in order."""
        return sorted({*self.counts, *self.known})

    def counts_of(self, name: str) -> TargetCounts:
        """Return the counts of a target; one that has no events has none of any kind."""
        return self.counts.get(name, TargetCounts(target=name, dispatched=0))

    def down(self, name: str) -> LastFailure | None:
        """Return how a target failed that may be left alone by now, as it is down."""
        failure = self.failures.get(name)
        return failure if failure is not None and failure.error_code in DOWN else None


def delivery_document(delivery: StoredDelivery) -> dict[str, object]:
    """Return a delivery's facts."""
    document: dict[str, object] = plain(delivery)
    return document


def whole_document(whole: WholeDelivery) -> dict[str, object]:
    """Return a delivery with its event, payload and attempts."""
    event = whole.event._asdict()
    del event["trace"]  # of a send that is under way
    return {
        **delivery_document(whole.delivery),
        "event": plain(event),
        "attempts": [plain(each) for each in whole.attempts],
    }


def status_document(status: OutboxStatus) -> dict[str, object]:
    """Return the counts of each target, with what is odd about it."""
    return {
        "targets": [
            {
                **plain(status.counts_of(name)),
                "oldest_s": age_s(status.counts.get(name), status.now),
                "declared": name in status.known,
                "held_back": dict(status.held.get(name, {})),
                "waits_for_transaction": plain(status.waits.get(name)),
                "down": plain(status.down(name)),
            }
            for name in status.names
        ]
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
    return {**plain(result.report), "left": left}


def age_s(counts: TargetCounts | None, now: datetime) -> float | None:
    """Return the age of the oldest undelivered event; clocks may differ, so never below zero."""
    if counts is None or counts.oldest_at is None:
        return None
    return max(0.0, round((now - counts.oldest_at).total_seconds(), 3))


def show_status(status: OutboxStatus) -> None:
    """Print a line a target, and below what keeps events."""
    from tallgrass.cli.tables import cell, say, show_table  # noqa: PLC0415 - rich is for tables

    rows = []
    for name in status.names:
        one = status.counts_of(name)
        age = age_s(one, status.now)
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
    for name in status.names:
        for text, style in _oddities(status, name):
            say(cell(f"{name}: {text}", style))


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
    from tallgrass.cli.tables import cell, say, show_table  # noqa: PLC0415

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
    from tallgrass.cli.tables import cell, say, show_facts, show_table  # noqa: PLC0415

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
    from tallgrass.cli.tables import say, show_facts  # noqa: PLC0415

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


def show_requeued(done: Requeued) -> None:
    """Print how many events are due again, and why others are not."""
    from tallgrass.cli.tables import cell, say  # noqa: PLC0415

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
