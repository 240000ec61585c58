"""What items span and share: noted batch by batch, merged in any order, never forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tallgrass.stac.extent import Sides
from tallgrass.stac.geometry import NOWHERE
from tallgrass.stac.span import VALUES_MAX, Span, merged, span_from, span_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Item:
    """An item as far as it counts."""

    bbox: tuple[float, float, float, float] = NOWHERE
    start: datetime = NOON
    end: datetime = NOON
    summarised: Mapping[str, Any] = field(default_factory=dict)


def test_the_span_of_a_batch_is_that_of_its_items() -> None:
    """Boxes that cross the antimeridian count apart, those outside the world for time alone."""
    found = span_of(
        [
            Item((-95.0, 30.0, -90.0, 40.0), NOON - HOUR, NOON),
            Item((10.0, -5.0, 20.0, 35.0), NOON, NOON + HOUR),
            Item((170.0, 0.0, -175.0, 50.0)),
            Item((175.0, 1.0, -170.0, 2.0)),
            Item(NOWHERE, NOON, NOON + 2 * HOUR),
        ]
    )
    assert found.sides == Sides(
        south=-5.0, north=50.0, west=-95.0, east=20.0, crossing_west=170.0, crossing_east=-170.0
    )
    assert (found.start, found.end) == (NOON - HOUR, NOON + 2 * HOUR)


def test_without_a_place_there_is_no_box() -> None:
    """Nothing is known of where, so nothing is told."""
    assert span_of([Item()]).box is None


def test_values_are_texts_and_numbers_that_are_few() -> None:
    """Truths and lists are left out; of more than fifty values none is told."""
    items = [
        Item(summarised={
            "platform": f"G{16 + number % 2}", "hour": number, "exact": 0.5, "flag": True,
            "list": [1], "none": None,
        })
        for number in range(VALUES_MAX + 1)
    ]  # fmt: skip
    assert span_of(items).values == {
        "platform": {"G16", "G17"}, "exact": {0.5}, "hour": None,
    }  # fmt: skip
    assert span_of(items[:-1]).values["hour"] == frozenset(range(VALUES_MAX))


def test_too_many_values_stay_too_many() -> None:
    """Two batches with thirty values each are too many, whatever comes later."""
    one, two = (
        span_of([Item(summarised={"hour": 100 * batch + each}) for each in range(30)])
        for batch in range(2)
    )
    both = merged([one, two])
    assert both.values == {"hour": None}
    assert merged([both, one]).values == {"hour": None}
    assert merged([one, one]).values == one.values
    assert both.few(["hour", "platform"]) == {}


def test_few_values_are_told_in_order() -> None:
    """As summaries list them; only those that are asked for, and known."""
    span = span_of([Item(summarised={"p": name, "q": 1}) for name in ("G19", "G16")])
    assert span.few(["p", "r"]) == {"p": ["G16", "G19"]}
    assert span.limited_to(["p", "r"]).values == {"p": frozenset({"G16", "G19"})}


_BOXES = st.tuples(
    st.integers(-180, 180), st.integers(-90, 0), st.integers(-180, 180), st.integers(0, 90)
).map(lambda box: tuple(map(float, box)))
_ITEMS = st.builds(
    Item,
    bbox=st.one_of(_BOXES, st.just(NOWHERE)),
    start=st.integers(-50, 0).map(lambda hours: NOON + hours * HOUR),
    end=st.integers(0, 50).map(lambda hours: NOON + hours * HOUR),
    summarised=st.dictionaries(
        st.sampled_from(["a", "b"]), st.one_of(st.integers(0, 99), st.text(max_size=2))
    ),
)


@given(st.lists(st.lists(_ITEMS, min_size=1, max_size=30), min_size=1, max_size=5), st.randoms())
def test_batches_in_any_order_come_to_the_same(batches: list[list[Item]], chance: Any) -> None:
    """However items are cut into batches, and batches merged, the span is that of all items."""
    whole = span_of([item for batch in batches for item in batch])
    spans = [span_of(batch) for batch in batches]
    chance.shuffle(spans)
    step: Span = spans[0]
    for each in spans:
        step = merged([step, span_from(each.text())])
    assert merged(spans) == step == whole
    assert span_from(whole.text()) == whole
