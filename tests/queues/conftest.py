"""The fixture `harness`: the same test on every kind of queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queues.harness import EmbeddedHarness, SqsHarness
from tests.queues.sqs_scene import Scene, open_at
from tests.support.faulty_endpoint import FaultyEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.queues.harness import Harness
    from tests.support.aws import AwsServer

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


@pytest.fixture
def scene(ministack: AwsServer, aws_environment: None) -> Iterator[Scene]:
    """An empty queue on an emulator, behind an endpoint without faults."""
    made = ministack.make_queue()
    with FaultyEndpoint(ministack.url) as endpoint:
        queue = open_at(made, endpoint.url)
        yield Scene(queue, endpoint, made, ministack)
        queue.close()
