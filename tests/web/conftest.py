"""Fixtures of the API's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.catalog import write_catalog
from tests.web.scene import ITEMS
from tests.web.serving import Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend


@pytest.fixture
def served(backend: Backend) -> Iterator[Served]:
    """The API over the known items, a process of its own."""
    write_catalog(backend, ITEMS)
    with serving(backend) as api:
        yield api
