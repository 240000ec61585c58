"""Migrations: together with their record or not at all, once, in order, and never edited."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import DatabaseUnusable, TallgrassError
from tallgrass.storage.migrations import (
    Migration,
    check_schema,
    migrate,
    require_current_schema,
    shipped_migrations,
)
from tests.support.builders import success, units
from tests.support.processes import play

if TYPE_CHECKING:
    from tests.support.backends import Backend

PROCESSES = 4


def extra(statements: str, number: int = 9001) -> Migration:
    """Return a migration that no release has."""
    digest = hashlib.sha256(statements.encode()).hexdigest()
    return Migration(number=number, name="extra", sha256=digest, statements=statements)


def tables(backend: Backend) -> set[str]:
    """Return the names of all tables."""
    query = {
        "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'",
        "postgres": "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    }
    return {name for (name,) in backend.sql(query[backend.name])}


def recorded(backend: Backend) -> list[tuple[object, ...]]:
    """Return the numbers and checksums of the migrations that ran."""
    return backend.sql("SELECT number, sha256 FROM schema_migrations ORDER BY number")


def shipped_files(dialect: str) -> list[tuple[int, str]]:
    """Return number and SHA-256 of each shipped file, worked out from the folder."""
    folder = files("tallgrass.storage") / "migrations" / dialect
    found = [item for item in folder.iterdir() if item.name.endswith(".sql")]
    return sorted(
        (int(item.name[:4]), hashlib.sha256(item.read_bytes()).hexdigest()) for item in found
    )


def test_processes_that_migrate_at_once_do_it_once(empty: Backend) -> None:
    """Four processes migrate an empty database at the same moment; each migration runs once."""
    play("migrates", name=empty.name, url=empty.url, processes=PROCESSES)
    assert recorded(empty) == shipped_files(empty.name)
    require_current_schema(empty.open().database)


def test_migrating_again_does_nothing(backend: Backend) -> None:
    """A database that is up to date stays as it is."""
    before = backend.sql("SELECT * FROM schema_migrations ORDER BY number")
    assert migrate(backend.open().database).applied == ()
    assert backend.sql("SELECT * FROM schema_migrations ORDER BY number") == before


def test_a_migration_that_fails_leaves_neither_tables_nor_record(backend: Backend) -> None:
    """The failing migration, and those before it in the same call, are rolled back together."""
    before = tables(backend), recorded(backend)
    good = extra("CREATE TABLE first_part (a integer);", 9001)
    bad = extra("CREATE TABLE second_part (a integer);\nINSERT INTO nowhere VALUES (1);", 9002)
    database = backend.open().database
    with pytest.raises(TallgrassError) as refused:
        migrate(database, [*shipped_migrations(backend.name), good, bad])
    assert refused.value.about.remedy
    assert (tables(backend), recorded(backend)) == before
    assert migrate(database, [*shipped_migrations(backend.name), good]).applied == ("9001_extra",)
    assert tables(backend) == before[0] | {"first_part"}


@pytest.mark.conformance("WAL-10.2")
def test_an_old_database_with_rows_is_upgraded(backend: Backend) -> None:
    """What was recorded before an upgrade is there after it, and work goes on."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=60)
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, units(3)) if r.claim]
    before = backend.sql("SELECT * FROM wal_records ORDER BY wal_id")
    newer = [*shipped_migrations(backend.name), extra("CREATE TABLE added_later (a integer);")]
    assert migrate(stores.database, newer).applied == ("9001_extra",)
    assert backend.sql("SELECT * FROM wal_records ORDER BY wal_id") == before
    assert "added_later" in tables(backend)
    assert len(stores.ledger.commit(worker, [success(claim) for claim in claims]).closed) == 3


def test_a_database_without_tables_is_told_from_an_old_one(empty: Backend) -> None:
    """An empty database says `schema_missing`; one that lacks a migration, `schema_outdated`."""
    database = empty.open().database
    with pytest.raises(DatabaseUnusable) as missing:
        require_current_schema(database)
    assert missing.value.code == "schema_missing"
    migrate(database, [])
    with pytest.raises(DatabaseUnusable) as outdated:
        require_current_schema(database)
    assert outdated.value.code == "schema_outdated"
    assert "0001_ledger" in str(outdated.value)
    assert check_schema(database).missing[0] == "0001_ledger"
    migrate(database)
    require_current_schema(database)


@pytest.mark.conformance("WAL-10.2")
def test_a_newer_database_is_refused(backend: Backend) -> None:
    """A database that a later release upgraded is neither used nor migrated by this one."""
    database = backend.open().database
    later = extra("CREATE TABLE added_later (a integer);")
    migrate(database, [*shipped_migrations(backend.name), later])
    for call in (migrate, check_schema, require_current_schema):
        with pytest.raises(DatabaseUnusable) as refused:
            call(database)
        assert refused.value.code == "schema_too_new"
        assert "9001_extra" in str(refused.value)


@pytest.mark.conformance("WAL-10.2")
def test_an_edited_migration_is_refused(backend: Backend) -> None:
    """A migration whose text is no longer the one that ran stops everything, by its number."""
    database = backend.open().database
    backend.sql("UPDATE schema_migrations SET sha256 = ? WHERE number = 1", "0" * 64)
    for call in (migrate, check_schema, require_current_schema):
        with pytest.raises(DatabaseUnusable) as refused:
            call(database)
        assert refused.value.code == "migration_edited"
        assert "0001_ledger" in str(refused.value)


@pytest.mark.conformance("WAL-10.2")
def test_every_shipped_migration_has_its_checksum() -> None:
    """SHA256SUMS names each migration file of every schema with the SHA-256 of its bytes."""
    folder = files("tallgrass.storage") / "migrations"
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {
        f"{schema}/{item.name}": hashlib.sha256(item.read_bytes()).hexdigest()
        for schema in ("postgres", "sqlite", "sqlite_queue")
        for item in (folder / schema).iterdir()
        if item.name.endswith(".sql")
    }
    assert listed == found
    assert len(listed) == len(lines)


@pytest.mark.conformance("WAL-10.2")
def test_the_checksums_are_in_the_form_that_sha256sum_reads() -> None:
    """Anyone can check the migrations without this package, where sha256sum is installed."""
    tool = shutil.which("sha256sum")
    with as_file(files("tallgrass.storage") / "migrations") as folder:
        if tool is None:
            assert (folder / "SHA256SUMS").read_text(encoding="utf-8").endswith(".sql\n")
            return
        done = subprocess.run([tool, "--check", "--strict", "SHA256SUMS"], cwd=folder, check=False)
    assert done.returncode == 0


@pytest.mark.conformance("WAL-10.2")
def test_migrations_are_numbered_without_a_gap_on_both_databases() -> None:
    """Both databases have the same migrations, numbered from 0001 upwards."""
    named = {
        dialect: [(each.number, each.name) for each in shipped_migrations(dialect)]
        for dialect in ("postgres", "sqlite")
    }
    assert named["sqlite"] == named["postgres"]
    numbers = [number for number, _ in named["sqlite"]]
    assert numbers == list(range(1, len(numbers) + 1))
