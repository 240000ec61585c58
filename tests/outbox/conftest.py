from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.outbox.callers import CALLERS, Caller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.backends import Backend


@pytest.fixture
def pipeline_backend(backend: Backend) -> Backend:
    """A migrated database in which a pipeline keeps a table of its own."""
    backend.sql("CREATE TABLE pipeline_state (state text NOT NULL)")
    return backend


@pytest.fixture(params=sorted(CALLERS))
def caller(request: pytest.FixtureRequest, pipeline_backend: Backend) -> Iterator[Caller]:
    """A pipeline of somebody else's, with a connection of each kind."""
    made = CALLERS[request.param](pipeline_backend)
    yield made
    made.close()
