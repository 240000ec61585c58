"""What a geostationary imager sees, with PROJ as the second opinion."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallgrass.stac.footprint import POINTS_MAX, footprint_of
from tallgrass.stac.geostationary import outline_of, view_of
from tallgrass.stac.projection import projection_properties
from tests.stac.satellite_files import SECTORS, STEP
from tests.support.proj import on_plane

HEIGHT = 35786023.0


def grid(sector: tuple[int, int, float, float], longitude: float = -75.0, **changes: Any) -> Any:
    """Return the parameters of a fixed grid, as evidence has them."""
    rows, columns, left, top = sector
    return {
        "kind": "geostationary",
        "longitude": longitude,
        "height": HEIGHT,
        "semi_major": 6378137.0,
        "semi_minor": 6356752.31414,
        "sweep": "x",
        "shape": [rows, columns],
        "x": [left, left + (columns - 1) * STEP],
        "y": [top, top - (rows - 1) * STEP],
        **changes,
    }


def test_the_full_disk_ends_at_the_limb() -> None:
    """Its box is the published one of the eastern satellites: 156.2995 W to 6.2995 E, 81.3282 N."""
    seen = view_of(grid(SECTORS["F"]))
    assert seen is not None
    assert seen.box == (-156.2995, -81.3282, 6.2995, 81.3282)
    assert seen.geometry["type"] == "Polygon"
    coordinates: Any = seen.geometry["coordinates"]
    # The limb is 81.3 degrees away from the point below the satellite, in all directions.
    for lon, lat in coordinates[0]:
        away = math.acos(math.cos(math.radians(lat)) * math.cos(math.radians(lon + 75)))
        assert math.degrees(away) == pytest.approx(81.31, abs=0.08)


def test_the_full_disk_of_the_west_crosses_the_antimeridian() -> None:
    """Two polygons; west of the box is greater than its east."""
    seen = view_of(grid(SECTORS["F"], longitude=-137.0))
    assert seen is not None
    assert seen.geometry["type"] == "MultiPolygon"
    assert seen.box == (141.7005, -81.3282, -55.7005, 81.3282)


@pytest.mark.parametrize(
    ("sector", "longitude", "box"),
    [
        # What such files say of their own extent, which ends with the last pixel on Earth.
        ("C", -75.0, (-152.11, 14.57, -52.95, 56.76)),
        ("C of the west", -137.0, (175.62, 14.57, -89.62, 53.5)),
    ],
)
def test_contiguous_states_are_what_files_say_of_them(
    sector: str, longitude: float, box: tuple[float, ...]
) -> None:
    """The corner that looks past the Earth is cut off along the limb."""
    seen = view_of(grid(SECTORS[sector], longitude=longitude))
    assert seen is not None
    assert seen.box == pytest.approx(box, abs=0.08)


@pytest.mark.parametrize("sweep", ["x", "y"])
@pytest.mark.parametrize("longitude", [-75.0, -137.0, 140.7, 0.0])
def test_an_outline_lies_on_the_edge_of_its_image(sweep: str, longitude: float) -> None:
    """PROJ, given the item's own projection, puts each of its points onto the edge or the limb."""
    sector = (1000, 1000, -0.02, 0.125)
    made = grid(sector, longitude=longitude, sweep=sweep)
    west, south, east, north = (
        float(v)
        for v in projection_properties(made)["proj:bbox"]  # type: ignore[attr-defined]
    )
    ring = outline_of(made)
    assert ring is not None
    wkt = str(projection_properties(made)["proj:wkt2"])
    for x, y in on_plane(wkt, [(lon, lat) for lon, lat in ring]):
        # Four digits of a degree are 11 m on the ground; near the limb it is seen aslant.
        assert min(abs(x - west), abs(x - east), abs(y - south), abs(y - north)) < 12
        assert west - 12 <= x <= east + 12
        assert south - 12 <= y <= north + 12


def test_transform_and_box_of_a_projection_are_those_of_a_published_item() -> None:
    """A mesoscale sector: a pixel is 2004.0173 m; the transform begins at its outer corner."""
    made = projection_properties(grid((500, 500, -0.071652, 0.106372)))
    pixel = STEP * HEIGHT
    assert made["proj:transform"] == pytest.approx(
        [pixel, 0, -0.07168 * HEIGHT, 0, -pixel, 0.1064 * HEIGHT], abs=0.01
    )
    assert made["proj:bbox"] == pytest.approx(
        [-0.07168 * HEIGHT, 0.0784 * HEIGHT, -0.04368 * HEIGHT, 0.1064 * HEIGHT], abs=0.01
    )
    assert (made["proj:shape"], made["proj:code"]) == ([500, 500], None)


def test_a_sector_at_the_limb_is_cut_there() -> None:
    """A movable sector may look past the Earth with its middle."""
    ring = outline_of(grid((500, 500, 0.14, 0.05)))
    assert ring is not None
    assert len(ring) <= POINTS_MAX
    assert max(x for x, _ in ring) == pytest.approx(6.21, abs=0.02)


def test_a_sector_of_space_has_no_outline() -> None:
    """Nothing of the Earth is in it."""
    made = grid((500, 500, 0.16, 0.19))
    assert outline_of(made) is None
    assert view_of(made) is None


def test_an_outline_is_a_footprint_as_it_stands() -> None:
    """It has at most as many points as a footprint may."""
    for sector in SECTORS.values():
        ring = outline_of(grid(sector))
        assert ring is not None
        assert len(ring) <= POINTS_MAX
        assert footprint_of(ring) == view_of(grid(sector))
