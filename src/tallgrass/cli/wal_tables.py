"""How records, attempts and histories look to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.cli.tables import (
    STATUS_STYLES,
    Cell,
    cell,
    on_terminal,
    say,
    show_facts,
    show_table,
    status,
)
from tallgrass.cli.text import printable
from tallgrass.clock import format_instant
from tallgrass.ledger.vocabulary import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from tallgrass.bootstrap.views import Annotation, HistoryEvent, LedgerStats
    from tallgrass.ledger.record import WalAttempt, WalRecord


def show_page(records: Sequence[WalRecord], next_cursor: str | None) -> None:
    """Print a page; on a terminal each unit takes two lines, in a pipe one."""
    if not records:
        say("No records match.")
        return
    if on_terminal():
        show_table(
            ("unit", "status", "tries", "data from"),
            [_two_lines(record) for record in records],
            right=("tries",),
            wide=("unit", "status"),
        )
    else:
        show_table(
            ("wal_id", "dataset", "status", "attempts", "data_from", "error", "object_uri"),
            [
                (
                    record.wal_id,
                    record.dataset,
                    "stale" if record.stale else record.status.value,
                    str(record.attempts),
                    format_instant(record.time_range_start),
                    record.last_error_code or "-",
                    record.object_uri,
                )
                for record in records
            ],
        )
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", "dim")


def show_unit(
    record: WalRecord, attempts: Sequence[WalAttempt], annotations: Sequence[Annotation]
) -> None:
    """Print one unit with all that was tried."""
    facts: list[tuple[str, Cell]] = [
        ("object", record.object_uri),
        ("status", _status(record)),
        ("dataset", f"{record.dataset} ({record.provider}, {record.queue})"),
        ("data", f"{_instant(record.time_range_start)} to {_instant(record.time_range_end)}"),
        ("announced", record.event_time),
        ("recorded", record.created_at),
        ("changed", record.updated_at),
        ("attempts", f"{record.attempts} (of the budget: {record.attempts - record.budget_from})"),
        ("operators", _operators(record)),
        ("item", record.stac_item_id),
        ("last error", _error(record.last_error_code, record.last_error_message)),
        ("due", record.due_at),
        ("replayed for", record.replay_reason),
        ("version", record.version),
    ]
    show_facts(facts, title=record.wal_id)
    say()
    show_table(
        ("#", "status", "intent", "worker", "claimed", "closed", "error"),
        [
            (
                attempt.attempt_no,
                status(attempt.status.value),
                attempt.intent.value,
                attempt.worker_id,
                attempt.claimed_at,
                attempt.closed_at,
                _error(attempt.error_code, attempt.error_message),
            )
            for attempt in attempts
        ],
        right=("#",),
        wide=("error",),
    )
    if gone := record.attempts - len(attempts):
        find = f"tallgrass retention search --wal-id {record.wal_id}"
        say(f"{gone:,} older attempts left for archives: {find}", "dim")
    for attempt in attempts:
        if attempt.issues:
            say(f"issues of attempt {attempt.attempt_no:,}: {printable(', '.join(attempt.issues))}")
    for note in annotations:
        by, words = printable(note.actor), printable(note.note)
        say(f"note on attempt {note.attempt_no:,} by {by}: {words}")


def show_history(record: WalRecord, events: Sequence[HistoryEvent]) -> None:
    """Print the life of a unit."""
    say(cell(record.object_uri, "bold"))
    show_table(
        ("v", "when", "what", "from", "to", "try", "by", "reason"),
        [
            (
                event.version,
                event.occurred_at,
                event.kind,
                None if event.from_status is None else status(event.from_status),
                status(event.to_status),
                event.attempt_no,
                event.actor,
                event.reason or _issues(event.issues),
            )
            for event in events
        ],
        right=("v", "try"),
        wide=("reason",),
    )


def show_counts(found: LedgerStats) -> None:
    """Print how many records of each dataset stand where."""
    names = [word.value for word in Status]
    rows: list[list[Cell]] = [
        [dataset, *(_count(counts.get(name, 0), name) for name in names), sum(counts.values())]
        for dataset, counts in sorted(found.by_dataset.items())
    ]
    totals = [sum(c.get(name, 0) for c in found.by_dataset.values()) for name in names]
    rows.append([cell("all", "bold"), *(cell(n, "bold") for n in totals), sum(totals)])
    show_table(("dataset", *names, "all"), rows, right=(*names, "all"))


def show_stats(found: LedgerStats) -> None:
    """Print how many records stand where, what is due, and who works."""
    show_counts(found)
    show_facts(
        [
            ("stale", sum(found.stale.values())),
            ("due now", found.due),
            ("due longest", found.oldest_due_at),
            ("live workers", found.live_workers),
        ]
    )


def _two_lines(record: WalRecord) -> Sequence[Cell]:
    unit = cell(record.wal_id)
    unit.no_wrap, unit.overflow = True, "ellipsis"
    unit.append("\n").append_text(cell(record.object_uri, "dim"))
    state = _status(record)
    if record.last_error_code:
        state.append("\n").append_text(cell(record.last_error_code, "dim"))
    data = cell(record.time_range_start).append("\n").append_text(cell(record.dataset, "dim"))
    return unit, state, record.attempts, data


def _status(record: WalRecord) -> Text:
    return status(record.status.value, "(stale)" if record.stale else "")


def _operators(record: WalRecord) -> str:
    return (
        f"integrity {record.integrity_status}, metadata {record.metadata_status}, "
        f"stac {record.stac_status}, provenance {record.provenance_status}"
    )


def _error(code: str | None, message: str | None) -> str | None:
    return f"{code}: {message}" if code and message else code


def _issues(issues: Sequence[str] | None) -> str | None:
    return ", ".join(issues) if issues else None


def _count(number: int, name: str) -> Text:
    return cell(number, STATUS_STYLES[name] if number else "dim")


def _instant(instant: object) -> str:
    return cell(instant).plain  # type: ignore[arg-type]
