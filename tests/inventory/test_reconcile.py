"""The rules of a reconciliation, each by itself: no bucket, no database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.inventory.listed import ListedObject
from tallgrass.inventory.mending import ADVICE, Mend, mend_of
from tallgrass.inventory.reconcile import (
    Finding,
    Judging,
    Kind,
    LedgerEntry,
    changed_since,
    is_recent,
    judge,
    with_listed,
)
from tallgrass.ledger.unit import ObjectReference

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
URI = "s3://noaa-goes19/a"
JUDGING = Judging(dataset="goes-glm", now=NOW, grace=timedelta(minutes=15), listed_at=NOW)


def entry(status: str = "succeeded", **changes: Any) -> LedgerEntry:
    """Return a record that is as it should be, with changes."""
    values = {
        "wal_id": "id",
        "object_uri": URI,
        "status": status,
        "start": LONG_AGO,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "due_at": None,
        "replay_run_id": None,
        "last_error_code": None,
        "has_item": True,
        "held_until": None,
    }
    return LedgerEntry(**{**values, **changes})


def kinds(given_entry: LedgerEntry, judging: Judging = JUDGING, *, listed: bool = True) -> set[str]:
    """Return what is found wrong."""
    return {found.kind.value for found in judge(given_entry, judging, listed=listed)}


MOMENT = timedelta(seconds=1)
GRACE_AGO = NOW - timedelta(minutes=15)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (entry(), set()),
        (entry(last_error_code="io_error"), {"stale"}),
        (entry(has_item=False), {"ledger_without_item"}),
        (entry(has_item=False, last_error_code="io_error"), {"stale", "ledger_without_item"}),
        (entry("failed", last_error_code="io_error"), {"failed"}),
        (entry("quarantined", last_error_code="io_error"), {"quarantined"}),
        # A pending unit that waits for its message is stuck once the grace is over.
        (entry("pending", updated_at=GRACE_AGO), {"stuck"}),
        (entry("pending", updated_at=GRACE_AGO + MOMENT), set()),
        # One that is due is stuck if nobody claims it.
        (entry("pending", due_at=GRACE_AGO), {"stuck"}),
        (entry("pending", due_at=GRACE_AGO + MOMENT), set()),
        (entry("pending", due_at=NOW + MOMENT), set()),
        (entry(due_at=GRACE_AGO), {"stuck"}),
        # What the ledger retries is failed or stale, not stuck too.
        (entry(due_at=GRACE_AGO, last_error_code="io_error"), {"stale"}),
        (entry("failed", due_at=GRACE_AGO, last_error_code="io_error"), {"failed"}),
        # Who holds it has time until the lease ends, and none after it.
        (entry("in_progress", held_until=NOW + MOMENT), set()),
        (entry("in_progress", held_until=NOW), {"stuck"}),
        (entry("in_progress"), {"stuck"}),
        (entry(held_until=NOW - MOMENT), {"stuck"}),
    ],
)
def test_an_entry_is_judged_by_its_state(found: LedgerEntry, expected: set[str]) -> None:
    """Each state has its findings, and what is on its way has none."""
    assert kinds(found) == expected


def test_only_what_waits_for_a_message_can_be_announced_again() -> None:
    """A pending unit that nobody schedules goes into the backfill's list; the others do not."""
    for given_entry, expected in (
        (entry("pending"), URI),
        (entry("pending", due_at=LONG_AGO), None),
        (entry("in_progress", held_until=LONG_AGO), None),
    ):
        (found,) = judge(given_entry, JUDGING, listed=True)
        assert found.kind is Kind.STUCK
        assert (found.listed and found.listed.uri) == expected


def test_what_is_parked_is_not_stuck() -> None:
    """A unit that is due while its dataset is switched off waits as it was told to."""
    due = entry("pending", due_at=LONG_AGO)
    off = Judging(dataset="goes-glm", now=NOW, grace=timedelta(0), ingest_off=True)
    replay_off = Judging(dataset="goes-glm", now=NOW, grace=timedelta(0), replay_off=True)
    assert kinds(due, off) == set()
    assert kinds(due, replay_off) == {"stuck"}
    assert kinds(due._replace(replay_run_id="run"), replay_off) == set()


@pytest.mark.parametrize("status", ["succeeded", "pending"])
def test_an_object_is_gone_only_if_it_was_known_before_the_listing(status: str) -> None:
    """What was recorded after the listing began may have come behind it."""
    judging = replace(JUDGING, listed_at=LONG_AGO)
    fresh = entry(status, created_at=LONG_AGO, updated_at=NOW)
    assert kinds(fresh, judging, listed=False) == set()
    before = fresh._replace(created_at=LONG_AGO - MOMENT)
    assert kinds(before, judging, listed=False) == {"object_gone"}
    assert kinds(before, judging, listed=True) == set()


def test_a_unit_younger_than_the_grace_is_not_called_gone() -> None:
    """Its object may still be on its way to the listing."""
    young = entry(created_at=GRACE_AGO + MOMENT)
    assert kinds(young, listed=False) == set()
    assert kinds(young._replace(created_at=GRACE_AGO), listed=False) == {"object_gone"}


def test_a_bucket_that_was_not_asked_says_nothing() -> None:
    """Without a listing nothing is gone."""
    assert not list(judge(entry(), JUDGING, listed=None))


@pytest.mark.parametrize(
    ("listed", "known", "differs"),
    [
        (("x", 10), ("x", 10), False),
        (("y", 10), ("x", 10), True),
        (("x", 11), ("x", 10), False),
        ((None, 10), ("x", 10), False),
        ((None, 11), ("x", 10), True),
        (("x", 11), (None, 10), True),
        (("x", None), (None, 10), False),
        (("x", 11), (None, None), False),
    ],
)
def test_an_object_has_changed_by_its_etag_else_by_its_size(
    listed: tuple[str | None, int | None], known: tuple[str | None, int | None], *, differs: bool
) -> None:
    """The etag decides where both are known; what is not known is never guessed."""
    found = changed_since(
        ListedObject(URI, listed[1], listed[0], None),
        ObjectReference(etag=known[0], size=known[1]),
    )
    assert (found is not None) is differs


def test_only_a_listing_that_tells_the_time_can_excuse_an_object() -> None:
    """An object younger than the grace may still be announced."""
    for modified, expected in (
        (None, False),
        (GRACE_AGO, False),
        (GRACE_AGO + MOMENT, True),
    ):
        assert is_recent(ListedObject(URI, 1, None, modified), JUDGING) is expected


ids = st.integers(0, 30).map(lambda number: f"{number:036}")


@given(st.sets(ids), st.lists(ids))
def test_the_merge_tells_what_a_plain_set_would(recorded: set[str], listed: list[str]) -> None:
    """Entries and listed ids in order, some listed twice, some of neither: the same answer."""
    entries = [entry(wal_id=wal_id) for wal_id in sorted(recorded)]
    found = [(each.wal_id, there) for each, there in with_listed(entries, sorted(listed))]
    assert found == [(wal_id, wal_id in set(listed)) for wal_id in sorted(recorded)]


def test_every_kind_has_a_remedy() -> None:
    """Each kind is mended by a command, or a sentence says what a person does."""
    for kind in Kind:
        mend = mend_of(Finding(kind=kind, dataset="d", detail=""))
        assert (mend is Mend.PERSON) == (kind in ADVICE), kind
