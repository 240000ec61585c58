"""The counts by which the demo judges itself, on both databases, on ledgers known by heart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.proofs import applied_etags, count_for_proof, stored_items
from tests.cli.pipeline import make_feed, shares

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backends import Backend


@pytest.fixture
def count(backend: Backend, tmp_path: Path) -> Callable[..., int]:
    """Counts on a ledger with 18 successes, two failures for `size_zero` and one poison message."""
    feed = make_feed(tmp_path, 20, *shares(zero_bytes="0.1", poison="0.05"))
    assert feed.ingest(backend, "--drain").code == 0
    return count_for_proof(backend.open().database)


def uris(backend: Backend, status: str) -> list[str]:
    """Return the objects of the units in a status, by plain SQL."""
    return [
        row[0] for row in backend.sql("SELECT object_uri FROM wal_records WHERE status = ?", status)
    ]


def test_what_is_there_is_counted(backend: Backend, count: Callable[..., int]) -> None:
    """Records, objects, items and poison, and units by what became of them and why."""
    assert (count("count_records"), count("count_objects"), count("count_items")) == (20, 20, 18)
    assert count("count_poison") == 1
    good, bad = uris(backend, "succeeded"), uris(backend, "failed")

    def became(status: str, code: str | None, rows: list[str]) -> int:
        return count("count_became", status=status, error_code=code, rows=rows)

    assert became("succeeded", None, good) == 18
    assert became("succeeded", None, bad) == 0
    assert became("failed", "size_zero", bad) == 2
    assert became("failed", "missing_object", bad) == 0
    assert len(applied_etags(backend.open().database)) == 18
    assert len(list(stored_items(backend.open().database))) == 18


def test_a_whole_ledger_has_no_faults(backend: Backend, count: Callable[..., int]) -> None:
    """After a drained run nothing is torn, doubled, miscounted, overlapping or unfinished."""
    assert count("count_applied_twice", rows=uris(backend, "succeeded")) == 0
    for name in (
        "count_torn", "count_overlaps", "count_miscounted", "count_unfinished",
        "count_fenced_workers", "count_written_after_fence",
    ):  # fmt: skip
        assert count(name) == 0, name


def test_a_torn_success_is_found(backend: Backend, count: Callable[..., int]) -> None:
    """An item whose hash is not the attempt's is one torn unit; so is each further one."""
    for number, uri in enumerate(uris(backend, "succeeded")[:2], start=1):
        backend.sql(
            "UPDATE stac_items SET sha256 = ? WHERE wal_id = "
            "(SELECT wal_id FROM wal_records WHERE object_uri = ?)",
            "0" * 64,
            uri,
        )
        assert count("count_torn") == number


def test_units_in_hand_and_fenced_workers_are_found(filled: Backend) -> None:
    """Ten units by hand: parked, in progress and the re-run that is due are unfinished."""
    count = count_for_proof(filled.open().database)
    assert count("count_unfinished") == 3
    # Its successes were written without items: all five are torn.
    assert count("count_torn") == 5
    assert count("count_fenced_workers") == 0
    filled.sql("UPDATE workers SET expires_at = ?", "2000-01-01T00:00:00.000000Z")
    filled.open().leases.recover()
    assert count("count_fenced_workers") == 1
