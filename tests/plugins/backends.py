"""The fixture `backend`: the same test on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import Backend, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A migrated, empty database of the test's own, of each kind in turn."""
    if request.param == "sqlite":
        made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
        yield made
        made.close()
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    template = databases.template("ledger", lambda url: prepare("postgres", url).close())
    made = Backend("postgres", databases.create(template))
    yield made
    made.close()
    databases.drop(made.url)
