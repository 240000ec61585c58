"""``tallgrass status``: the whole pipeline on one page, by reading only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.overview import read_overview
from tallgrass.cli.invocation import (
    FiniteRange,
    Invocation,
    examples,
    output_option,
    pass_invocation,
)
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.tables import Cell, cell, say, show_facts, show_table
from tallgrass.cli.text import duration, hide_credentials, json_line, print_json, printable
from tallgrass.cli.wal_tables import show_counts
from tallgrass.cli.watching import Pace, watch
from tallgrass.clock import Clock, age_s, format_instant, system_clock
from tallgrass.intake.poison import PoisonState
from tallgrass.views.status import Overview, not_fresh, oldest_event, status_document

if TYPE_CHECKING:
    from datetime import datetime

    from tallgrass.errors import TransientError
    from tallgrass.inventory.retention import DiskForecast
    from tallgrass.queues.protocol import QueueStatus

_EVERY_S = 2.0


@click.command(
    name="status",
    epilog=examples(
        "tallgrass status", "tallgrass status --output json", "tallgrass status --watch --every 5"
    ),
)
@click.option("--queue", metavar="URL", help="The queue to look at (queue.url).")
@click.option("--watch", "watched", is_flag=True, help="Look again and again; in a pipe, by lines.")
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 3600),
    metavar="SECONDS",
    help="Rest between two looks.  [default: 2]",
)
@click.option("--frames", type=click.IntRange(1), help="End after so many looks.")
@output_option
@pass_invocation
def command(
    invocation: Invocation,
    *,
    queue: str | None,
    watched: bool,
    every_s: float | None,
    frames: int | None,
    as_json: bool,
) -> None:
    """Show the whole pipeline on one page.

    Units by state, how far behind it is, the queue, what is parked or stale, who works, which kill
    switches are on, how many poison messages wait, which events are undelivered, which datasets
    are not fresh, how long the disk lasts. Writes nothing.
    """
    if watched:
        with told_to_stop() as stop:
            pace = Pace(every_s=every_s or _EVERY_S, frames=frames, wait=stop.wait)
            _watch(invocation, queue, pace, as_json=as_json)
        return
    if every_s is not None or frames is not None:
        message = "--every and --frames are for --watch"
        raise click.UsageError(message)
    found = _look(invocation, queue, system_clock)
    if as_json:
        print_json(status_document(found))
    else:
        _show(found)


def _watch(invocation: Invocation, queue: str | None, pace: Pace, *, as_json: bool) -> None:
    def show(found: Overview) -> None:
        if as_json:
            sys.stdout.write(json_line({"at": found.now, **status_document(found)}).decode())
        elif sys.stdout.isatty():
            click.clear()
            _show(found)
        else:
            click.echo(_line(found))
        sys.stdout.flush()

    def trouble(error: TransientError) -> None:
        if as_json:
            told = {"at": system_clock(), "error": {"code": error.code, "message": str(error)}}
            sys.stdout.write(json_line(told).decode())
        else:
            click.echo(printable(hide_credentials(f"{error.code}: {error}")))
        sys.stdout.flush()

    watch(lambda: _look(invocation, queue, system_clock), show, trouble, pace)


def _line(found: Overview) -> str:
    """Say the page in one line: what is wrong last, where the eye finds it."""
    parts = [f"{number:,} {status}" for status, number in found.by_status.items()]
    parts.append(f"due {found.stats.due:,} ({_lag(found.stats.oldest_due_at, found.now)})")
    if found.queue is not None:
        parts.append(f"queue {found.queue.visible:,}, dead letters {found.queue.dead}")
    parts.append(f"live workers {found.stats.live_workers}")
    parts.append(f"undelivered {sum(one.undelivered for one in found.undelivered.values()):,}")
    parts += [f"{state} {', '.join(names)}" for state, names in not_fresh(found).items()]
    return printable(f"{format_instant(found.now)}  {'; '.join(parts)}")


def _look(invocation: Invocation, queue: str | None, clock: Clock) -> Overview:
    config = invocation.use({"queue.url": queue})
    catalogue = open_catalogue(config)
    with invocation.stores(read_only=True) as stores:
        return read_overview(config, stores, catalogue, clock=clock)


def _show(found: Overview) -> None:
    stats, queue = found.stats, found.queue
    show_counts(stats)
    show_facts(
        [
            ("due now", stats.due),
            ("behind", _lag(stats.oldest_due_at, found.now)),
            ("parked", found.parked),
            ("stale", sum(stats.stale.values())),
            ("near limit", sum(one.near_limit for one in found.health.datasets.values())),
            ("live workers", stats.live_workers),
            *((state, ", ".join(names)) for state, names in not_fresh(found).items()),
        ],
        title="Ledger",
    )
    facts: list[tuple[str, Cell]] = [("not there", "nothing was ever sent")]
    if queue is not None:
        facts = [
            ("visible", queue.visible),
            ("in flight", queue.in_flight),
            ("dead letters", queue.dead),
            ("oldest message", _oldest(queue, found.now)),
        ]
    facts.append(("poison", _poison(found.poison)))
    show_facts(facts, title=f"Queue {found.queue_name}")
    if found.projection is not None:
        show_facts(
            [
                ("collections", found.projection.collections),
                ("items to copy first", found.projection.uncopied),
                ("changes to copy", found.projection.changed),
                ("behind", _lag(found.projection.oldest_changed_at, found.now)),
            ],
            title="Copy in pgstac",
        )
    show_facts([("undelivered", _undelivered(found))], title="Outbox")
    show_facts(_disk(found.disk), title="Disk")
    if not found.switches:
        say("No kill switch is on.")
        return
    say("Kill switches that are on", "bold")
    show_table(
        ("scope", "dataset", "since", "by", "reason"),
        [
            (cell(s.scope.value, "red"), s.dataset, s.changed_at, s.actor, s.reason)
            for s in found.switches
        ],
        wide=("reason",),
    )


def _disk(disk: DiskForecast) -> list[tuple[str, str]]:
    grows, lasts = "unknown: no unit has data of the last day", "unknown"
    if disk.bytes_per_day is not None:
        grows = f"{disk.bytes_per_day / 1e6:,.1f} MB a day"
    if disk.days_left is not None:
        lasts = f"{disk.days_left:,.0f} days"
    return [
        ("database", f"{disk.database_bytes / 1e6:,.1f} MB"),
        ("grows by", grows),
        ("lasts for", lasts),
    ]


def _poison(counts: dict[PoisonState, int]) -> str:
    """Say what waits for a person first; a feeding that was begun waits too."""
    return ", ".join(
        f"{number:,} {state.value}"
        for state, number in counts.items()
        if number or state is PoisonState.OPEN
    )


def _undelivered(found: Overview) -> str:
    """Say in a line what waits to go out; exhausted events wait for a person."""
    counts = list(found.undelivered.values())
    total = sum(one.undelivered for one in counts)
    if not total:
        return "nothing waits"
    exhausted = sum(one.exhausted for one in counts)
    age = _lag(oldest_event(found.undelivered), found.now)
    return f"{total:,} events, the oldest {age}" + (f", {exhausted:,} exhausted" * bool(exhausted))


def _oldest(queue: QueueStatus, now: datetime) -> str:
    if queue.oldest_sent_at is None and (queue.visible or queue.in_flight):
        return "the queue does not tell"
    return _lag(queue.oldest_sent_at, now)


def _lag(since: datetime | None, now: datetime) -> str:
    seconds = age_s(since, now)
    return "nothing waits" if seconds is None else duration(seconds)
