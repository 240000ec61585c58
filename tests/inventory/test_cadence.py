"""Gaps against a cadence: what is missing, where it is missing, and what is no gap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.inventory import cadence as module
from tallgrass.inventory.cadence import Cadence, Gap, instant_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
ONE = datetime(2026, 6, 1, 13, tzinfo=UTC)
#: An hour of instants every 20 seconds.
ALL = [NOON + timedelta(seconds=20 * number) for number in range(180)]


def gaps(seen: list[datetime], series: str = "a", *, until: datetime = ONE) -> list[Gap]:
    """Return the gaps of one series in the hour."""
    cadence = Cadence(NOON, until, 20.0)
    for instant in seen:
        cadence.see(series, instant)
    return list(cadence.gaps("whole"))


def at(minute: int, second: int = 0) -> datetime:
    """Return an instant of the hour."""
    return NOON + timedelta(minutes=minute, seconds=second)


def test_a_whole_window_has_no_gap() -> None:
    """Every instant came: nothing is told, in whatever order they came."""
    assert gaps(ALL) == []
    assert gaps(ALL[::-1]) == []


@pytest.mark.parametrize(
    ("left_out", "start", "end"),
    [
        (slice(90, 91), at(29, 40), at(30, 20)),
        (slice(90, 93), at(29, 40), at(31)),
        (slice(0, 3), NOON, at(1)),
        (slice(177, 180), at(58, 40), ONE),
    ],
)
def test_a_gap_lies_between_its_neighbours(left_out: slice, start: datetime, end: datetime) -> None:
    """One instant or several, within the window or at its ends, are counted and bounded."""
    seen = [instant for instant in ALL if instant not in ALL[left_out]]
    missing = left_out.stop - left_out.start
    assert gaps(seen) == [Gap(series="a", start=start, end=end, missing=missing)]


def test_a_window_without_any_instant_is_one_gap_of_the_whole() -> None:
    """Nothing at all came: 180 are missing."""
    assert gaps([]) == [Gap(series="whole", start=NOON, end=ONE, missing=180)]


def test_each_series_is_judged_by_itself() -> None:
    """A satellite that is whole does not hide the gap of another; one never seen is none."""
    cadence = Cadence(NOON, ONE, 20.0)
    for instant in ALL:
        cadence.see("goes18", instant)
        if instant != at(10):
            cadence.see("goes19", instant)
    assert [(gap.series, gap.missing) for gap in cadence.gaps("x")] == [("goes19", 1)]


@given(st.lists(st.floats(-4.0, 4.0), min_size=180, max_size=180))
def test_sources_that_are_a_little_early_or_late_have_no_gap(offsets: list[float]) -> None:
    """Instants that lie up to a fifth of the cadence beside their place are neighbours still."""
    seen = [at + timedelta(seconds=by) for at, by in zip(ALL, offsets, strict=True)]
    assert gaps([instant for instant in seen if instant >= NOON]) == []


@given(
    st.sets(st.integers(1, 178), min_size=1, max_size=60),
    st.lists(st.floats(-1.0, 1.0), min_size=180, max_size=180),
)
def test_as_many_are_missing_as_were_left_out(left_out: set[int], offsets: list[float]) -> None:
    """Whatever is left out within the window is counted, if the source is nearly exact."""
    seen = [
        instant + timedelta(seconds=offsets[number])
        for number, instant in enumerate(ALL)
        if number not in left_out
    ]
    found = gaps([max(instant, NOON) for instant in seen])
    assert sum(gap.missing for gap in found) == len(left_out)


def test_what_lies_outside_the_window_tells_nothing() -> None:
    """An instant at the window's end is not in it; one before its begin neither."""
    seen = [NOON - timedelta(seconds=20), *ALL[1:], ONE]
    assert gaps(seen) == []
    assert [gap.missing for gap in gaps([NOON - timedelta(seconds=1), ONE])] == [180]


def test_a_window_that_is_too_long_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: beyond it there is no answer, and that is told."""
    monkeypatch.setattr(module, "SLOTS_MAX", 1000)
    cadence = Cadence(NOON, ONE, 20.0)  # 720 slots
    cadence.see("a", NOON)
    judged = not cadence.too_long
    cadence.see("b", NOON)
    cadence.see("a", NOON)
    assert (judged, cadence.too_long) == (True, True)
    assert list(cadence.gaps("x")) == []


def test_model_output_counts_by_its_run() -> None:
    """A forecast's valid time says nothing of the run that may be missing."""
    hrrr, glm = (default_catalogue().named(name) for name in ("hrrr", "goes-glm"))
    key = "hrrr.20260601/conus/hrrr.t12z.wrfsfcf06.grib2"
    assert instant_of(hrrr, key, NOON + timedelta(hours=6)) == NOON
    assert instant_of(glm, "any", at(3)) == at(3)
