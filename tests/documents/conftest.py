"""The demo in which pages are played: made once, copied for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.documents.demo_world import demo_world, make_demo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.documents.demo_world import DemoWorld


@pytest.fixture(scope="session")
def made_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, as it is left."""
    folder = tmp_path_factory.mktemp("demo") / "made"
    make_demo(folder)
    return folder


@pytest.fixture
def world(made_demo: Path, tmp_path: Path) -> Iterator[DemoWorld]:
    """A copy for one page."""
    with demo_world(made_demo, tmp_path / "demo") as opened:
        yield opened
