"""Fixtures of the command line's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tests.cli.command import fill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def filled(backend: Backend) -> Backend:
    """A ledger with ten units whose state is known by heart."""
    fill(backend)
    return backend


@pytest.fixture
def queue(tmp_path: Path) -> str:
    """A queue with two visible messages, one in flight and one dead letter."""
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    flags: dict[str, str | int] = {"queue.url": url, "queue.max_receive_count": 1}
    opened = open_queue(load_config(environment={}, flags=flags))
    opened.send([b"dies"])
    opened.change_visibility([(m.receipt, 0) for m in opened.receive(1)])
    opened.send([b"flies", b"waits", b"waits too"])
    assert [m.body for m in opened.receive(1)] == [b"flies"]
    opened.close()
    return url
