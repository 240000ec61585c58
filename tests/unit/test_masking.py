from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.governance.masking import MaskingPolicy, ProtectedArea, Tier, mask

AREA = ProtectedArea(name="site", west=-95.3, south=38.9, east=-95.1, north=39.05, tier=Tier.MEDIUM)
#: Lies where the first one's places may be moved to, and allows less.
STRICT = ProtectedArea(
    name="inner", west=-95.201, south=38.999, east=-95.199, north=39.001, tier=Tier.EXTREME
)
PACIFIC = ProtectedArea(
    name="atoll", west=179.5, south=-1.0, east=-179.5, north=1.0, tier=Tier.HIGH
)
POLICY = MaskingPolicy(areas=(AREA, STRICT, PACIFIC))

inside = st.tuples(
    st.floats(AREA.west, AREA.east, allow_nan=False),
    st.floats(AREA.south, AREA.north, allow_nan=False),
)
anywhere = st.tuples(st.floats(-180, 180, allow_nan=False), st.floats(-90, 90, allow_nan=False))


def forms(longitude: float, latitude: float) -> dict[str, Any]:
    """Return a document that tells one place in every way that is known."""
    east, north = ("E" if longitude >= 0 else "W"), ("N" if latitude >= 0 else "S")
    x, y = f"{longitude:.6f}", f"{latitude:.6f}"
    compass = f"{north}{abs(latitude):.6f}{east}{abs(longitude):010.6f}"
    return {
        "geometry": {"type": "Point", "coordinates": [longitude, latitude, 12.3456]},
        "lines": {"type": "MultiLineString", "coordinates": [[[longitude, latitude], [0, 0]]]},
        "bbox": [longitude, latitude, longitude, latitude],
        "properties": {"lat": latitude, "site_longitude": longitude, "centroid": [x, y]},
        "track": {"lats": [0.5, latitude, 1.5], "lons": [0.5, longitude, 1.5]},
        "assets": {
            "data": {"href": f"https://x.example/s?lat={y}&lon={x}", "roles": [y + "," + x]}
        },
        "id": f"site_{y}_{x}_v1",
        "wkt": f"POINT({x} {y})",
        "compass": compass,
        "h3": "8526a96bfffffff",
        "proj:bbox": [500000.123, 4300000.456],
    }


def numbers(value: Any) -> list[str]:
    """Return every number with a point that a document holds, as it is written."""
    if isinstance(value, dict):
        return [each for item in value.values() for each in numbers(item)]
    if isinstance(value, list | tuple):
        return [each for item in value for each in numbers(item)]
    if isinstance(value, float):
        return [repr(value)]
    return re.findall(r"\d+\.\d+", value) if isinstance(value, str) else []


def decimals(document: Any) -> int:
    """Return the most decimals of a number in a document, zeros at the end not counted."""
    found = [Decimal(each).normalize().as_tuple().exponent for each in numbers(document)]
    return max((-int(each) for each in found), default=0)


@pytest.mark.conformance("OB-6.1")
@given(inside)
def test_a_protected_place_is_never_told_exactly(place: tuple[float, float]) -> None:
    """However it is written: two decimals stay, in the strict part none; heights stay."""
    masked = mask(forms(*place), "public", POLICY)
    assert masked.tier is not None
    document = dict(masked.document)
    assert document["geometry"]["coordinates"].pop() == 12.3456
    assert decimals(document) <= masked.tier.value <= Tier.MEDIUM
    assert "h3" not in document
    assert "proj:bbox" not in document


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize("form", sorted(set(forms(0, 0)) - {"h3", "proj:bbox"}))
@given(place=inside)
def test_each_way_of_telling_it_is_found(form: str, place: tuple[float, float]) -> None:
    """Alone in its document, each form is found in the area and made coarse."""
    alone = {form: forms(*place)[form]}
    masked = mask(alone, "public", MaskingPolicy(areas=(AREA,)))
    document = dict(masked.document)
    if form == "geometry":
        document = {form: {"coordinates": document[form]["coordinates"][:2]}}
    assert decimals(document) <= Tier.MEDIUM


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize("label", ["public", "restricted"])
@pytest.mark.parametrize(
    "name",
    [
        "coords", "coord", "loc", "latlon", "lnglat", "latlng", "lonlat", "track", "path", "center",
        "Location", "points", "waypoints",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "form",
    [
        lambda x, y: [x, y],
        lambda x, y: [y, x],
        lambda x, y: [[x, y], [10.5, 20.5]],
        lambda x, y: [[[10.5, 20.5, 3.5], [y, x, 3.5]]],
        lambda x, y: {"x": x, "y": y},
        lambda x, y: [{"x": x, "y": y}, {"x": 10.5, "y": 20.5}],
        lambda x, y: [[10.5, 20.5], {"x": x, "y": y}],
        lambda x, y: [str(y), str(x)],
    ],
    ids=["lon-lat", "lat-lon", "line", "lines", "xy", "line of xy", "mixed", "texts"],
)
def test_points_are_found_by_their_names(form: Any, name: str, label: str) -> None:
    """In either order, in lines of them, as objects; a far neighbour hides nothing."""
    # Either number could be the latitude.
    site = ProtectedArea(
        name="site", west=-85.3, south=38.9, east=-85.1, north=39.05, tier=Tier.HIGH
    )
    document = {"properties": {name: form(-85.23531, 38.97172)}}
    masked = mask(document, label, MaskingPolicy(areas=(site,)))
    assert masked.tier is (Tier.HIGH if label == "public" else Tier.EXTREME)
    assert decimals(masked.document) <= 1


@pytest.mark.conformance("OB-6.1")
@pytest.mark.parametrize("label", ["public", "restricted"])
@pytest.mark.parametrize(
    ("latitudes", "longitudes"),
    [("lat", "lon"), ("latitude", "longitude"), ("lats", "lons"), ("site_lats", "Longitudes")],
)
@pytest.mark.parametrize(
    "form",
    [
        lambda x, y: ([y], [x]),
        lambda x, y: ([0.5, y], [0.5, x]),
        lambda x, y: ([0.5, y, 1.5], [0.5, x, 1.5]),
        lambda x, y: ([None, 0.5, y, 1.5], [0.5, None, x, None]),
        lambda x, y: ([[0.5, 1.5], [y, 2.5]], [[0.5, 1.5], [x, 2.5]]),
        lambda x, y: ([str(y), "0.5", "1.5"], [str(x), "0.5", "1.5"]),
        lambda x, y: (y, [0.5, x, 1.5]),
        lambda x, y: ([y, 0.5], [0.5, 1.5, x]),
        lambda x, y: ([0.5, y], [x, 0.5]),
    ],
    ids=[
        "one", "two", "several", "some missing", "a table", "texts", "a parallel", "a grid",
        "the ends of ranges",
    ],
)  # fmt: skip
def test_lists_of_latitudes_and_longitudes_are_places(
    form: Any, latitudes: str, longitudes: str, label: str
) -> None:
    """One of many in the area makes all coarse, however the lists are named and formed."""
    y, x = form(-95.23531, 38.97172)
    masked = mask({"obs": {latitudes: y, longitudes: x}}, label, MaskingPolicy(areas=(AREA,)))
    assert masked.tier is (Tier.MEDIUM if label == "public" else Tier.EXTREME)
    assert decimals(masked.document) <= masked.tier


def test_long_lists_are_taken_side_by_side() -> None:
    """A track that passes the area's latitude and, elsewhere, its longitude does not touch it."""
    track = {"lat": [38.97172, 10.12345, 20.12345], "lon": [-10.12345, -95.23531, -20.12345]}
    assert mask(track, "public", MaskingPolicy(areas=(AREA,))).tier is None


def test_a_large_grid_is_not_written_out() -> None:
    """A hundred million nodes are looked through by their axes, and one that is told is found."""
    grid = {
        "lats": [number / 1000 for number in range(10_000)] + [38.97172],
        "lons": [-number / 1000 for number in range(10_000)],
    }
    assert mask(grid, "public", MaskingPolicy(areas=(AREA,))).tier is None
    grid["lons"] += [-95.23531, 0.0]
    masked = mask(grid, "public", MaskingPolicy(areas=(AREA,)))
    assert masked.document["lats"][-1] == 38.97


def test_what_stands_among_places_is_left_as_it_is() -> None:
    """A path of a file or of names is no place; texts between places stay."""
    document: dict[str, Any] = {
        "path": "a/b.txt",
        "track": ["a", [-95.23531, 38.97172], None],
        "center": {"x": 500000.25, "y": 4300000.75},
        "origin": {"x": 1.23456, "y": 2.34567},
    }
    assert mask(document, "restricted", MaskingPolicy()).document == {
        **document,
        "track": ["a", [-95.0, 39.0], None],
    }


@pytest.mark.conformance("OB-6.1")
@given(anywhere, st.sampled_from(["public", "sensitive", "restricted"]))
def test_masking_again_changes_nothing(place: tuple[float, float], label: str) -> None:
    """It is no chance: the same place gives the same cell, and a cell stays."""
    once = mask(forms(*place), label, POLICY)
    assert mask(forms(*place), label, POLICY) == once
    again = mask(once.document, label, POLICY)
    assert again.document == once.document


@pytest.mark.parametrize(
    ("label", "tier"), [("public", None), ("sensitive", Tier.HIGH), ("restricted", Tier.EXTREME)]
)
def test_labels_have_their_tier(label: str, tier: Tier | None) -> None:
    """Public places are exact, sensitive ones to 0.1°, restricted ones to 1°."""
    document = forms(-97.123456, 38.123456)
    masked = mask(document, label, MaskingPolicy())
    assert masked.tier == tier
    exact = {"geometry": document["geometry"]["coordinates"], "id": document["id"]}
    told = {"geometry": masked.document["geometry"]["coordinates"], "id": masked.document["id"]}
    assert told == {
        None: exact,
        Tier.HIGH: {"geometry": [-97.1, 38.1, 12.3456], "id": "site_38.1_-97.1_v1"},
        Tier.EXTREME: {"geometry": [-97.0, 38.0, 12.3456], "id": "site_38_-97_v1"},
    }.get(tier)
    assert mask(document, label, MaskingPolicy(labels=())).document is document


def test_a_wide_extent_tells_nothing() -> None:
    """A satellite's view with an area in it stays; a small box around the area does not."""
    wide = {"bbox": [-141.56, -66.56, -8.44, 66.56]}
    assert mask(wide, "public", POLICY).tier is None
    tiny = ProtectedArea(
        name="tree", west=-100.00001, south=40.0, east=-100.0, north=40.00001, tier=Tier.HIGH
    )
    around = {"bbox": [-100.0123, 39.9877, -99.9877, 40.0123]}
    masked = mask(around, "public", MaskingPolicy(areas=(tiny,)))
    assert masked.document == {"bbox": [-100.0, 40.0, -100.0, 40.0]}


def test_an_area_across_the_date_line() -> None:
    """Both sides of 180° lie in it."""
    for longitude in (179.87654, -179.87654):
        masked = mask({"lon": longitude, "lat": 0.12345}, "public", POLICY)
        assert masked.tier is Tier.HIGH
    assert mask({"lon": 0.12345, "lat": 0.12345}, "public", POLICY).tier is None


@pytest.mark.parametrize(
    "document",
    [
        {"lat": 38.971669, "lon": 264.764751},
        {"geometry": {"type": "Point", "coordinates": [264.764751, 38.971669]}},
        {"id": "site_38.971669_264.764751"},
        {"centroid": {"x": 264.764751, "y": 38.971669}},
    ],
)
def test_longitudes_that_are_counted_to_360_are_the_same_places(document: dict[str, Any]) -> None:
    """264.764751 is 95.235249 west, which lies in the site."""
    made = mask(document, "public", POLICY)
    assert made.tier is Tier.MEDIUM
    assert "38.9716" not in str(made.document)
    assert "264.7647" not in str(made.document)


@pytest.mark.parametrize(
    ("west", "east", "tier"),
    [(179.96, -179.96, Tier.HIGH), (179.96, 180.04, Tier.HIGH), (179.9, -179.9, None)],
)
def test_a_small_extent_across_the_date_line(west: float, east: float, tier: Tier | None) -> None:
    """A box of less than a cell around a still smaller area tells where that is."""
    reef = ProtectedArea(
        name="reef", west=179.99, south=-0.01, east=-179.99, north=0.01, tier=Tier.HIGH
    )
    made = mask({"bbox": [west, -0.04, east, 0.04]}, "public", MaskingPolicy(areas=(reef,)))
    assert made.tier is tier


def test_neighbours_are_as_coarse() -> None:
    """One protected place makes the others of its document coarse: they would give it away."""
    document = {"sites": [{"lat": 38.97172, "lon": -95.23531}, {"lat": 41.98765, "lon": -99.12345}]}
    assert mask(document, "public", MaskingPolicy(areas=(AREA,))).document == {
        "sites": [{"lat": 38.97, "lon": -95.24}, {"lat": 41.99, "lon": -99.12}]
    }


def test_other_numbers_stay() -> None:
    """Versions, amounts and heights are no places."""
    document = {"lat": 38.97172, "lon": -95.23531, "v": "v10.3.1", "rows": 1.23456, "n": "1.5 of 2"}
    masked = mask(document, "restricted", MaskingPolicy())
    assert masked.document == {**document, "lat": 39.0, "lon": -95.0}


def test_no_sign_is_left_of_zero() -> None:
    """Which side of the equator a place lies on is not told by the sign of a zero."""
    masked = mask({"lat": -0.04, "lon": 0.04}, "sensitive", MaskingPolicy())
    assert repr(masked.document["lat"]) == "0.0"
