"""Fixtures: a cloud of the module's own, and an empty PostgreSQL database a test."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.end_to_end.cloud import Cloud
from tests.oracle.tables import read_rows
from tests.support.aws import AwsServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.plugins.postgres import Databases


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    """SQS, SNS and S3: real time, and no other test's messages."""
    with AwsServer("ministack") as made:
        yield made


@pytest.fixture
def cloud(server: AwsServer, request: pytest.FixtureRequest) -> Cloud:
    """A topic and a queue of the test's own."""
    return Cloud.make(server, request.node.name.replace("[", "-").replace("]", ""))


@pytest.fixture
def database(postgres_databases: Databases) -> Iterator[str]:
    """The address of an empty database, without tables."""
    url = postgres_databases.create()
    yield url
    postgres_databases.drop(url)


@pytest.fixture
def rows(database: str) -> Callable[[str], list[dict[str, Any]]]:
    """Return a function that asks the database by plain SQL."""

    def ask(query: str) -> list[dict[str, Any]]:
        with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
            return read_rows(connection, query)

    return ask
