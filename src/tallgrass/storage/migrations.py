"""Numbered migrations: found, checked against what ran, applied with their record.

A migration and its record commit together. The bodies' SHA-256 stand in ``migrations/SHA256SUMS``
(``sha256sum --check`` verifies them); a shipped migration is never edited.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tallgrass.canonical_json import sha256_hex
from tallgrass.errors import DatabaseUnusable
from tallgrass.storage.unit_of_work import Database

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sha256: str
    statements: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """How a database's schema compares with this release's."""

    applied: tuple[str, ...]
    missing: tuple[str, ...]


@cache
def shipped_migrations(schema: str) -> tuple[Migration, ...]:
    """Return this release's migrations in order."""
    found = []
    for source in files("tallgrass.storage").joinpath("migrations").joinpath(schema).iterdir():
        if match := _FILE_NAME.fullmatch(source.name):
            body = source.read_bytes()
            found.append(
                Migration(
                    number=int(match[1]),
                    name=match[2],
                    sha256=sha256_hex(body),
                    statements=body.decode(),
                )
            )
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(database: Database, migrations: Sequence[Migration] | None = None) -> SchemaState:
    """Bring the schema up to date; harmless when two processes do it at once, or again."""
    shipped = shipped_migrations(database.schema) if migrations is None else migrations
    with database.migrating() as transaction:
        todo = missing_migrations(transaction.applied(), shipped, database.place)
        for migration in todo:
            transaction.apply(
                migration.number, migration.name, migration.sha256, migration.statements
            )
    return SchemaState(
        applied=tuple(_label(migration) for migration in todo),
        missing=(),
    )


def missing_migrations(
    applied: Sequence[tuple[int, str, str]], shipped: Sequence[Migration], place: str
) -> list[Migration]:
    """Return what has yet to run; refuse another kind of database, a newer one, edited ones."""
    by_number = {migration.number: migration for migration in shipped}
    for number, name, sha256 in applied:
        known = by_number.get(number)
        if known is None:
            newest = shipped[-1].number if shipped else 0
            raise DatabaseUnusable(
                f"{place} has migration {number:04}_{name}; this release knows up to {newest:04}",
                code="schema_too_new",
            )
        if known.name != name:
            raise DatabaseUnusable(
                f"{place} is another kind of database: it has {number:04}_{name} in place of"
                f" {_label(known)}; are the addresses of ledger and queue mixed up?"
            )
        if known.sha256 != sha256:
            raise DatabaseUnusable(
                f"migration {number:04}_{name} was edited after it ran on {place}",
                code="migration_edited",
            )
    done = {number for number, _, _ in applied}
    return [migration for migration in shipped if migration.number not in done]


def check_schema(database: Database) -> SchemaState:
    """Compare the schema with this release's, by reading only."""
    shipped = shipped_migrations(database.schema)
    with database.reading() as transaction:
        applied = [
            (row["number"], row["name"], row["sha256"])
            for row in transaction.select("applied_migrations")
        ]
    todo = missing_migrations(applied, shipped, database.place)
    return SchemaState(
        applied=tuple(f"{number:04}_{name}" for number, name, _ in applied),
        missing=tuple(_label(migration) for migration in todo),
    )


def require_current_schema(database: Database) -> None:
    """Refuse a database that this release must not use as it is."""
    missing = check_schema(database).missing
    if missing:
        raise DatabaseUnusable(
            f"{database.place} lacks {', '.join(missing)}", code="schema_outdated"
        )


def _label(migration: Migration) -> str:
    return f"{migration.number:04}_{migration.name}"
