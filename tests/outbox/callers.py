"""Pipelines of others: each opens transactions in its own way on the same database."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tallgrass.outbox import Artifact, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend

CHECKSUM = "sha256:" + "93" * 32
URI = "s3://kfm/artifacts/hydrology_flow/v10.3.1/output.parquet"
ARTIFACT = Artifact(uri=URI, checksum=CHECKSUM)
#: What a publication writes, in the order of its statements.
WRITTEN = ("idempotency_keys", "artifact_versions", "outbox", "outbox_delivery")


def event(**changes: Any) -> Event:
    """Return the event of the specification's own example."""
    values: dict[str, Any] = {
        "pipeline_id": "hydrology_flow_2025_v10.3.1",
        "event_name": "artifact_published",
        "dataset_id": "hydrology_flow_ks",
        "version": "v10.3.1",
        "payload": {"artifact_uri": URI, "checksum": CHECKSUM},
        "care_label": "public",
    }
    return Event(**{**values, **changes})


class Caller:
    """Opens transactions on a backend and changes state in them."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """Begin; commit at the end, roll back on any error."""
        raise NotImplementedError

    def run(self, handle: Any, statement: str) -> None:
        """Run a statement of the caller's own in the transaction."""
        handle.execute(statement)

    def change_state(self, handle: Any) -> None:
        """Write the pipeline's own table."""
        self.run(handle, "INSERT INTO pipeline_state (state) VALUES ('done')")

    def close(self) -> None:
        """Close what was opened."""


class DriverCaller(Caller):
    """A plain connection of `sqlite3` or `psycopg`."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin as the driver's users do."""
        if self.backend.name == "sqlite":
            with contextlib.closing(sqlite3.connect(self.backend.path, timeout=30)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    yield connection
        else:
            with psycopg.connect(self.backend.url) as client, client.transaction():
                yield client


class OurCaller(Caller):
    """A transaction of the package's own."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._database = backend.open().database

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin on one of our databases."""
        with self._database.transaction() as transaction:
            yield transaction

    def run(self, handle: Any, statement: str) -> None:
        """Run a statement of the caller's own in the transaction."""
        handle.connection.execute(statement)


class CoreCaller(Caller):
    """A connection of SQLAlchemy."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.engine = engine_of(backend)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin on the engine."""
        with self.engine.begin() as connection:
            yield connection

    def run(self, handle: Any, statement: str) -> None:
        """Run a statement of the caller's own in the transaction."""
        handle.execute(sqlalchemy.text(statement))

    def close(self) -> None:
        """Let the engine go."""
        self.engine.dispose()


class SessionCaller(CoreCaller):
    """A session of SQLAlchemy's ORM."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin a session's transaction."""
        with Session(self.engine) as session, session.begin():
            yield session


CALLERS: dict[str, type[Caller]] = {
    "driver": DriverCaller,
    "ours": OurCaller,
    "sqlalchemy": CoreCaller,
    "session": SessionCaller,
}


def engine_of(backend: Backend, **options: Any) -> sqlalchemy.Engine:
    """Return an engine that keeps no connection."""
    if backend.name == "sqlite":
        return sqlalchemy.create_engine(
            f"sqlite:///{backend.path}",
            poolclass=NullPool,
            connect_args={"timeout": 30},
            **options,
        )
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(backend.url),
        poolclass=NullPool,
        **options,
    )


def counts(backend: Backend) -> dict[str, int]:
    """Count what publications and their pipeline have written."""
    tables = (*WRITTEN, "outbox_duplicates", "pipeline_state")
    return {table: backend.sql(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def nothing(**but: int) -> dict[str, int]:
    """Return the counts of a database that nothing was published in, but for some tables."""
    return {**dict.fromkeys((*WRITTEN, "outbox_duplicates", "pipeline_state"), 0), **but}


def once(**but: int) -> dict[str, int]:
    """Return the counts after one event with its artifact and its state, but for some tables."""
    return {**nothing(pipeline_state=1), **dict.fromkeys(WRITTEN, 1), **but}
