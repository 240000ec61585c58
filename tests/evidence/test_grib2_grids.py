"""Boxes around grids, as ecCodes finds them by computing every point."""

from __future__ import annotations

import json
import math
from typing import Any

import eccodes
import pytest

from tallgrass.datasets.definition import FileFormat
from tests.evidence import made_grids
from tests.evidence.real_files import content
from tests.evidence.samples import grib2, read

GRID = FileFormat.GRIB2_GRID


def points(data: bytes) -> tuple[Any, Any]:
    """Return latitudes and longitudes of the points that ecCodes computes, -180 to 180."""
    message = eccodes.codes_new_from_message(data)
    latitudes, longitudes = (
        eccodes.codes_get_array(message, name) for name in ("latitudes", "longitudes")
    )
    eccodes.codes_release(message)
    return latitudes, (longitudes + 180) % 360 - 180


REAL = (
    "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
    "nbm/blend.t00z.core.f001.tmp.co.grib2",
    "ndfd/ds.temp.bin",
    "ndfd/ds.mint.bin",
    "mrms/CONUS/MRMS_EchoTop_18_00.50_20161015-133230.grib2",
    "gfs/gfswave.t18z.atlocn.0p16.f001.grib2",
)


@pytest.mark.parametrize("name", REAL)
def test_the_box_of_a_real_grid_is_that_of_its_points(name: str) -> None:
    """Lambert, Mercator and plain grids lie where ecCodes says, to some hundredths of a degree."""
    data = content(name)
    start = data.index(b"GRIB")
    length = int.from_bytes(data[start + 8 : start + 16], "big")
    latitudes, longitudes = points(data[start : start + length])
    expected = [longitudes.min(), latitudes.min(), longitudes.max(), latitudes.max()]
    assert read(GRID, data)[0]["bbox"] == pytest.approx(expected, abs=0.02)


def box_of(data: bytes) -> list[float]:
    """Return the box that is told."""
    box = read(GRID, data)[0]["bbox"]
    assert isinstance(box, list)
    return box


def test_a_grid_across_the_antimeridian_has_its_west_in_the_east() -> None:
    """A polar grid over Alaska begins in the eastern hemisphere."""
    data = made_grids.polar()
    latitudes, longitudes = points(data)
    assert max(longitudes) > 179
    expected = [
        min(value for value in longitudes if value > 0),
        min(latitudes),
        max(value for value in longitudes if value < 0),
        max(latitudes),
    ]
    found = box_of(data)
    assert found == pytest.approx(expected, abs=0.6)
    # The edge between two points of so coarse a grid lies farther out than they do.
    assert found[0] <= expected[0] + 0.01
    assert found[3] >= expected[3] - 0.01


def test_a_grid_around_the_pole_holds_it() -> None:
    """A grid with the pole in it reaches it, and goes around."""
    data = made_grids.around_the_pole()
    assert max(points(data)[0]) > 85
    box = box_of(data)
    assert (box[0], box[2], box[3]) == (-180.0, 180.0, 90.0)
    assert box[1] == pytest.approx(min(points(data)[0]), abs=0.5)


def test_a_southern_cone_lies_in_the_south() -> None:
    """A Lambert grid of the southern hemisphere lies where ecCodes says."""
    data = made_grids.lambert()
    latitudes, longitudes = points(data)
    expected = [longitudes.min(), latitudes.min(), longitudes.max(), latitudes.max()]
    assert read(GRID, data)[0]["bbox"] == pytest.approx(expected, abs=0.1)


def test_a_grid_around_the_world_goes_around() -> None:
    """A global grid whose last column is one step short of its first goes all around."""
    data = grib2(
        Ni=36,
        iDirectionIncrement=10_000_000,
        longitudeOfFirstGridPoint=0,
        longitudeOfLastGridPoint=350_000_000,
        latitudeOfFirstGridPoint=90_000_000,
        latitudeOfLastGridPoint=-90_000_000,
    )
    assert read(GRID, data)[0]["bbox"] == [-180.0, -90.0, 180.0, 90.0]


def test_a_grid_of_another_kind_has_no_box() -> None:
    """Where the kind of grid is not known nothing is claimed."""
    data = bytearray(made_grids.lambert())
    at = data.index(b"\x00\x00\x00\x51\x03")  # Section 3, of 81 bytes.
    data[at + 12 : at + 14] = (32768).to_bytes(2, "big")
    header, issues = read(GRID, bytes(data))
    assert ("bbox" in header, "footprint" in header, issues) == (False, False, ())
    assert header["grid"] == {"template": 32768, "points": 300}


def test_the_raps_own_grid_reaches_over_the_pole() -> None:
    """Its first point is its southernmost; the pole lies in it, so that it goes around."""
    header, issues = read(GRID, content("rap/rap.tsoil.gdt32769.grib2"))
    assert (header["bbox"], issues) == ([-180.0, -10.5906, 180.0, 90.0], ())
    ring = ring_of(header)
    # First and last point as section 3 has them.
    assert [-139.0858, -10.5906] in ring
    assert any(abs(x - 22.661) < 1e-3 and abs(y - 46.592) < 1e-3 for x, y in ring)


# --- footprints -----------------------------------------------------------------------------------


def ring_of(header: dict[str, object]) -> list[list[float]]:
    """Return the footprint that is told."""
    ring = header["footprint"]
    assert isinstance(ring, list)
    return ring


def edge_of(data: bytes) -> list[tuple[float, float]]:
    """Return the outermost points of a grid, as ecCodes finds them, one behind the other."""
    message = eccodes.codes_new_from_message(data)
    nx, ny = (eccodes.codes_get(message, key) for key in ("Nx", "Ny"))
    eccodes.codes_release(message)
    latitudes, longitudes = (each.reshape(ny, nx) for each in points(data))
    sides = [
        (slice(0, 1), slice(None)),
        (slice(None), slice(nx - 1, nx)),
        (slice(ny - 1, ny), slice(None)),
        (slice(None), slice(0, 1)),
    ]
    return [
        (float(x), float(y))
        for side in sides
        for x, y in zip(longitudes[side].ravel(), latitudes[side].ravel(), strict=True)
    ]


def distance(place: tuple[float, float], ring: list[list[float]]) -> float:
    """Return how far, in degrees, a place lies from the nearest edge of a ring."""
    return min(
        to_line(place, (one[0], one[1]), (two[0], two[1]))
        for one, two in zip(ring, ring[1:] + ring[:1], strict=True)
    )


def to_line(
    place: tuple[float, float], one: tuple[float, float], two: tuple[float, float]
) -> float:
    """Return how far a place lies from a piece of a line; longitudes may jump by 360."""

    def turned(x: float) -> float:
        return (x - one[0] + 180) % 360 - 180

    across, up = turned(two[0]), two[1] - one[1]
    x, y = turned(place[0]), place[1] - one[1]
    length = across * across + up * up
    part = 0.0 if not length else max(0.0, min(1.0, (x * across + y * up) / length))
    return math.hypot(x - part * across, y - part * up)


CURVED_REAL = (
    "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
    "nbm/blend.t00z.core.f001.tmp.co.grib2",
    "ndfd/ds.temp.bin",
)


@pytest.mark.parametrize("name", CURVED_REAL)
def test_the_footprint_of_a_real_grid_follows_its_edge(name: str) -> None:
    """Every hundredth point of the edge lies within 0.06 degrees of a ring of at most 64 points."""
    data = content(name)
    ring = ring_of(read(GRID, data)[0])
    assert len(ring) <= 64
    start = data.index(b"GRIB")
    length = int.from_bytes(data[start + 8 : start + 16], "big")
    edge = edge_of(data[start : start + length])
    assert max(distance(place, ring) for place in edge[::100]) < 0.06


@pytest.mark.parametrize("name", ["polar", "southern polar", "lambert", "rotated"])
def test_the_footprint_of_any_kind_follows_its_edge(name: str) -> None:
    """So it is for grids across the antimeridian and in the south."""
    data = made_grids.files()[name]
    ring = ring_of(read(GRID, data)[0])
    assert max(distance(place, ring) for place in edge_of(data)) < 0.06


def test_the_footprint_around_a_pole_goes_once_around() -> None:
    """Its longitudes turn by 360 degrees."""
    data = made_grids.around_the_pole()
    ring = ring_of(read(GRID, data)[0])
    steps = [
        (two[0] - one[0] + 180) % 360 - 180
        for one, two in zip(ring, ring[1:] + ring[:1], strict=True)
    ]
    assert abs(sum(steps)) == pytest.approx(360)
    assert max(distance(place, ring) for place in edge_of(data)) < 0.3  # degrees are short there


@pytest.mark.parametrize("name", ["gfs/gfswave.t18z.atlocn.0p16.f001.grib2", "ndfd/ds.mint.bin"])
def test_a_grid_whose_box_is_its_outline_has_no_footprint(name: str) -> None:
    """Plain degrees and Mercator's plane need none."""
    header, _ = read(GRID, content(name))
    assert ("bbox" in header, "footprint" in header) == (True, False)


def test_evidence_of_the_largest_grids_is_small() -> None:
    """Grid, box and footprint of a real file take less than two kilobytes of the evidence."""
    header, _ = read(GRID, content("rap/rap.tsoil.gdt32769.grib2"))
    told = {name: header[name] for name in ("grid", "bbox", "footprint")}
    assert len(json.dumps(told)) < 2048
