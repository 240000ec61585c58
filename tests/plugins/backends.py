"""The fixture `backend`: the same test on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import Backend, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite database to make copies of."""
    path = tmp_path_factory.mktemp("migrated") / "ledger.db"
    prepare("sqlite", f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path
) -> Iterator[Backend]:
    """A migrated, empty database of the test's own, of each kind in turn."""
    if request.param == "sqlite":
        made = Backend("sqlite", f"sqlite:///{shutil.copy(migrated_file, tmp_path)}")
        yield made
        made.close()
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    template = databases.template("ledger", lambda url: prepare("postgres", url).close())
    made = Backend("postgres", databases.create(template))
    yield made
    made.close()
    databases.drop(made.url)
