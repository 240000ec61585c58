"""``tallgrass db``: prepare, check and back up the database."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallgrass.bootstrap.stores import check_database, migrate_database
from tallgrass.cli.invocation import Invocation, examples, output_option, pass_invocation
from tallgrass.cli.tables import Cell, say, show_facts, status
from tallgrass.cli.text import print_json
from tallgrass.errors import DatabaseUnusable
from tallgrass.views.database import health_document

if TYPE_CHECKING:
    from tallgrass.bootstrap.views import Health


@click.group(name="db", epilog=examples("tallgrass --database sqlite:///tallgrass.db db migrate"))
def command() -> None:
    """Prepare, check and back up the database."""


@command.command(epilog=examples("tallgrass db migrate"))
@output_option
@pass_invocation
def migrate(invocation: Invocation, *, as_json: bool) -> None:
    """Create the tables, or bring them up to this release."""
    place, applied = migrate_database(invocation.config)
    if as_json:
        print_json({"place": place, "applied": applied})
        return
    if not applied:
        say(f"{place} is up to date.")
    for name in applied:
        say(f"applied {name}")
    if applied:
        say(f"{place} is ready.")


@command.command(epilog=examples("tallgrass db check", "tallgrass db check --output json"))
@output_option
@pass_invocation
def check(invocation: Invocation, *, as_json: bool) -> None:
    """Say what the database is and whether this release can use it. Writes nothing."""
    health = check_database(invocation.config)
    if as_json:
        print_json(health_document(health))
    else:
        _show(health)
    if health.problem is not None:
        raise DatabaseUnusable(health.problem, code=health.schema)


@command.command(epilog=examples("tallgrass db backup --to /mnt/backup/2026-11-16"))
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="A folder that is not there yet, or is empty.",
)
@click.option(
    "--queue-only", is_flag=True, help="The embedded queues alone, where PostgreSQL has the ledger."
)
@output_option
@pass_invocation
def backup(invocation: Invocation, *, folder: Path, queue_only: bool, as_json: bool) -> None:
    """Copy a SQLite ledger and the embedded queues while they are in use.

    The queues of replay runs are copied with the main one. All copies are of one moment, each
    checked by SQLite before it gets its name. Workers go on meanwhile. PostgreSQL is backed up by
    its own tools.
    """
    from tallgrass.bootstrap.backing_up import back_up  # noqa: PLC0415 - loads the driver

    files = back_up(invocation.config, folder, queue_only=queue_only)
    if as_json:
        print_json({"files": [asdict(each) for each in files]})
        return
    for each in files:
        say(f"{each.file}: {each.bytes:,} bytes of {each.source}, SHA-256 {each.sha256}")


def _show(health: Health) -> None:
    facts: list[tuple[str, Cell]] = [
        ("database", health.place),
        ("version", health.version),
        ("schema", status(health.schema)),
        ("applied", ", ".join(health.applied) or None),
        ("missing", ", ".join(health.missing) or None),
        ("writable", "yes" if health.writable else "no: reading commands work"),
    ]
    if health.clock_ahead_s is not None:
        facts.append(("clock", f"{health.clock_ahead_s:+.3f} s against this machine's"))
    facts.extend((name.replace("_", " "), value) for name, value in health.details.items())
    show_facts(facts)
