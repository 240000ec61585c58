"""Ids come back in order, from memory and from the file alike."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tallgrass.storage.sorted_ids import SortedIds

many = st.lists(st.integers(0, 200).map(lambda number: str(UUID(int=number))))


@given(many, st.integers(1, 12))
def test_ids_come_back_in_order(given_ids: list[str], run_size: int) -> None:
    """Whatever comes, in whatever order and however often, whole or in runs: sorted, and again."""
    with SortedIds(run_size=run_size) as ids:
        for wal_id in given_ids:
            ids.add(wal_id)
        assert list(ids) == sorted(given_ids)
        assert list(ids) == sorted(given_ids)


def test_what_is_read_at_once_does_not_cut_an_id() -> None:
    """A run that is longer than one read."""
    expected = [str(UUID(int=number)) for number in range(5000)]
    with SortedIds(run_size=4000) as ids:
        for wal_id in reversed(expected):
            ids.add(wal_id)
        assert list(ids) == expected
