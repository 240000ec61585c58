from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tallgrass
from tests.documents.markdown import ROOT

PACKAGE = Path(tallgrass.__file__).parent
STORAGE = PACKAGE / "storage"
DRIVERS = {"sqlite3", "psycopg", "psycopg2", "psycopg_pool", "asyncpg", "aiosqlite", "sqlalchemy"}
OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if STORAGE not in path.parents)

#: Pipelines and consumers of others bring their own connection, so there is nothing to wire: each
#: of these two calls one module, which writes no table of the ledger.
ON_CALLERS_CONNECTIONS = {
    "outbox/publishing.py": "tallgrass.storage.outbox_publishing",
    "outbox/inbox.py": "tallgrass.storage.caller_transactions",
}

_SQL = re.compile(
    r"^\s*(INSERT\s+(OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE\s+\w+\s+(AS\s+\w+\s+)?SET|DELETE\s+FROM"
    r"|SELECT\s+.+\s+FROM\s|MERGE\s+INTO|TRUNCATE\s+|(CREATE|ALTER|DROP)\s+(TABLE|TRIGGER|INDEX|VIEW)"
    r"|COPY\s+\w+\s+FROM|PRAGMA\s+\w+|BEGIN\s+IMMEDIATE)",
    re.IGNORECASE | re.DOTALL,
)


def name_of(path: Path) -> str:
    """Return a module's path in the package."""
    return path.relative_to(PACKAGE).as_posix()


def imported(tree: ast.AST) -> set[str]:
    """Return every module that a module imports, at any depth of its code."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def sql_in(tree: ast.AST) -> list[str]:
    """Return the texts of a module that are SQL statements; docstrings are no statements."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and _SQL.match(node.value)
    ]


@pytest.mark.conformance("WAL-1.5")
@pytest.mark.parametrize("path", OUTSIDE, ids=name_of)
def test_only_storage_speaks_to_the_database(path: Path) -> None:
    """Outside storage no module imports a driver or holds a statement of SQL."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not {name.partition(".")[0] for name in imported(tree)} & DRIVERS
    assert sql_in(tree) == []


@pytest.mark.conformance("WAL-1.5")
@pytest.mark.parametrize(
    "path", [path for path in OUTSIDE if path.parent.name != "bootstrap"], ids=name_of
)
def test_storage_is_reached_through_bootstrap(path: Path) -> None:
    """Commands, workers and tools get their stores from bootstrap and import no storage module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = ON_CALLERS_CONNECTIONS.get(name_of(path), "nothing")
    names = [name for name in imported(tree) if name.startswith("tallgrass.storage")]
    assert not [name for name in names if f"{name}.".partition(f"{allowed}.")[0]]


@pytest.mark.conformance("WAL-1.5")
def test_statements_are_kept_with_storage() -> None:
    """Every SQL file of the package lies in storage."""
    files = list(PACKAGE.rglob("*.sql"))
    assert len(files) >= 10
    assert [path for path in files if STORAGE not in path.parents] == []


@pytest.mark.conformance("WAL-1.5")
def test_only_named_statements_write_the_ledger() -> None:
    """In storage too, what writes a ledger table stands in a named block, not in Python."""
    table = re.compile(
        r"\b(wal_(records|attempts|transitions|annotations|imports)|workers|audit_(log|seals)"
        r"|kill_switches|poison_messages|replay_reasons)\b"
    )
    for path in STORAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert [text for text in sql_in(tree) if table.search(text)] == [], path.name


@pytest.mark.conformance("WAL-1.5")
def test_the_layering_contracts_hold() -> None:
    """import-linter finds every contract of the layering kept, also through indirect imports."""
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 'UPDATE wal_records SET status = 1'", 1),
        ("x = f'DELETE FROM {table}'", 1),
        ("x = 'insert or replace into wal_attempts values (1)'", 1),
        ("def f():\n    '''UPDATE wal_records SET status.'''", 0),
        ("x = 'Update the ledger, then set sail'", 0),
    ],
)
def test_the_scan_knows_sql_when_it_sees_it(source: str, found: int) -> None:
    """Statements are found in plain and formatted text; prose and docstrings are not SQL."""
    assert len(sql_in(ast.parse(source))) == found
