"""Silence has two causes, and they are told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallgrass.telemetry.freshness import DatasetTimes, Freshness, Surroundings, judge, patience_s

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    """Return an instant so long before now."""
    return NOW - timedelta(seconds=seconds)


def times(**changes: Any) -> DatasetTimes:
    """Return an hourly dataset whose newest object is in the catalog; nothing is unfinished."""
    values: dict[str, Any] = {
        "cadence_s": 3600.0,
        "switched_off": False,
        "heard_at": ago(10),
        "done_at": ago(10),
        "failed_at": None,
        "pending_since": None,
        "in_progress_since": None,
    }
    return DatasetTimes(**{**values, **changes})


def around(**changes: Any) -> Surroundings:
    """Return a pipeline with two workers and an empty queue."""
    values: dict[str, Any] = {
        "now": NOW,
        "live_workers": 2,
        "queue_depth": 0,
        "queue_since": None,
    }
    return Surroundings(**{**values, **changes})


LATE = times(heard_at=ago(7201))


@pytest.mark.parametrize(
    ("seen", "place", "expected"),
    [
        (times(), around(), Freshness.FRESH),
        # Two cadences may pass.
        (times(heard_at=ago(7200)), around(), Freshness.FRESH),
        (LATE, around(), Freshness.NOAA_SILENT),
        # Young messages are the feed at work, of other datasets.
        (LATE, around(queue_depth=5, queue_since=ago(300)), Freshness.NOAA_SILENT),
        # What we miss may be among messages that wait for long, or for nobody knows how long.
        (LATE, around(queue_depth=5, queue_since=ago(301)), Freshness.WE_ARE_STUCK),
        (LATE, around(queue_depth=5), Freshness.WE_ARE_STUCK),
        # Nobody looks.
        (LATE, around(live_workers=0), Freshness.WE_ARE_STUCK),
        (times(), around(live_workers=0), Freshness.FRESH),
        # Units hang, though news keep coming.
        (times(pending_since=ago(7201)), around(), Freshness.WE_ARE_STUCK),
        (times(pending_since=ago(7200)), around(), Freshness.FRESH),
        (times(in_progress_since=ago(7201)), around(), Freshness.WE_ARE_STUCK),
        # Somebody wants it so.
        (times(switched_off=True, pending_since=ago(9e5)), around(), Freshness.SWITCHED_OFF),
        # Without a cadence silence tells nothing, but what hangs still hangs.
        (times(cadence_s=None, heard_at=ago(9e6)), around(), Freshness.UNKNOWN),
        (times(cadence_s=None, pending_since=ago(301)), around(), Freshness.WE_ARE_STUCK),
        (times(heard_at=None), around(), Freshness.UNKNOWN),
    ],
)
def test_it_is_said_whose_fault_silence_is(
    seen: DatasetTimes, place: Surroundings, expected: Freshness
) -> None:
    """NOAA is silent only where workers look, nothing waits and nothing hangs."""
    assert judge(seen, place) is expected


def test_quick_datasets_get_some_minutes() -> None:
    """Every 20 s an object is expected, and nobody is woken for a gap of a minute."""
    assert (patience_s(20.0), patience_s(151.0)) == (300.0, 302.0)


#: News come, and what was tried of them failed.
FAILED = {"failed_at": ago(10)}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # One failed among others that did not.
        (times(**FAILED), Freshness.FRESH),
        # The catalog may stand still for two cadences, and no longer.
        (times(**FAILED, done_at=ago(7200)), Freshness.FRESH),
        (times(**FAILED, done_at=ago(7201)), Freshness.FAILING),
        # Nothing of it was ever there.
        (times(**FAILED, done_at=None), Freshness.FAILING),
        (times(**FAILED, done_at=None, cadence_s=None), Freshness.FAILING),
        # The catalog stands still, and nothing failed: the news is being worked on.
        (times(done_at=ago(7201)), Freshness.FRESH),
        # What failed is old, and nothing came after it: the source is silent.
        (
            times(heard_at=ago(7201), failed_at=ago(7201), done_at=ago(9000)),
            Freshness.NOAA_SILENT,
        ),
        # Work that hangs, and a switch, are told first.
        (times(**FAILED, done_at=None, pending_since=ago(7201)), Freshness.WE_ARE_STUCK),
        (times(**FAILED, done_at=None, switched_off=True), Freshness.SWITCHED_OFF),
        # Without a cadence nobody knows when the catalog should have moved, and only the
        # announcements of a day tell that nothing of it works.
        (times(**FAILED, done_at=ago(9e6), cadence_s=None), Freshness.UNKNOWN),
        (times(failed_at=ago(86401), done_at=None, cadence_s=None), Freshness.UNKNOWN),
    ],
)
def test_news_that_come_to_nothing_are_not_fresh(seen: DatasetTimes, expected: Freshness) -> None:
    """Announcements alone make no dataset fresh: the catalog must move, too."""
    assert judge(seen, around()) is expected
