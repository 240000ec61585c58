"""The fixture `harness`: the same test on every kind of queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queues.harness import EmbeddedHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.queues.harness import Harness

#: Kind of queue → what makes one in a folder. A new kind joins the suite here.
FACTORIES = {"embedded": lambda folder: EmbeddedHarness(folder / "queue.db")}


@pytest.fixture(params=FACTORIES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """An empty queue of the test's own, of each kind in turn."""
    made = FACTORIES[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedHarness]:
    """An empty embedded queue, for what only it promises."""
    made = EmbeddedHarness(tmp_path / "queue.db")
    yield made
    made.close()
