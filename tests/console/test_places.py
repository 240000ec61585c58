from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.governance.policy import Policies, Policy
from tallgrass.views.places import (
    Telling,
    around,
    evidence_as_told,
    field_as_told,
    in_words,
    item_as_told,
    telling_of,
    told,
)

if TYPE_CHECKING:
    from tallgrass.stac.geometry import Box

ITEM: dict[str, Any] = {
    "id": "buoy-38.971,-95.235",
    "bbox": [-95.235, 38.971, -95.235, 38.971],
    "geometry": {"type": "Point", "coordinates": [-95.235, 38.971]},
    "properties": {"datetime": "2026-06-01T00:00:00Z", "proj:bbox": [1.5, 2.5], "site": "KTWX"},
    "assets": {"data": {"href": "s3://b/lat=38.971/lon=-95.235/f.nc"}},
}


def policy(**rules: Any) -> Policies:
    """Return the policies of one dataset."""
    return Policies(
        [Policy(dataset="d", **{"care_label": "public", "sensitivity": "low", **rules})]
    )


@pytest.mark.parametrize(
    ("boxes", "whole"),
    [
        ([(-10, -5, 10, 5)], (-10, -5, 10, 5)),
        ([(-10, -5, 0, 5), (20, 0, 30, 9)], (-10, -5, 30, 9)),
        ([(170, 0, -170, 1)], (170, 0, -170, 1)),
        ([(170, 0, 175, 1), (-175, -3, -160, 0)], (170, -3, -160, 1)),
        ([(170, 0, -170, 1), (-100, 0, -90, 1)], (170, 0, -90, 1)),
        ([(-180, -90, 180, 90), (170, 0, -170, 1)], (-180, -90, 180, 90)),
        ([(0, 0, 180, 1), (-180, 0, 0, 1)], (-180, 0, 180, 1)),
    ],
)
def test_the_box_around_boxes_leaves_out_the_widest_gap(boxes: list[Box], whole: Box) -> None:
    """By hand, on the circle of longitudes."""
    assert around(boxes) == whole


def test_a_box_in_words() -> None:
    """West and south are words, not signs; a point is one place."""
    assert in_words((156.44, -66.56, -70.44, 66.56)) == "66.6° S to 66.6° N, 156.4° E to 70.4° W"
    assert in_words((5.0, 5.0, 5.0, 5.0)) == "5.0° N, 5.0° E"
    assert in_words((-180.0, -90.0, 180.0, 90.0)) == "90.0° S to 90.0° N, all round"


def test_public_data_are_told_as_they_are() -> None:
    """Nothing is made coarse that need not be."""
    telling = telling_of(policy(), "d")
    assert telling == Telling(refusal=None, degrees=0.0)
    assert item_as_told(ITEM, telling) == ITEM


def test_places_are_no_more_exact_than_the_policy_of_today() -> None:
    """By hand: 0.1° cells around 38.971 N 95.235 W; no decimal of it is left anywhere."""
    shown = item_as_told(ITEM, telling_of(policy(care_label="sensitive"), "d"))
    assert shown is not None
    assert shown["bbox"] == [-95.3, 38.9, -95.2, 39.0]
    assert shown["geometry"]["type"] == "Polygon"
    assert shown["properties"]["anon:size"] == 0.1
    assert shown["properties"]["site"] == "KTWX"
    text = json.dumps(shown)
    assert "38.97" not in text
    assert "95.23" not in text
    assert "proj:bbox" not in text


def test_an_item_that_was_made_coarse_enough_stays_as_it_is() -> None:
    """Its bytes were made under a policy at least as strict."""
    made = {**ITEM, "properties": {"anon:size": 1.0}}
    assert item_as_told(made, Telling(refusal=None, degrees=0.1)) == made


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (policy(care_label="restricted"), "no governance_ref"),
        (policy(reject="no longer"), "no longer"),
        (Policies(), "nothing says how open"),
    ],
)
def test_what_the_gate_refuses_is_not_told_at_all(policies: Policies, said: str) -> None:
    """Restricted without a reference, rejected, unknown: no item, and the reason."""
    telling = telling_of(policies, "d")
    assert said in str(telling.refusal)
    assert item_as_told(ITEM, telling) is None


def test_evidence_is_made_coarse_too() -> None:
    """Fields of latitude and longitude, and texts that spell them."""
    evidence = {"header": {"latitude": 38.971, "longitude": -95.235}, "name": "at 38.971,-95.235"}
    text = json.dumps(told(evidence, Telling(refusal=None, degrees=1.0)))
    assert "38.9" not in text
    assert "95.2" not in text


def test_an_outline_and_a_grid_that_were_read_are_not_told_exactly() -> None:
    """The ring of a footprint is rounded; a grid places every pixel, so it is left out."""
    header = {
        "format": "grib2",
        "bbox": [-95.235, 38.971, -94.235, 39.971],
        "footprint": [[-95.235, 38.971], [-94.235, 38.971], [-94.235, 39.971]],
        "grid": {"kind": "lambert", "origin": [38.5, -97.5], "x": [-2697520.1, 2696479.8]},
    }
    evidence = {"etag": "e", "header": header, "size": 1}
    shown = evidence_as_told(evidence, Telling(refusal=None, degrees=0.1))
    assert shown["header"] == {
        "format": "grib2",
        "bbox": [-95.2, 39.0, -94.2, 40.0],
        "footprint": [[-95.2, 39.0], [-94.2, 39.0], [-94.2, 40.0]],
    }
    assert evidence_as_told(evidence, Telling(refusal=None, degrees=0.0)) == evidence
    assert evidence_as_told(evidence, Telling(refusal="no longer", degrees=0.0)) is None


@pytest.mark.parametrize(
    ("pointer", "value", "shown"),
    [
        ("/bbox/1", "38.971", "39.0"),
        ("/geometry/coordinates/0", "[[-95.235,38.971],[-94.235,3…", "[[-95.2,39.0],[-94.2,3…"),
        ("/geometry", '{"coordinates":[-95.235,38.971],"type":"Point"}',
         '{"coordinates":[-95.2,39.0],"type":"Point"}'),
        ("/properties/site:latitude", "38.971", "39.0"),
        ("/properties/track/lats/3", "38.971", "39.0"),
        ("/properties/lon", "[-95.235,null,-94.235]", "[-95.2,null,-94.2]"),
        ("/properties/proj:transform/2", "-2697520.1", '"withheld"'),
        ("/properties/site", '{"geohash":"9yzey","lat":38.971}', '{"lat":39.0}'),
        ("/assets/data/href", '"s3://b/38.971,-95.235.nc"', '"s3://b/39.0,-95.2.nc"'),
        ("/properties/gsd", "2000.125", "2000.125"),
        ("/properties/datetime", None, None),
    ],
)  # fmt: skip
def test_a_field_by_itself_is_told_no_more_exactly(
    pointer: str, value: str | None, shown: str | None
) -> None:
    """By its way and by its value, as a comparison of two documents has it."""
    assert field_as_told(pointer, value, Telling(refusal=None, degrees=0.1)) == shown
    assert field_as_told(pointer, value, Telling(refusal=None, degrees=0.0)) == value
    hidden = None if value is None else '"withheld"'
    assert field_as_told(pointer, value, Telling(refusal="no longer", degrees=0.0)) == hidden
