"""A watched runner, for every module of this folder that needs no special one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.nodes import NodeHooks
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners."""
    made = Watched(tmp_path / "nodes")
    made.options["hooks"] = NodeHooks(watchers=(made,))
    yield made
    made.close()
