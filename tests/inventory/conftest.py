"""Listed objects, for every module of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.inventory.listing import Listed, Run, listed
from tests.pipeline.scene import thing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def scene(backend: Backend, tmp_path: Path) -> Listed:
    """On either database."""
    return Listed(backend, tmp_path)


@pytest.fixture
def run(scene: Listed, tmp_path: Path) -> Run:
    """Of seven objects."""
    return Run(scene, tmp_path / "list.jsonl", [listed(thing(n)) for n in range(7)])
