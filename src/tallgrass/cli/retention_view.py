"""How retention is shown: plans, archives and archived rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.cli.text import printable
from tallgrass.inventory.retention import KEY_OF, TIME_OF, Archive, ArchiveKind, Planned
from tallgrass.views.retention import state_of


def show_plan(planned: Sequence[Planned], items: Mapping[str, int]) -> None:
    """Print one line a kind, and one for each dataset whose items expire."""
    show_table(
        ("kind", "older than", "rows", "bytes", "first", "last", "begun"),
        [
            (
                each.kind.value,
                each.older_than or "kept for ever",
                each.rows,
                each.bytes,
                each.first_at,
                each.last_at,
                None if each.open_archive is None else f"archive {each.open_archive}",
            )
            for each in planned
        ],
        right=("rows", "bytes"),
    )
    for dataset, count in items.items():
        say(f"{printable(dataset)}: {count:,} items are past their time and not marked.")
    if all(each.older_than is None for each in planned) and not items:
        say("Set retention.attempts_days, retention.events_days or retention.audit_days.", "dim")


def show_applied(archives: Sequence[Archive], items: Mapping[str, int]) -> None:
    """Print what a call archived and removed, and which items it marked."""
    for dataset, count in items.items():
        say(f"{printable(dataset)}: {count:,} items were marked as expired.")
    if not archives:
        say("Nothing is old enough to leave.")
        return
    show_archives(archives)
    say(f"{sum(each.removed for each in archives):,} rows left the database.")


def show_archives(archives: Sequence[Archive]) -> None:
    """Print one line an archive."""
    if not archives:
        say("There are no archives.")
        return
    show_table(
        ("archive", "kind", "state", "rows", "removed", "bytes", "from", "to", "file"),
        [
            (
                str(each.archive_id),
                each.file.kind.value,
                state_of(each),
                each.file.rows,
                each.removed,
                each.file.bytes,
                each.file.first_at,
                each.file.last_at,
                each.file.name,
            )
            for each in archives
        ],
        right=("archive", "rows", "removed", "bytes"),
        wide=("file",),
    )


def show_archive(archive: Archive, rows: Sequence[dict[str, Any]]) -> None:
    """Print an archive whose file was checked, and rows of it."""
    show_facts(
        [
            ("archive", archive.archive_id),
            ("kind", archive.file.kind.value),
            ("state", state_of(archive)),
            ("place", archive.file.place),
            ("file", archive.file.name),
            ("sha256", cell(archive.file.sha256, "green")),
            ("rows", archive.file.rows),
            ("removed", archive.removed),
            ("older than", archive.file.older_than),
            ("recorded by", archive.actor),
        ]
    )
    show_rows([(archive, row) for row in rows])


def show_rows(rows: Sequence[tuple[Archive, dict[str, Any]]]) -> None:
    """Print archived rows, one line each."""
    if not rows:
        say("No archived row matches.")
        return
    show_table(
        ("archive", "kind", "id", "when", "what"),
        [
            (
                str(archive.archive_id),
                archive.file.kind.value,
                str(row[KEY_OF[archive.file.kind]]),
                str(row[TIME_OF[archive.file.kind]]),
                _what(archive.file.kind, row),
            )
            for archive, row in rows
        ],
        wide=("what",),
    )


def _what(kind: ArchiveKind, row: dict[str, Any]) -> str:
    if kind is ArchiveKind.ATTEMPTS:
        error = "" if row["error_code"] is None else f" ({row['error_code']})"
        return f"attempt {row['attempt_no']} {row['status']}{error}"
    if kind is ArchiveKind.EVENTS:
        return f"{row['event_name']} to {row['target']}, attempt {row['attempt']}"
    return f"{row['actor']} {row['action']} {row['subject']}"
