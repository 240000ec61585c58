from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.plugins.postgres import (
    OWNER_NAME,
    Databases,
    remove_leftovers,
    started_at,
    with_database,
)
from tests.plugins.postgres_server import PostgresServer, is_alive

if TYPE_CHECKING:
    from pathlib import Path


def count_rows(url: str) -> int:
    """Return the number of rows of the table that these tests make."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM t").fetchone()
    assert row is not None
    return int(row[0])


def make_table(url: str) -> None:
    """Create a table with one row."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_an_empty_database(postgres_url: str, turn: int) -> None:
    """A table of one test does not exist in the next."""
    make_table(postgres_url)
    assert count_rows(postgres_url) == 1


def test_another_process_can_connect(postgres_url: str) -> None:
    """The address works in a process that the test starts."""
    make_table(postgres_url)
    code = "import psycopg, sys; psycopg.connect(sys.argv[1]).execute('SELECT * FROM t').close()"
    subprocess.run([sys.executable, "-c", code, postgres_url], check=True)


def test_there_are_connections_for_many_workers(postgres_url: str) -> None:
    """At least a hundred connections are allowed."""
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SHOW max_connections").fetchone()
    assert row is not None
    assert int(row[0]) >= 100


def test_a_template_is_built_once_and_copied(postgres_databases: Databases) -> None:
    """Copies of a template have its rows and are independent of each other."""
    built: list[str] = []

    def build(url: str) -> None:
        built.append(url)
        make_table(url)

    names = {postgres_databases.template(f"plugin_{os.getpid()}", build) for _ in range(2)}
    assert len(built) == len(names) == 1
    first, second = (postgres_databases.create(template) for template in [*names, *names])
    with psycopg.connect(first) as connection:
        connection.execute("DELETE FROM t")
    assert (count_rows(first), count_rows(second)) == (0, 1)
    for url in (first, second):
        postgres_databases.drop(url)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_private_server_keeps_rows_over_a_restart(
    own_postgres: PostgresServer, mode: str
) -> None:
    """Committed rows survive an orderly restart and a crash; while it is down nobody connects."""
    make_table(own_postgres.url)
    own_postgres.stop(mode)
    assert own_postgres.pid is None
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_postgres.url)
    own_postgres.start()
    assert count_rows(own_postgres.url) == 1


def test_a_removed_server_leaves_nothing(own_postgres: PostgresServer) -> None:
    """Neither a process nor a file remains, and removing again does no harm."""
    pid = own_postgres.pid
    own_postgres.remove()
    assert pid is not None
    assert not is_alive(pid)
    assert not own_postgres.folder.exists()


def test_the_database_is_replaced_and_nothing_else() -> None:
    """Another database of a server keeps host, user and options."""
    url = "postgresql://me@/postgres?host=/run/pg"
    assert with_database(url, "other") == "postgresql://me@/other?host=/run/pg"


def test_only_the_server_of_a_run_that_ended_is_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is known by its process and that process's ticks, which no change of a clock moves."""
    mine, started = os.getpid(), started_at(os.getpid())
    assert started is not None
    assert started.isdigit()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owners = {
        "lives": f"{mine} {started}",
        "ended": f"{ended.pid} {started}",
        "other": f"{mine} {int(started) - 1}",
    }
    for name, owner in owners.items():
        (tmp_path / f"tallgrass-pg-{name}").mkdir()
        (tmp_path / f"tallgrass-pg-{name}" / OWNER_NAME).write_text(owner)
    (tmp_path / "tallgrass-pg-unknown").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remove_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "tallgrass-pg-lives",
        "tallgrass-pg-unknown",
    ]
