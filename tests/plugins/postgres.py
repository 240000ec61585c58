"""PostgreSQL for tests: one server a run, shared by all workers, and a fresh database a test.

`TALLGRASS_TEST_POSTGRES_URL` names a server to use; its role needs the right to create databases.
Otherwise the first test that asks starts one, and the process that owns the run stops it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.plugins.postgres_server import (
    PostgresServer,
    is_alive,
    new_folder,
    postgis_binaries,
    remove_server,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URL_VARIABLE = "TALLGRASS_TEST_POSTGRES_URL"
WORKER_INPUT = "tallgrass_postgres_folder"
FOLDER_PREFIX = "tallgrass-pg-"
OWNER_NAME = "run-by"
#: Below the run's folder. Short: a socket's path may have 107 bytes.
SERVER_NAME = "s"
POSTGIS_NAME = "g"
FOLDER = pytest.StashKey[Path]()


def with_database(url: str, name: str) -> str:
    """Return the address of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: one process of the run at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Databases:
    """Creates databases on one server and drops each when its test is done."""

    def __init__(self, server_url: str, folder: Path) -> None:
        self.server_url = server_url
        self._folder = folder
        self._prefix = f"tallgrass_test_{folder.name.removeprefix(FOLDER_PREFIX).lower()}"

    def create(self, template: str | None = None) -> str:
        """Create a database, empty or a copy of a template's, and return its address."""
        name = f"{self._prefix}_{uuid.uuid4().hex[:12]}"
        self._create(name, template or "template0")
        return with_database(self.server_url, name)

    def template(self, name: str, build: Callable[[str], None]) -> str:
        """Return the name of a database that `build` filled, once a run, to make copies of.

        `build` gets the address of an empty database and closes its connections when done.
        """
        database = f"{self._prefix}_template_{name}"
        with locked(self._folder):
            built = self._folder / f"template-{name}"
            if not built.exists():
                self._create(database, "template0")
                build(with_database(self.server_url, database))
                built.touch()
        return database

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        self._drop(urlsplit(url).path.removeprefix("/"))

    def drop_all(self) -> None:
        """Drop whatever this run left, templates included."""
        with self._connect() as connection:
            names = connection.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (self._prefix,)
            ).fetchall()
        for (name,) in names:
            self._drop(name)

    def _connect(self) -> psycopg.Connection[tuple[str]]:
        return psycopg.connect(self.server_url, autocommit=True)

    def _create(self, name: str, template: str) -> None:
        # By its files: to write each page of the template to the log takes three times as long.
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        with self._connect() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def _drop(self, name: str) -> None:
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with self._connect() as connection:
            connection.execute(statement.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def postgres_server_url(request: pytest.FixtureRequest) -> str:
    """The administrative address of the run's server, which is started at the first call."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        return given
    folder = request.config.stash[FOLDER]
    with locked(folder):
        server_folder = folder / SERVER_NAME
        server_folder.mkdir(exist_ok=True)
        server = PostgresServer(server_folder, fast=True)
        if not server.running:
            server.start()
    return server.url


@pytest.fixture(scope="session")
def postgres_databases(postgres_server_url: str, request: pytest.FixtureRequest) -> Databases:
    """Creates further databases, also as copies of a template that is built once a run."""
    return Databases(postgres_server_url, request.config.stash[FOLDER])


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """The address of an empty database of the test's own."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture(scope="session")
def postgis_databases(request: pytest.FixtureRequest) -> Databases:
    """Creates databases on a server that has PostGIS, where the machine has it."""
    binaries = postgis_binaries()
    if binaries is None:
        pytest.skip("PostGIS is not installed: apt-get install postgresql-postgis")
    folder = request.config.stash[FOLDER]
    with locked(folder):
        server_folder = folder / POSTGIS_NAME
        server_folder.mkdir(exist_ok=True)
        server = PostgresServer(server_folder, fast=True, binaries=binaries)
        if not server.running:
            server.start()
    return Databases(server.url, folder)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A private server, started, that the test may stop, kill and restart at will."""
    server = PostgresServer(new_folder(f"{FOLDER_PREFIX}own-{os.getpid()}-"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


# --- the life of the run's server -----------------------------------------------------------------


def _owner_of(folder: Path) -> tuple[int, str] | None:
    with contextlib.suppress(OSError, ValueError):
        pid, started = (folder / OWNER_NAME).read_text(encoding="utf-8").split()
        return int(pid), started
    return None


def started_at(pid: int) -> str | None:
    """Return when a process started, in ticks since the boot: no change of the clock moves it."""
    with contextlib.suppress(OSError):
        # The name, in brackets, may hold anything; the 22nd field is the 20th behind it.
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[19]
    return None


def _owner_lives(owner: tuple[int, str]) -> bool:
    pid, started = owner
    return is_alive(pid) and started_at(pid) == started


def remove_leftovers() -> None:
    """Stop servers of runs that were killed before they could clean up."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        own = re.fullmatch(rf"{FOLDER_PREFIX}own-(\d+)-.+", folder.name)
        owner = _owner_of(folder)
        if own and not is_alive(int(own[1])):
            remove_server(folder)
        elif owner and not _owner_lives(owner):
            _end_run(folder)


def _end_run(folder: Path) -> None:
    for name in (SERVER_NAME, POSTGIS_NAME):
        remove_server(folder / name)
    shutil.rmtree(folder, ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Make the run's folder, or take the one that the controller made."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        config.stash[FOLDER] = Path(worker_input[WORKER_INPUT])
        return
    remove_leftovers()
    folder = new_folder(FOLDER_PREFIX)
    mine = f"{os.getpid()} {started_at(os.getpid())}"
    (folder / OWNER_NAME).write_text(mine, encoding="utf-8")
    config.stash[FOLDER] = folder


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: pytest.Session) -> None:
    """Tell each worker where the run's folder is."""
    node.workerinput[WORKER_INPUT] = str(node.config.stash[FOLDER])  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the run's server; on a server that was given, drop what the run created."""
    folder = config.stash.get(FOLDER, None)
    if folder is None or hasattr(config, "workerinput"):
        return
    given = os.environ.get(URL_VARIABLE)
    if given and any(folder.glob("template-*")):
        Databases(given, folder).drop_all()
    _end_run(folder)
    remove_leftovers()
