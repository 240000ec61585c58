"""`tallgrass db migrate|check`, and what every command says of an unusable database."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import tallgrass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases
    from tests.support.backends import Backend

READING = [
    ("wal", "list"),
    ("wal", "stats"),
    ("wal", "show", "s3://b/k"),
    ("wal", "history", "s3://b/k"),
    ("wal", "export"),
    ("audit", "list"),
    ("audit", "verify"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database without any table."""
    if request.param == "sqlite":
        file = tmp_path / "empty.db"
        sqlite3.connect(file).close()
        file.touch()
        yield f"sqlite:///{file}"
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    url = databases.create()
    yield url
    databases.drop(url)


def test_migrate_says_what_it_applied_and_is_harmless_again(empty_url: str) -> None:
    """The first call applies the migrations, the second none; the tables are there."""
    first = tallgrass("db", "migrate", "--output", "json", at=empty_url)
    assert first.code == 0
    assert "0001_ledger" in first.json["applied"]
    again = tallgrass("db", "migrate", "--output", "json", at=empty_url)
    assert (again.code, again.json["applied"]) == (0, [])
    assert "up to date" in tallgrass("db", "migrate", at=empty_url).out
    assert tallgrass("wal", "list", at=empty_url).code == 0


def test_check_of_an_empty_database_says_what_to_do(empty_url: str) -> None:
    """Without tables: exit code 1, schema_missing, and the command that helps."""
    done = tallgrass("db", "check", "--output", "json", at=empty_url)
    assert done.code == 1
    assert done.json["schema"] == {"state": "schema_missing", "applied": [], "missing": []}
    assert done.error["code"] == "schema_missing"
    assert done.error["remedy"] == "tallgrass db migrate"


def test_check_of_a_good_database(backend: Backend) -> None:
    """All that is asked for is said, and the exit code is 0."""
    done = tallgrass("db", "check", "--output", "json", at=backend)
    assert done.code == 0
    assert set(done.json) == {
        "dialect", "place", "version", "schema", "writable", "clock_ahead_s", "details",
    }  # fmt: skip
    assert done.json["dialect"] == backend.name
    assert done.json["schema"]["state"] == "current"
    assert done.json["schema"]["missing"] == []
    assert done.json["writable"] is True
    if backend.name == "sqlite":
        assert done.json["details"]["journal_mode"] == "wal"
        assert done.json["place"] == str(backend.path)
        assert done.json["version"] == f"SQLite {sqlite3.sqlite_version}"
    else:
        assert done.json["version"].split()[1] == backend.sql("SHOW server_version")[0][0]
        assert abs(done.json["clock_ahead_s"]) < 60
    table = tallgrass("db", "check", at=backend).out
    assert "current" in table


def test_check_never_prints_credentials() -> None:
    """A server that does not answer: exit code 4, its place, no user and no password."""
    done = tallgrass("db", "check", at="postgresql://us3r:s3cret@localhost:1/d")
    assert done.code == 4
    assert "database_unreachable" in done.err
    assert "s3cret" not in done.err
    assert "us3r" not in done.err


@pytest.mark.parametrize("command", [("db", "check"), ("audit", "seal"), *READING], ids=" ".join)
def test_a_database_that_is_not_there_ends_with_4(command: tuple[str, ...], tmp_path: Path) -> None:
    """Commands that expect a ledger find no file: exit code 4, none is made, and what makes one."""
    done = tallgrass(*command, "--output", "json", at=f"sqlite:///{tmp_path}/no.db", cwd=tmp_path)
    assert (done.code, done.out) == (4, "")
    assert done.error["code"] == "database_unreachable"
    assert "tallgrass db migrate" in done.error["remedy"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("DELETE FROM schema_migrations", "schema_outdated"),
        (
            "INSERT INTO schema_migrations VALUES (9999, 'later', 'x', '2026-01-01T00:00:00Z')",
            "schema_too_new",
        ),
        ("UPDATE schema_migrations SET sha256 = 'x' WHERE number = 1", "migration_edited"),
    ],
)
def test_a_schema_that_is_not_ours_is_refused(backend: Backend, change: str, code: str) -> None:
    """Older, newer and edited schemas: exit code 1 with the code that says which."""
    backend.sql(change)
    for command in (("wal", "list"), ("db", "check"), ("audit", "seal")):
        done = tallgrass(*command, "--output", "json", at=backend)
        assert done.code == 1
        assert done.error["code"] == code
    if code == "schema_outdated":
        missing = tallgrass("db", "check", "--output", "json", at=backend).json["schema"]["missing"]
        assert "0001_ledger" in missing


def test_reading_an_empty_database_says_that_it_has_no_tables(empty_url: str) -> None:
    """A reading command on a database without tables: exit code 1, schema_missing."""
    done = tallgrass("wal", "list", "--output", "json", at=empty_url)
    assert done.code == 1
    assert done.error["code"] == "schema_missing"


@pytest.mark.parametrize("command", [("wal", "list"), ("db", "check"), ("db", "migrate")])
def test_a_file_that_is_no_database_is_told(command: tuple[str, str], tmp_path: Path) -> None:
    """Any other file: exit code 1, database_corrupt, the file is as it was."""
    file = tmp_path / "letter.txt"
    file.write_bytes(b"Dear Sir or Madam, " * 100)
    done = tallgrass(*command, "--output", "json", at=f"sqlite:///{file}")
    assert done.code == 1
    assert done.error["code"] == "database_corrupt"
    assert file.read_bytes() == b"Dear Sir or Madam, " * 100


def test_the_doctor_finds_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It is one finding among the others, which are all told."""
    file = tmp_path / "letter.txt"
    file.write_bytes(b"Dear Sir or Madam, " * 100)
    done = tallgrass(
        "doctor", "--skip-network", "--output", "json", at=f"sqlite:///{file}", cwd=tmp_path
    )
    assert done.code == 1
    verdicts = {each["name"]: each["verdict"] for each in done.json["findings"]}
    assert verdicts["database"] == "problem"
    assert verdicts["configuration"] == "ok"
