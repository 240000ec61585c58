"""The two databases are one model: same tables and columns, same statements, guarded alike."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugins.postgres import Databases

HEADER = re.compile(r"^-- name: (\w+)\(([^)]*)\)$", re.MULTILINE)


def statements(dialect: str) -> dict[str, tuple[str, str]]:
    """Return parameters and body of each named statement, cut from the files by hand."""
    found = {}
    for source in (files("tallgrass.storage") / "queries" / dialect).iterdir():
        parts = HEADER.split(source.read_text(encoding="utf-8"))[1:]
        for name, parameters, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
            found[name] = (parameters.replace(" ", ""), " ".join(" ".join(lines).split()))
    return found


@pytest.fixture(scope="module")
def columns(
    tmp_path_factory: pytest.TempPathFactory, postgres_databases: Databases
) -> dict[str, set[str]]:
    """The `table.column` names of each database, asked of the database itself."""
    path: Path = tmp_path_factory.mktemp("columns") / "ledger.db"
    light = prepare("sqlite", f"sqlite:///{path}")
    heavy = prepare("postgres", postgres_databases.create())
    found = {
        "sqlite": light.sql(
            "SELECT m.name || '.' || c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c"
            " WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'"
        ),
        "postgres": heavy.sql(
            "SELECT table_name || '.' || column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name !~ '^outbox_attempts_'"
        ),
    }
    light.close()
    heavy.close()
    postgres_databases.drop(heavy.url)
    return {dialect: {name for (name,) in rows} for dialect, rows in found.items()}


def test_both_databases_have_the_same_tables_and_columns(columns: dict[str, set[str]]) -> None:
    """Whoever reads one database with SQL can read the other."""
    assert columns["sqlite"] == columns["postgres"]
    assert "wal_records.version" in columns["sqlite"]


def test_both_databases_declare_the_same_statements() -> None:
    """A statement has the same name and parameters on both; only locks are PostgreSQL's alone."""
    light, heavy = statements("sqlite"), statements("postgres")
    shared = {name for name in heavy if not name.startswith("lock_")}
    assert set(light) == shared
    different = {name for name in shared if light[name][0] != heavy[name][0]}
    assert different == set()


@pytest.mark.conformance("WAL-5.8")
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_statement_changes_a_record_without_its_version(dialect: str) -> None:
    """Each UPDATE of wal_records compares the version that was read and adds one to it."""
    updates = {
        name: body
        for name, (_, body) in statements(dialect).items()
        if re.match(r"UPDATE wal_records\b", body)
    }
    assert len(updates) >= 8
    guard = {
        "sqlite": r"WHERE wal_id = :wal_id AND version = :version\b",
        "postgres": r"WHERE r\.wal_id = x\.wal_id AND CASE WHEN r\.version = x\.version\b",
    }[dialect]
    raised = r"\bversion = (?:r\.)?version \+ 1\b"
    unguarded = {
        name
        for name, body in updates.items()
        if not re.search(guard, body) or not re.search(raised, body)
    }
    assert unguarded == set()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_records_are_changed_by_named_statements_alone(dialect: str) -> None:
    """No Python module holds such SQL; and only attempts that an archive holds are removed."""
    written = re.compile(r"(UPDATE|DELETE FROM|REPLACE INTO|INTO)\s+wal_(records|attempts)\b")
    package = files("tallgrass")
    holders = [
        source.name
        for folder in package.iterdir()
        if folder.is_dir()
        for source in folder.iterdir()
        if source.name.endswith(".py") and written.search(source.read_text(encoding="utf-8"))
    ]
    assert holders == []
    removing = {
        name
        for name, (_, body) in statements(dialect).items()
        if re.search(r"(DELETE FROM|REPLACE INTO) wal_", body)
    }
    # Retention's, whose rows a trigger compares with the list of an archive.
    assert removing == {"remove_attempts"}
