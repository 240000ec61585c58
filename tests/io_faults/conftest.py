"""A folder for lives that are lived hundreds of times."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulation.simulator import SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory, if the machine has a place for it: a sync costs nothing there."""
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-io-") as folder:
        yield Path(folder)
