"""A ledger, an outbox and a folder for archives, for every module of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.scene import Scene
from tests.support.outbox import Outbox

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def outbox(backend: Backend) -> Outbox:
    """An outbox without events."""
    return Outbox(backend)


@pytest.fixture
def scene(backend: Backend) -> Scene:
    """A ledger with a worker."""
    return Scene(backend)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder for archives alone."""
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder
