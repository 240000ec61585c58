"""Boxes around grids, as ecCodes finds them by computing every point."""

from __future__ import annotations

from typing import Any

import eccodes
import pytest

from tallgrass.datasets.definition import FileFormat
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


def projected(kind: str, **keys: int) -> bytes:
    """Return a message on a small grid of another kind."""
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(message, "gridType", kind)
    values = {"shapeOfTheEarth": 6, "Nx": 20, "Ny": 15, "scanningMode": 64, **keys}
    for name, value in values.items():
        eccodes.codes_set(message, name, value)
    eccodes.codes_set_values(message, [float(number) for number in range(300)])
    data = bytes(eccodes.codes_get_message(message))
    eccodes.codes_release(message)
    return data


POLAR = {
    "latitudeOfFirstGridPoint": 41_612_949,
    "longitudeOfFirstGridPoint": 185_117_126,
    "LaD": 60_000_000,
    "orientationOfTheGrid": 225_000_000,
    "DxInMetres": 150_000,
    "DyInMetres": 150_000,
}


def test_a_grid_across_the_antimeridian_has_its_west_in_the_east() -> None:
    """A polar grid over Alaska begins in the eastern hemisphere."""
    data = projected("polar_stereographic", **POLAR)
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
    keys = {
        **POLAR,
        "latitudeOfFirstGridPoint": 70_000_000,
        "longitudeOfFirstGridPoint": 180_000_000,
    }
    keys |= {"orientationOfTheGrid": 225_000_000, "DxInMetres": 300_000, "DyInMetres": 300_000}
    data = projected("polar_stereographic", **keys)
    assert max(points(data)[0]) > 85
    box = box_of(data)
    assert (box[0], box[2], box[3]) == (-180.0, 180.0, 90.0)
    assert box[1] == pytest.approx(min(points(data)[0]), abs=0.5)


def test_a_southern_cone_lies_in_the_south() -> None:
    """A Lambert grid of the southern hemisphere lies where ecCodes says."""
    keys = {
        "latitudeOfFirstGridPoint": -45_000_000,
        "longitudeOfFirstGridPoint": 130_000_000,
        "LaD": -35_000_000,
        "LoV": 135_000_000,
        "Latin1": -30_000_000,
        "Latin2": -40_000_000,
        "DxInMetres": 50_000,
        "DyInMetres": 50_000,
        "projectionCentreFlag": 128,
    }
    data = projected("lambert", **keys)
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
    header, issues = read(GRID, content("rap/rap.tsoil.gdt32769.grib2"))
    assert ("bbox" in header, issues) == (False, ())
