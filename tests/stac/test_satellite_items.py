"""Items of satellites: where they look, with what, and what published items of them get wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from shapely.geometry import Point, shape

from tallgrass.bootstrap.schemas import open_validator
from tallgrass.evidence.hdf5_children import Hdf5Children
from tallgrass.ledger.vocabulary import CheckStatus
from tests.datasets.noaa_data import noaa_data
from tests.evidence.real_files import content
from tests.stac import satellite_files, schemas
from tests.stac.real_items import item_of, tried
from tests.stac.satellite_files import SECTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ABI = "OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
ABI_PLACE = f"noaa-goes16/ABI-L2-LSTM/2021/138/17/{ABI}"
GLM = "OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
GLM_PLACE = f"noaa-goes19/GLM-L2-LCFA/2025/097/13/{GLM}"
TAIL = "s20192180130575_e20192180139033_c20192180139080.nc"
SDR = (
    "VIIRS-M1-SDR/2024/12/31/"
    "SVM01_j02_d20241231_t2359100_e0000346_b11111_c20250101002205330501_oebc_ops.h5"
)
JRR = (
    "VIIRS-JRR-CloudMask/2018/04/16/"
    "JRR-CloudMask_v1r1_npp_s201804161754397_e201804161756039_c201804162011060.nc"
)


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return one process that reads attributes."""
    made = Hdf5Children(1)
    yield made
    made.close()


def suspect(folder: Path, place: str, data: bytes, children: Hdf5Children) -> Any:
    """Return the item of an object whose geometry is told to be wrong, which is valid all the same.

    Nothing else is wrong with it.
    """
    trial = tried(folder, place, data, children)
    assert trial.integrity.status is CheckStatus.OK
    assert trial.metadata.status is CheckStatus.SUSPECT
    assert [each.code for each in trial.metadata.issues] == ["invalid_geometry"]
    assert trial.item is not None
    item = json.loads(trial.item)
    verdict = open_validator([schemas.folder() / "stac"]).judge(item)
    assert verdict.is_valid, verdict
    return item


@pytest.fixture
def make(tmp_path: Path, children: Hdf5Children) -> Callable[[str, bytes], Any]:
    """Return what makes the item of an object, which core and all its extensions find valid."""
    validator = open_validator([schemas.folder() / "stac"])

    def made(place: str, data: bytes) -> Any:
        item = item_of(tmp_path, place, data, children)
        verdict = validator.judge(item)
        assert verdict.is_valid, verdict
        geometry = item["geometry"]
        assert geometry is None or shape(geometry).is_valid
        return item

    return made


def yardstick(name: str) -> Any:
    """Return a published item."""
    return json.loads((noaa_data() / "stac-expected" / f"{name}.json").read_text(encoding="utf-8"))


# --- real files, and the published items of them --------------------------------------------------


def test_a_real_image_is_told_in_full(make: Callable[[str, bytes], Any]) -> None:
    """Sector, projection, satellite and mode of a mesoscale image stand in its item."""
    item = make(ABI_PLACE, content(f"goes-abi/{ABI}"))
    told = item["properties"]
    # The box is that of the file's own extent: 109.17702 W, 27.060745 N, 91.45054 W, 39.910835 N.
    assert item["bbox"] == [-109.177, 27.0607, -91.4505, 39.9108]
    assert told["platform"] == "goes-16"
    assert (told["constellation"], told["instruments"]) == ("goes", ["abi"])
    assert told["sat:platform_international_designator"] == "2016-071A"
    assert told["sat:orbit_state"] == "geostationary"
    assert (told["goes:image_type"], told["goes:mesoscale_image_number"]) == ("MESOSCALE", 2)
    assert (told["goes:mode"], told["goes:orbital_slot"]) == ("6", "East")
    assert (told["processing:level"], told["processing:facility"]) == ("L2", "NSOF")
    assert (told["gsd"], told["proj:shape"]) == (2000, [500, 500])


def test_a_real_image_repeats_no_defect_of_its_published_item(
    make: Callable[[str, bytes], Any],
) -> None:
    """Times, names, extensions, corners and the projected box are right where those are not."""
    published = yardstick("generated__goes-abi__LSTM2_G16_s20211381700538")
    theirs, item = published["properties"], make(ABI_PLACE, content(f"goes-abi/{ABI}"))
    ours = item["properties"]
    # One object, one item: not all products of a scan under the name of none of them.
    assert ABI not in published["id"]
    assert item["id"].startswith(ABI)
    # Their end is on the asset alone, and their time is the start.
    assert theirs["datetime"] == "2021-05-18T17:00:53.800000Z"
    assert "end_datetime" not in theirs
    assert ours["start_datetime"] == theirs["datetime"]
    assert ours["end_datetime"] == "2021-05-18T17:00:59.500000Z"
    assert ours["start_datetime"] < ours["datetime"] < ours["end_datetime"]
    # Theirs has hyphens where the extension has underscores, and does not declare it.
    assert "goes:image-type" in theirs
    assert not [name for name in ours if name.startswith("goes:") and "-" in name]
    assert any("/goes/" in each for each in item["stac_extensions"])
    assert not any("/goes/" in each for each in published["stac_extensions"])
    # Theirs puts north before south, and ends at the centres of pixels.
    (_, south, _, north), (_, theirs_1, _, theirs_3) = ours["proj:bbox"], theirs["proj:bbox"]
    assert theirs_1 > theirs_3
    assert south < theirs_3 < theirs_1 < north
    # Both have the same pixels: theirs was computed by PROJ.
    assert ours["proj:transform"] == pytest.approx(theirs["proj:transform"], abs=0.2)
    assert ours["proj:shape"] == theirs["proj:shape"]
    # Their polygon has four corners at the centres of pixels; ours holds them all.
    corners = published["geometry"]["coordinates"][0]
    assert len(corners) == 5
    assert all(shape(item["geometry"]).contains(Point(corner)) for corner in corners)
    assert not any("software" in name for name in ours)


def test_a_real_lightning_file_lies_in_its_own_field_of_view(
    make: Callable[[str, bytes], Any],
) -> None:
    """The published item has that of other years; counts and times are the same."""
    published = yardstick("goes-glm__OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400")
    item = make(GLM_PLACE, content(f"goes-glm/{GLM}"))
    ours, theirs = item["properties"], published["properties"]
    # As h5py reads it here: -139.4 to -11, 57.6 to -57.6.
    assert item["bbox"] == [-139.4, -57.6, -11.0, 57.6]
    assert published["bbox"] == [-141.56, -66.56, -8.44, 66.56]
    same = [name for name in theirs if name.startswith("goes:")]
    assert len(same) == 14
    for name in same:
        number = isinstance(theirs[name], int | float)
        assert ours[name] == (pytest.approx(theirs[name]) if number else theirs[name])
    assert ours["datetime"] == "2025-04-07T13:00:30.000000Z"
    # An instrument is called by its name, not by the number of the one that was built.
    assert (theirs["instruments"], ours["instruments"]) == (["FM4"], ["glm"])
    assert (theirs["platform"], ours["platform"]) == ("GOES-19", "goes-19")


# --- sectors of the imager ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("satellite", "longitude", "scene", "sector", "kind"),
    [
        ("19", -75.2, "F", "F", "Polygon"),
        ("18", -137.0, "F", "F", "MultiPolygon"),
        ("16", -75.0, "C", "C", "Polygon"),
        ("17", -137.0, "C", "C of the west", "MultiPolygon"),
    ],
)
def test_an_image_lies_where_its_grid_does(
    make: Callable[[str, bytes], Any],
    satellite: str,
    longitude: float,
    scene: str,
    sector: str,
    kind: str,
) -> None:
    """The outline on the Earth of the file's own grid; the western satellites cross 180 degrees."""
    name = f"OR_ABI-L2-CMIP{scene}-M6C13_G{satellite}_{TAIL}"
    place = f"noaa-goes{satellite}/ABI-L2-CMIP{scene}/2019/218/01/{name}"
    item = make(place, satellite_files.abi(longitude, SECTORS[sector]))
    assert item["geometry"]["type"] == kind
    west, _, east, _ = item["bbox"]
    assert (west > east) == (kind == "MultiPolygon")
    outline = shape(item["geometry"])
    assert outline.bounds[0::2] == ((-180.0, 180.0) if west > east else (west, east))
    # California is seen by all of them, the far side of the Earth by none.
    assert outline.contains(Point(-120.0, 38.0))
    assert not outline.contains(Point(75.0, 0.0))
    assert item["properties"]["proj:shape"] == list(SECTORS[sector][:2])


def test_a_band_is_told_by_the_key(make: Callable[[str, bytes], Any]) -> None:
    """Wavelength in micrometres, common name and width stand with the asset; 500 m is red alone."""
    place = f"noaa-goes17/ABI-L1b-RadM/2019/218/01/OR_ABI-L1b-RadM2-M6C02_G17_{TAIL}"
    item = make(place, satellite_files.abi(-137.0, (500, 500, -0.02, 0.1)))
    assert item["assets"]["data"]["bands"] == [
        {
            "name": "C02",
            "eo:common_name": "red",
            "eo:center_wavelength": 0.64,
            "eo:full_width_half_max": 0.1,
        }
    ]
    assert (item["properties"]["gsd"], item["properties"]["processing:level"]) == (500, "L1B")
    assert any("/eo/" in each for each in item["stac_extensions"])


def test_sixteen_bands_in_one_file(make: Callable[[str, bytes], Any]) -> None:
    """The multi-band image has them all, in the order of their wavelengths."""
    place = f"noaa-goes19/ABI-L2-MCMIPF/2019/218/01/OR_ABI-L2-MCMIPF-M6_G19_{TAIL}"
    made = make(place, satellite_files.abi(-75.2, SECTORS["F"], spatial_resolution="2km at nadir"))
    bands = made["assets"]["data"]["bands"]
    assert [band["name"] for band in bands] == [f"C{number:02}" for number in range(1, 17)]
    waves = [band["eo:center_wavelength"] for band in bands]
    assert waves == sorted(waves)
    assert (waves[0], waves[-1]) == (0.47, 13.3)
    assert made["properties"]["gsd"] == 2000


def test_a_product_without_a_band_has_none(make: Callable[[str, bytes], Any]) -> None:
    """Derived from several, it claims none, and declares no extension for them."""
    item = make(ABI_PLACE, content(f"goes-abi/{ABI}"))
    assert "bands" not in item["assets"]["data"]
    assert not any("/eo/" in each for each in item["stac_extensions"])


def test_a_satellite_that_is_not_known_yet_has_no_designator(
    make: Callable[[str, bytes], Any],
) -> None:
    """GOES-20 will come; nothing is made up for it, and its place is in the file."""
    place = f"noaa-goes19/ABI-L1b-RadF/2019/218/01/OR_ABI-L1b-RadF-M6C17_G20_{TAIL}"
    told = make(place, satellite_files.abi(-89.5, SECTORS["F"]))["properties"]
    assert not {"platform", "sat:platform_international_designator", "gsd"} & set(told)


def test_a_grid_of_no_sense_leaves_the_place_to_the_key(
    tmp_path: Path, children: Hdf5Children
) -> None:
    """Fill values are no grid: the item has the satellite's full disk, and the unit is suspect."""
    place = f"noaa-goes19/ABI-L1b-RadF/2019/218/01/OR_ABI-L1b-RadF-M6C02_G19_{TAIL}"
    item = suspect(tmp_path, place, satellite_files.abi(float("nan"), SECTORS["F"]), children)
    assert item["bbox"] == [-156.3, -81.33, 6.3, 81.33]
    assert "proj:shape" not in item["properties"]


# --- lightning, sun -------------------------------------------------------------------------------


def test_the_western_field_of_view_is_two_polygons(make: Callable[[str, bytes], Any]) -> None:
    """The published item of GOES-18 has one polygon of two disjoint rings, which is none."""
    place = f"noaa-goes18/GLM-L2-LCFA/2025/097/13/{GLM.replace('_G19_', '_G18_')}"
    item = make(place, satellite_files.glm(156.44, -70.44, event_count=12, group_count=-1))
    assert item["bbox"] == [156.44, -66.56, -70.44, 66.56]
    assert item["geometry"]["type"] == "MultiPolygon"
    first, second = shape(item["geometry"]).geoms
    assert (first.bounds, second.bounds) == (
        (156.44, -66.56, 180.0, 66.56),
        (-180.0, -66.56, -70.44, 66.56),
    )
    told = item["properties"]
    assert (told["goes:orbital_slot"], told["goes:event_count"]) == ("West", 12)
    # A fill value is no count.
    assert "goes:group_count" not in told


def test_the_sun_is_no_place_on_earth(tmp_path: Path) -> None:
    """No geometry, no box; the line is a band. Its key tells all: no process reads attributes."""
    place = (
        "noaa-goes19/SUVI-L1b-He303/2025/097/13/"
        "OR_SUVI-L1b-He303_G19_s20250971300207_e20250971300217_c20250971300412.nc"
    )
    asked = Asked()
    item = item_of(tmp_path, place, satellite_files.glm(0.0, 1.0), asked)  # type: ignore[arg-type]
    assert asked.files == 0
    assert item["geometry"] is None
    assert "bbox" not in item
    assert item["assets"]["data"]["bands"] == [{"name": "He303", "eo:center_wavelength": 0.03038}]
    assert open_validator([schemas.folder() / "stac"]).judge(item).is_valid


class Asked:
    """Counts what is asked of it, and knows nothing."""

    def __init__(self) -> None:
        self.files = 0

    def read(self, _seen: object, *, near: bool) -> dict[str, Any]:
        """Return nothing."""
        assert near
        self.files += 1
        return {"attributes": {}}

    def close(self) -> None:
        """Do nothing."""


def test_a_small_file_that_names_no_place_is_not_asked_for_one(tmp_path: Path) -> None:
    """All of it was seen with its header; a larger one, or one that names a place, is asked."""
    small = satellite_files.corners([(0, 0), (1, 0), (1, 1), (0, 1)])
    nameless = small.replace(b"geospatial", b"nowhere_is")
    assert len(small) < 4096
    counts = []
    for data in (nameless, small, content(f"goes-glm/{GLM}")):
        asked = Asked()
        tried(tmp_path, GLM_PLACE, data, asked)  # type: ignore[arg-type]
        counts.append(asked.files)
    assert counts == [0, 1, 1]


# --- swaths ---------------------------------------------------------------------------------------


def test_a_swath_is_the_ring_through_its_corners(make: Callable[[str, bytes], Any]) -> None:
    """Corners of a real granule over Asia; scan lines are great circles and bend poleward."""
    corners = [
        (101.341705, 50.743397),
        (141.848984, 44.537209),
        (138.53093, 40.014153),
        (101.343468, 45.723434),
    ]
    data = satellite_files.corners(
        corners,
        start_orbit_number=np.int32(33516),
        day_night_data_flag="night",
        ascend_descend_data_flag=np.int32(1),
        resolution="750M",
    )
    item = make(f"noaa-nesdis-snpp-pds/{JRR}", data)
    told, outline = item["properties"], shape(item["geometry"])
    assert (told["platform"], told["constellation"]) == ("suomi-npp", "jpss")
    assert told["sat:platform_international_designator"] == "2011-061A"
    assert (told["sat:absolute_orbit"], told["sat:orbit_state"]) == (33516, "descending")
    assert (told["jpss:day_night"], told["gsd"]) == ("night", 750)
    points = {tuple(point) for point in item["geometry"]["coordinates"][0]}
    assert points >= {(round(x, 4), round(y, 4)) for x, y in corners}
    # The sum of the vectors of the first two corners, (-0.685, 1.061, 1.476), points to the middle
    # of the first scan line: two degrees north of the straight line between them.
    on_line = shape({"type": "LineString", "coordinates": [corners[0], corners[1]]})
    middle = Point(122.85, 49.45)
    assert outline.exterior.distance(middle) < 0.05
    assert on_line.distance(middle) > 1.5


def test_a_granule_across_the_antimeridian_is_cut_there(make: Callable[[str, bytes], Any]) -> None:
    """Its ring of eight points becomes two polygons that meet at exactly 180 degrees."""
    ring = [
        *((165.0, -10.0), (178.0, -11.5), (-169.0, -13.0), (-169.8, -15.8)),
        *((-170.5, -18.5), (176.5, -17.0), (163.5, -15.5), (164.2, -12.8)),
    ]
    item = make(f"noaa-nesdis-n21-pds/{SDR}", satellite_files.granules(ring))
    west, south, east, north = item["bbox"]
    assert (west, east) == (163.5, -169.0)
    assert (south, north) == (-18.5, -10.0)
    parts = list(shape(item["geometry"]).geoms)
    edges = [sorted(y for x, y in part.exterior.coords if abs(x) == 180.0) for part in parts]
    assert len(parts) == 2
    assert set(edges[0]) == set(edges[1])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_granule_over_a_pole_holds_the_pole(make: Callable[[str, bytes], Any], sign: int) -> None:
    """Its ring goes round the pole: the polygon runs along 180 degrees to it."""
    ring = [(lon, sign * lat) for lon, lat in ((10, 75), (100, 82), (-150, 78), (-70, 84))]
    item = make(f"noaa-nesdis-n21-pds/{SDR}", satellite_files.granules(ring))
    assert item["geometry"]["type"] == "Polygon"
    assert item["bbox"][0::2] == [-180.0, 180.0]
    assert sign * 90.0 in item["bbox"]
    outline = shape(item["geometry"])
    for lon in (-179.0, -90.0, 0.0, 90.0, 179.0):
        assert outline.contains(Point(lon, sign * 89.0))
        assert not outline.contains(Point(lon, sign * 65.0))


@pytest.mark.parametrize(
    ("indicator", "state"), [(0, "ascending"), (1, "descending"), (2, "crossing"), (9, None)]
)
def test_sensor_data_tell_orbit_and_light(
    make: Callable[[str, bytes], Any], indicator: int, state: str | None
) -> None:
    """Orbit number, direction of flight and day or night are those of the granule."""
    facts: dict[str, object] = {
        "Ascending/Descending_Indicator": np.uint8(indicator),
        "N_Beginning_Orbit_Number": np.uint64(11112),
        "N_Day_Night_Flag": b"Day",
    }
    ring = [(10, 0), (40, -5), (38, -12), (9, -7)]
    told = make(f"noaa-nesdis-n21-pds/{SDR}", satellite_files.granules(ring, **facts))["properties"]
    assert told.get("sat:orbit_state") == state
    assert (told["sat:absolute_orbit"], told["jpss:day_night"]) == (11112, "day")


def test_the_key_tells_the_orbit_where_the_file_does_not(make: Callable[[str, bytes], Any]) -> None:
    """The number behind `_b`; band and platform come from there too."""
    ring = [(10, 0), (40, -5), (38, -12), (9, -7)]
    item = make(f"noaa-nesdis-n21-pds/{SDR}", satellite_files.granules(ring))
    assert item["properties"]["sat:absolute_orbit"] == 11111
    assert item["properties"]["platform"] == "noaa-21"
    assert item["assets"]["data"]["bands"][0]["eo:center_wavelength"] == 0.412
    none = make(
        f"noaa-nesdis-n21-pds/{SDR.replace('_b11111_', '_b00000_')}", satellite_files.granules(ring)
    )
    assert "sat:absolute_orbit" not in none["properties"]


@pytest.mark.parametrize(
    ("starts", "sides"),
    [
        # West and east of three granules one after the other, and of the box around them.
        ([(10, 40), (15, 45), (20, 50)], (10.0, 50.0)),
        ([(160, -170), (170, -160), (175, -150)], (160.0, -150.0)),
        ([(-170, -150), (150, 170), (165, -165)], (150.0, -150.0)),
    ],
)
def test_several_granules_in_a_file_lie_in_the_box_around_them(
    make: Callable[[str, bytes], Any],
    starts: list[tuple[float, float]],
    sides: tuple[float, float],
) -> None:
    """One ring would be that of the first alone; the smallest box holds all."""
    rings = [
        [(west, n * 5.0), (east, n * 5.0), (east, n * 5.0 + 6), (west, n * 5.0 + 6)]
        for n, (west, east) in enumerate(starts)
    ]
    item = make(f"noaa-nesdis-n21-pds/{SDR}", satellite_files.granules(*rings))
    assert item["bbox"] == [sides[0], 0.0, sides[1], 16.0]


def test_a_swath_without_navigation_has_no_place(tmp_path: Path, children: Hdf5Children) -> None:
    """Fill values in its corners make neither ring nor box, and the unit is suspect."""
    filled = satellite_files.corners([(-999.8, -999.8)] * 4)
    item = suspect(tmp_path, f"noaa-nesdis-snpp-pds/{JRR}", filled, children)
    assert item["geometry"] is None
    assert "bbox" not in item


def test_a_ring_that_crosses_itself_is_told_and_the_box_stands(
    tmp_path: Path, children: Hdf5Children
) -> None:
    """The unit is suspect for its geometry; never is a wrong one written."""
    crossed = [(0, 0), (10, 10), (10, 0), (0, 10)]
    trial = tried(
        tmp_path, f"noaa-nesdis-snpp-pds/{JRR}", satellite_files.corners(crossed), children
    )
    assert trial.metadata.status is CheckStatus.SUSPECT
    assert [each.code for each in trial.metadata.issues] == ["invalid_geometry"]
    assert trial.item is not None
    item = json.loads(trial.item)
    assert item["bbox"] == [0.0, 0.0, 10.0, 10.0]
    assert item["geometry"]["type"] == "Polygon"
