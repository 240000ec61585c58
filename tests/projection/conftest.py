"""The fixture `catalog`: a database with pgstac in it, where the machine has PostGIS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.projection.scene import build
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.plugins.postgres import Databases


@pytest.fixture
def catalog(postgis_databases: Databases) -> Iterator[Backend]:
    """A migrated database without items, of the test's own."""
    template = postgis_databases.template("pgstac", build)
    made = Backend("postgres", postgis_databases.create(template))
    yield made
    made.close()
    postgis_databases.drop(made.url)
