"""Fixtures of the tests of migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database that no migration has seen, of each kind in turn."""
    if request.param == "sqlite":
        made = Backend("sqlite", f"sqlite:///{tmp_path / 'empty.db'}")
        yield made
        made.close()
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    made = Backend("postgres", databases.create())
    yield made
    made.close()
    databases.drop(made.url)
