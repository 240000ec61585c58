"""The fixture `harness`: the same test on every kind of queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queues.harness import EmbeddedHarness, SqsHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.queues.harness import Harness

#: A new kind of queue joins the suite here.
KINDS = ("embedded", "ministack", "moto")


@pytest.fixture(params=KINDS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """An empty queue of the test's own, of each kind in turn."""
    made: Harness
    if request.param == "embedded":
        made = EmbeddedHarness(tmp_path / "queue.db")
    else:
        request.getfixturevalue("aws_environment")
        made = SqsHarness(request.getfixturevalue(request.param))
    yield made
    made.close()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedHarness]:
    """An empty embedded queue, for what only it promises."""
    made = EmbeddedHarness(tmp_path / "queue.db")
    yield made
    made.close()
