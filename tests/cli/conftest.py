"""Fixtures of the command line's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command import fill

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.fixture
def filled(backend: Backend) -> Backend:
    """A ledger with ten units whose state is known by heart."""
    fill(backend)
    return backend
