"""How often Python looks for reference cycles."""

from __future__ import annotations

import gc

import pytest

from tallgrass.garbage import rare_collections


def test_what_was_set_before_is_set_again() -> None:
    """Batches run with rare collections; whoever calls the loop finds its own setting again."""
    before = gc.get_threshold()
    with rare_collections():
        during = gc.get_threshold()
    assert (during[0] > before[0], during[1:]) == (True, before[1:])
    assert gc.get_threshold() == before
    with pytest.raises(RuntimeError), rare_collections():
        raise RuntimeError
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    """A threshold of zero switches the collector off, and that is the caller's wish."""
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
