"""Retention's rules: ages, ranges, pace and the forecast, by hand."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.inventory.retention import (
    ArchiveKind,
    RetentionRules,
    first_outbox_id,
    forecast,
    kinds_named,
    pause_s,
)
from tallgrass.outbox.outbox_ids import OutboxIds

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
times = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_ages_are_days_and_zero_is_for_ever() -> None:
    """What has no age never becomes old."""
    rules = RetentionRules(days={ArchiveKind.ATTEMPTS: 30, ArchiveKind.EVENTS: 0})
    assert rules.older_than(ArchiveKind.ATTEMPTS, NOW) == datetime(2026, 5, 2, 12, tzinfo=UTC)
    assert rules.older_than(ArchiveKind.EVENTS, NOW) is None
    assert rules.older_than(ArchiveKind.AUDIT, NOW) is None


@given(times, st.timedeltas(timedelta(milliseconds=1), timedelta(days=900)))
def test_ids_of_earlier_events_lie_before_the_bound(at: datetime, before: timedelta) -> None:
    """The scan for old events may end at it, and misses none of them."""
    ids = OutboxIds(lambda: 2**62 - 1)
    bound = first_outbox_id(at)
    assert str(uuid.UUID(bound)) == bound
    (earlier,) = ids.several(at - before, 1)
    (first,) = OutboxIds(lambda: 0).several(at, 1)
    assert earlier < bound <= first


def test_the_pace_is_kept_by_resting() -> None:
    """500 rows at 1,000 a second take half a second; what took longer is not rested."""
    assert pause_s(500, 1000.0, 0.1) == pytest.approx(0.4)
    assert pause_s(500, 1000.0, 2.0) == 0.0
    assert pause_s(500, None, 0.0) == 0.0


def test_the_forecast() -> None:
    """1,000 units take 10 MB and 100 came in a day: 1 MB a day, and 50 MB last for 50 days."""
    found = forecast(
        database_bytes=10_000_000, units=1000, recent_units=100, recent_days=1.0, free=50_000_000
    )
    assert (found.bytes_per_day, found.days_left) == (1_000_000, 50.0)
    nothing = forecast(database_bytes=1, units=0, recent_units=0, recent_days=1.0, free=1)
    assert (nothing.bytes_per_day, nothing.days_left) == (None, None)
    remote = forecast(database_bytes=10, units=1, recent_units=1, recent_days=1.0, free=None)
    assert (remote.bytes_per_day, remote.days_left) == (10.0, None)


def test_kinds_come_in_their_order() -> None:
    """All where none is named."""
    assert kinds_named(["audit", "attempts"]) == (ArchiveKind.ATTEMPTS, ArchiveKind.AUDIT)
    assert kinds_named([]) == tuple(ArchiveKind)
