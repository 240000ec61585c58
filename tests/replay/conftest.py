"""Dead letters to drain, for every module of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.replay.letters import Letters

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def letters(backend: Backend, tmp_path: Path) -> Letters:
    """A pipeline of the test's own."""
    return Letters(backend, tmp_path)
