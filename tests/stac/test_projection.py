"""The projection of grids: PROJ puts their corners where ecCodes does, and the text is sound."""

from __future__ import annotations

from functools import cache
from typing import Any

import eccodes
import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.stac.projection import projection_properties
from tests.evidence import made_grids
from tests.evidence.real_files import content
from tests.evidence.samples import grib2, read_near
from tests.support import proj

REAL = (
    "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
    "nbm/blend.t00z.core.f001.tmp.co.grib2",
    "ndfd/ds.temp.bin",
    "ndfd/ds.mint.bin",
    "mrms/CONUS/MRMS_EchoTop_18_00.50_20161015-133230.grib2",
    "gfs/gfswave.t18z.atlocn.0p16.f001.grib2",
)


def first_message(data: bytes) -> bytes:
    """Return the first message of a file, without headings."""
    start = data.index(b"GRIB")
    return data[start : start + int.from_bytes(data[start + 8 : start + 16], "big")]


def told(data: bytes) -> dict[str, Any]:
    """Return the properties of the grid of a file."""
    grid: Any = read_near(FileFormat.GRIB2_GRID, data)[0]["grid"]
    return projection_properties(grid)


def corners_of_cells(properties: dict[str, Any]) -> list[tuple[float, float]]:
    """Return x and y of the centres of the outermost cells, by shape and transform alone."""
    rows, columns = properties["proj:shape"]
    across, _, left, _, down, top = properties["proj:transform"]
    return [
        (left + (column + 0.5) * across, top + (row + 0.5) * down)
        for row in (0, rows - 1)
        for column in (0, columns - 1)
    ]


def corners_of_points(data: bytes) -> list[tuple[float, float]]:
    """Return the same four points by ecCodes: longitude and latitude, north first, west first."""
    message = eccodes.codes_new_from_message(first_message(data))
    nx, ny, mode = (eccodes.codes_get(message, key) for key in ("Nx", "Ny", "scanningMode"))
    latitudes, longitudes = (
        eccodes.codes_get_array(message, name) for name in ("latitudes", "longitudes")
    )
    eccodes.codes_release(message)
    assert mode & 0x80 == 0
    rows = (ny - 1, 0) if mode & 0x40 else (0, ny - 1)
    # ecCodes orders the points of a row by itself where rows alternate.
    found = []
    for row in rows:
        ends = [row * nx, row * nx + nx - 1]
        if mode & 0x10 and row % 2 and longitudes[ends[0]] > longitudes[ends[1]]:
            ends.reverse()
        found += [(float(longitudes[at]), float(latitudes[at])) for at in ends]
    return found


def apart(one: tuple[float, float], two: tuple[float, float]) -> float:
    """Return by how many degrees two places differ; 180 and -180 are the same."""
    return max(abs((one[0] - two[0] + 180) % 360 - 180), abs(one[1] - two[1]))


@pytest.mark.parametrize("name", REAL)
def test_a_real_grid_lies_where_eccodes_says(name: str) -> None:
    """Shape, transform and text of a real grid put its corners where ecCodes does."""
    data = content(name)
    properties = told(data)
    (answer,) = proj.asked([(properties["proj:wkt2"], corners_of_cells(properties))])
    for found, expected in zip(answer["places"], corners_of_points(data), strict=True):
        assert apart(found, expected) < 1e-4


@cache
def made() -> dict[str, tuple[bytes, dict[str, Any], Any]]:
    """Return small grids of each kind with their properties and PROJ's answers."""
    files = made_grids.files()
    properties = {name: told(data) for name, data in files.items()}
    answers = proj.asked([(p["proj:wkt2"], corners_of_cells(p)) for p in properties.values()])
    return {
        name: (files[name], properties[name], answer)
        for name, answer in zip(files, answers, strict=True)
    }


@pytest.mark.parametrize("name", made_grids.NAMES)
def test_a_grid_of_any_kind_lies_where_eccodes_says(name: str) -> None:
    """The same holds for grids in the south, around a pole and across the antimeridian."""
    data, properties, answer = made()[name]
    assert properties["proj:code"] is None
    assert answer["axes"][0] == 6371229
    for found, expected in zip(answer["places"], corners_of_points(data), strict=True):
        assert apart(found, expected) < 1e-4


def test_the_hrrr_has_the_numbers_that_everybody_knows() -> None:
    """Shape is height before width; the transform begins at the upper left corner of a cell."""
    found = told(content("hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2"))
    assert found["proj:shape"] == [1059, 1799]
    assert found["proj:transform"] == [3000.0, 0.0, -2699020.1425, 0.0, -3000.0, 1588193.8474]
    # 1799 cells of 3 km to the east, 1059 to the south.
    assert found["proj:bbox"] == [-2699020.1425, -1588806.1526, 2697979.8575, 1588193.8474]
    assert 'METHOD["Lambert Conic Conformal (2SP)"]' in found["proj:wkt2"]
    assert 'ELLIPSOID["unknown",6371229,0,' in found["proj:wkt2"]


def test_the_raps_own_grid_is_a_rotated_globe() -> None:
    """PROJ turns first and last point of its grid to where the file says that they are."""
    found = told(content("rap/rap.tsoil.gdt32769.grib2"))
    assert found["proj:shape"] == [834, 953]
    (answer,) = proj.asked([(found["proj:wkt2"], corners_of_cells(found))])
    # As section 3 has them: the first is in the lower left, the last in the upper right.
    _, last, first, _ = answer["places"]
    assert apart(first, (220.914154, -10.590603)) < 1e-4
    assert apart(last, (22.661009, 46.591976)) < 1e-4


def test_a_global_grid_is_cut_at_the_antimeridian() -> None:
    """Columns from 0 to 359.5 are told as raster libraries show them: all three fields agree."""
    found = told(content("gefs/gec00_20250101_00_soilw.grib"))
    assert found["proj:shape"] == [361, 720]
    assert found["proj:transform"] == [0.5, 0.0, -180.25, 0.0, -0.5, 90.25]
    # 720 columns and 361 rows of half a degree from there.
    assert found["proj:bbox"] == [-180.25, -90.25, 179.75, 90.25]


def test_a_grid_of_degrees_across_the_antimeridian_has_its_west_in_the_east() -> None:
    """The box in degrees keeps to the map, as that of the item does."""
    found = told(made_grids.latlon(170.0, 200.0))
    assert found["proj:bbox"] == [169.0, -1.0, -159.0, 31.0]
    assert found["proj:transform"] == [2.0, 0.0, 169.0, 0.0, -2.0, 31.0]


def test_degrees_on_wgs84_have_a_code() -> None:
    """The one Earth with a code for plain degrees is told by it, and by no text."""
    found = told(made_grids.latlon(10.0, 40.0, shapeOfTheEarth=5))
    assert found["proj:code"] == "EPSG:4326"
    assert "proj:wkt2" not in found


def test_metres_of_an_ellipsoid_are_not_told() -> None:
    """A cone that was computed on a sphere says nothing of one on an ellipsoid, but its shape."""
    found = told(made_grids.lambert(shapeOfTheEarth=5))
    assert found == {"proj:code": None, "proj:shape": [15, 20]}


def test_rows_of_a_gaussian_grid_are_not_evenly_apart() -> None:
    """Such a grid has a box and a shape, and no transform."""
    found = told(made_grids.gaussian())
    assert found["proj:shape"] == [64, 128]
    assert "proj:transform" not in found
    assert found["proj:bbox"][0::2] == [-180.0, 180.0]


def test_a_grid_of_an_unknown_kind_has_no_projection() -> None:
    """Of a kind that is not known nothing is claimed."""
    header, _ = read_near(FileFormat.GRIB2, grib2())
    grid: Any = header["grid"]
    assert projection_properties({**grid, "kind": "a new one"}) == {}
    assert projection_properties(grid) == {}
