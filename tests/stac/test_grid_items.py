"""Items of forecasts, analyses and mosaics on grids, read from their files.

The published items are yardsticks: what is right in them must be in ours, and none of their known
defects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import pytest
from shapely.geometry import Point, shape

from tallgrass.evidence.hdf5_children import Hdf5Children
from tests.datasets.noaa_data import noaa_data
from tests.evidence import made_grids
from tests.evidence.real_files import content
from tests.evidence.samples import grib2
from tests.evidence.test_grib2_steps import interval, minutes
from tests.stac import schemas
from tests.stac.real_items import item_of
from tests.stac.test_every_dataset import routed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MRMS = "MRMS_MultiSensor_QPE_01H_Pass2_00.00_20220602-120000.grib2.gz"
ALASKA = "MRMS_MultiSensor_QPE_01H_Pass1_00.00_20221024-015800.grib2.gz"
HRRR = "noaa-hrrr-bdp-pds/hrrr.20230722/conus/hrrr.t06z.wrfsfcf01.grib2"
GFS = "noaa-gfs-bdp-pds/gfs.20260605/12/atmos/gfs.t12z.pgrb2.0p25.f023"
GEFS = "noaa-gefs-pds/gefs.20250101/00/atmos/pgrb2ap5/gec00.t00z.pgrb2a.0p50.f003"
RAP = "noaa-rap-pds/rap.20230910/rap.t00z.awp130pgrbf01.grib2"
NBM = "noaa-nbm-grib2-pds/blend.20250901/00/core/blend.t00z.core.f001.co.grib2"
#: Place → real file, bbox by ecCodes' points, shape, datetime.
REAL: dict[str, tuple[str, list[float], list[int], str]] = {
    HRRR: (
        "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2",
        [-134.0955, 21.1381, -60.9172, 52.6157],
        [1059, 1799],
        "2023-07-22T07:00:00",
    ),
    GFS: (
        "gfs/gfs.t12z.pgrb2.0p25.f023-PV-TMP-missing.grib2",
        [-180, -90, 180, 90],
        [721, 1440],
        "2026-06-06T11:00:00",
    ),
    "noaa-gfs-bdp-pds/gfs.20230823/18/wave/gridded/gfswave.t18z.atlocn.0p16.f001.grib2": (
        "gfs/gfswave.t18z.atlocn.0p16.f001.grib2",
        [-100, 0, -50, 55],
        [331, 301],
        "2023-08-23T19:00:00",
    ),
    GEFS: (
        "gefs/gec00_20250101_00_soilw.grib",
        [-180, -90, 180, 90],
        [361, 720],
        "2025-01-01T03:00:00",
    ),
    RAP: (
        "rap/rap.tsoil.gdt32769.grib2",
        [-180, -10.5906, 180, 90],
        [834, 953],
        "2023-09-10T01:00:00",
    ),
    NBM: (
        "nbm/blend.t00z.core.f001.tmp.co.grib2",
        [-138.3733, 19.229, -59.0422, 57.0885],
        [1597, 2345],
        "2025-09-01T01:00:00",
    ),
    "noaa-ndfd-pds/wmo/temp/2025/02/06/YEUZ98_KWBN_202502060030": (
        "ndfd/ds.temp.bin",
        [-130.1034, 20.192, -60.8856, 52.807],
        [1377, 2145],
        "2025-02-06T01:30:00",
    ),
    f"noaa-mrms-pds/CONUS/MultiSensor_QPE_01H_Pass2_00.00/20220602/{MRMS}": (
        f"mrms/CONUS/{MRMS}",
        [-129.995, 20.005, -60.005, 54.995],
        [3500, 7000],
        "2022-06-02T12:00:00",
    ),
    f"noaa-mrms-pds/ALASKA/MultiSensor_QPE_01H_Pass1_00.00/20221024/{ALASKA}": (
        f"mrms/ALASKA/{ALASKA}",
        [-175.995, 50.005, -126.005, 71.995],
        [2200, 5000],
        "2022-10-24T01:58:00",
    ),
}


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the items of the real files."""
    folder = tmp_path_factory.mktemp("objects")
    return {place: item_of(folder, place, content(file)) for place, (file, *_) in REAL.items()}


def is_valid(item: Any) -> None:
    """Demand that core and every declared extension have nothing against an item."""
    assert schemas.core_errors(item) == []
    for address in item["stac_extensions"]:
        if "alternate-assets" not in address:
            assert schemas.extension_errors(item, address) == [], address


@pytest.mark.parametrize("place", REAL)
def test_a_real_file_makes_a_valid_item(place: str, items: dict[str, Any]) -> None:
    """Core, projection, forecast and all others that it declares find nothing."""
    is_valid(items[place])


@pytest.mark.parametrize("place", REAL)
def test_place_shape_and_time_are_those_of_the_file(place: str, items: dict[str, Any]) -> None:
    """The box is that of the grid's points, south before north, and holds the geometry."""
    item, (_, box, size, instant) = items[place], REAL[place]
    assert item["bbox"] == pytest.approx(box, abs=1e-3)
    assert max(map(abs, item["bbox"][0::2])) <= 180
    assert item["bbox"][1] < item["bbox"][3]
    outline = shape(item["geometry"])
    assert outline.is_valid
    assert list(outline.bounds) == pytest.approx(item["bbox"], abs=1e-6)
    assert item["properties"]["proj:shape"] == size
    assert item["properties"]["datetime"].startswith(instant)


def yardstick(name: str) -> Any:
    """Return a published item."""
    return json.loads(noaa_data("stac-expected", name).read_text(encoding="utf-8"))


def test_the_hrrr_item_holds_what_its_yardstick_does(items: dict[str, Any]) -> None:
    """Time, horizon, region and box agree; the run has its proper name and a declared extension."""
    theirs = yardstick("hrrr__hrrr-conus-sfc-2024-05-10T12-FH2.json")
    ours = routed("noaa-hrrr-bdp-pds", "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2")
    told, published = ours["properties"], theirs["properties"]
    assert told["datetime"][:19] + "Z" == published["datetime"]
    assert told["forecast:horizon"] == published["forecast:horizon"]
    assert told["hrrr:region"] == published["noaa-hrrr:region"]
    assert told["forecast:reference_datetime"][:19] + "Z" == published["forecast:reference_time"]
    assert "forecast:reference_time" not in told
    assert any("/forecast/" in address for address in ours["stac_extensions"])
    # Their box has half a cell more on each side.
    assert items[HRRR]["bbox"] == pytest.approx(theirs["bbox"], abs=0.03)
    assert set(ours["assets"]) == {"data", "index"}


def test_the_hrrrs_geometry_is_no_box(items: dict[str, Any]) -> None:
    """Topeka lies in it; corners of the box, outside of the model's domain, do not."""
    outline = shape(items[HRRR]["geometry"])
    assert outline.contains(Point(-95.68, 39.05))
    for corner in ((-133.5, 22.0), (-61.5, 22.0), (-133.5, 52.0), (-61.5, 52.0)):
        assert not outline.contains(Point(corner))


def test_a_global_item_repeats_no_defect_of_its_yardstick(items: dict[str, Any]) -> None:
    """Run and horizon agree; the box is not upside down, and the shape is height before width."""
    theirs = yardstick("gefs__item.json")
    ours = routed(
        "noaa-gefs-pds", "gefs.20220812/00/chem/pgrb2ap25/gefs.chem.t00z.a2d_0p25.f000.grib2"
    )
    for name in ("forecast:reference_datetime", "datetime"):
        assert ours["properties"][name][:19] + "Z" == theirs["properties"][name]
    assert ours["properties"]["forecast:horizon"] == theirs["properties"]["forecast:horizon"]
    # A file on the same grid.
    told, published = items[GFS]["properties"], theirs["properties"]
    assert theirs["bbox"][1] > theirs["bbox"][3]
    assert items[GFS]["bbox"] == [-180.0, -90.0, 180.0, 90.0]
    assert told["proj:shape"] == published["proj:shape"][::-1]
    assert told["proj:transform"] == published["proj:transform"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (
            f"generated__mrms__CONUS_{MRMS}",
            f"CONUS/MultiSensor_QPE_01H_Pass2_00.00/20220602/{MRMS}",
        ),
        (
            f"generated__mrms__ALASKA_{ALASKA}",
            f"ALASKA/MultiSensor_QPE_01H_Pass1_00.00/20221024/{ALASKA}",
        ),
    ],
)
def test_a_sum_of_precipitation_has_its_interval(
    name: str, place: str, items: dict[str, Any]
) -> None:
    """What the yardstick says agrees; beside its one time there is the hour that was summed."""
    theirs = yardstick(name.replace(".grib2.gz", ".json"))
    ours = items[f"noaa-mrms-pds/{place}"]
    told = ours["properties"]
    for field in ("pass", "period", "region"):
        assert told[f"noaa_mrms_qpe:{field}"] == theirs["properties"][f"noaa_mrms_qpe:{field}"]
    assert told["datetime"][:19] + "Z" == theirs["properties"]["datetime"]
    assert told["end_datetime"] == told["datetime"]
    hour = int(told["datetime"][11:13]) - 1
    assert told["start_datetime"] == f"{told['datetime'][:11]}{hour:02}{told['datetime'][13:]}"
    # Their box is that of the cells, ours that of the points: half of 0.01 degrees.
    assert ours["bbox"] == pytest.approx(theirs["bbox"], abs=0.006)
    assert told["proj:bbox"] == pytest.approx(theirs["bbox"], abs=1e-4)


def test_a_sum_over_days_is_not_taken_for_a_mistake(tmp_path: Path) -> None:
    """72 hours before the stamp is no contradiction between key and file."""
    file = "MRMS_MultiSensor_QPE_72H_Pass2_00.00_20220602-120000.grib2.gz"
    place = f"noaa-mrms-pds/CONUS/MultiSensor_QPE_72H_Pass2_00.00/20220602/{file}"
    item = item_of(tmp_path, place, content(f"mrms/CONUS/{MRMS}"))
    assert item["properties"]["start_datetime"] == "2022-05-30T12:00:00.000000Z"
    assert item["properties"]["end_datetime"] == "2022-06-02T12:00:00.000000Z"


def test_members_of_an_ensemble_are_told_apart(items: dict[str, Any]) -> None:
    """The control is not perturbed, the others are; of mean and spread neither is said."""
    assert items[GEFS]["properties"]["forecast:perturbed"] is False
    folder = "gefs.20240229/18/atmos/pgrb2ap5"
    member = routed("noaa-gefs-pds", f"{folder}/gep07.t18z.pgrb2a.0p50.f240")
    assert member["properties"]["forecast:perturbed"] is True
    mean = routed("noaa-gefs-pds", f"{folder}/geavg.t18z.pgrb2a.0p50.f240")
    assert "forecast:perturbed" not in mean["properties"]


def test_a_forecast_by_the_offices_has_the_run_of_its_file(items: dict[str, Any]) -> None:
    """Its key tells the issue alone; run and span of its two times are those of the messages."""
    told = items["noaa-ndfd-pds/wmo/temp/2025/02/06/YEUZ98_KWBN_202502060030"]["properties"]
    assert told["forecast:reference_datetime"] == "2025-02-06T00:30:00.000000Z"
    assert told["start_datetime"] == "2025-02-06T01:00:00.000000Z"
    assert told["end_datetime"] == "2025-02-06T02:00:00.000000Z"
    assert "forecast:horizon" not in told
    assert (told["grib2:messages"], told["grib2:parameter"]) == (2, "0-0-0")


def test_an_observation_is_no_forecast(items: dict[str, Any]) -> None:
    """A mosaic of radars has a reference time in its file, and no run."""
    place = f"noaa-mrms-pds/CONUS/MultiSensor_QPE_01H_Pass2_00.00/20220602/{MRMS}"
    assert not [name for name in items[place]["properties"] if name.startswith("forecast:")]


RUN = "noaa-hrrr-bdp-pds/hrrr.20260601/conus/hrrr.t12z"


def test_a_file_of_sums_has_a_duration(tmp_path: Path) -> None:
    """Six hours of rain up to the valid time: horizon to its end, and its length."""
    item = item_of(tmp_path, f"{RUN}.wrfsfcf06.grib2", interval(6))
    told = item["properties"]
    assert (told["forecast:horizon"], told["forecast:duration"]) == ("PT6H", "PT6H")
    assert told["datetime"] == told["end_datetime"] == "2026-06-01T18:00:00.000000Z"
    assert told["start_datetime"] == "2026-06-01T12:00:00.000000Z"
    is_valid(item)


def test_a_sum_among_instants_gives_no_duration(tmp_path: Path) -> None:
    """Where not all messages are sums the file is for one time."""
    data = interval(6) + grib2(dataDate=20260601, forecastTime=6)
    told = item_of(tmp_path, f"{RUN}.wrfsfcf06.grib2", data)["properties"]
    assert "forecast:duration" not in told
    assert "start_datetime" not in told
    assert (told["grib2:messages"], "grib2:parameter" in told) == (2, True)


def test_quarters_of_an_hour_are_a_span(tmp_path: Path) -> None:
    """A file of four steps spans them; it is known by the last, which its key names."""
    data = b"".join(map(minutes, (15, 30, 45, 60)))
    told = item_of(tmp_path, f"{RUN}.wrfsubhf01.grib2", data)["properties"]
    assert told["datetime"] == told["end_datetime"] == "2026-06-01T13:00:00.000000Z"
    assert told["start_datetime"] == "2026-06-01T12:15:00.000000Z"
    assert (told["forecast:horizon"], "forecast:duration" in told) == ("PT1H", False)


def test_parameters_that_differ_are_not_told(tmp_path: Path) -> None:
    """Of a file of several fields the first one says nothing."""
    data = grib2(dataDate=20260601, forecastTime=6) + grib2(
        dataDate=20260601, forecastTime=6, parameterNumber=4
    )
    told = item_of(tmp_path, f"{RUN}.wrfsfcf06.grib2", data)["properties"]
    assert (told["grib2:messages"], "grib2:parameter" in told) == (2, False)


def test_a_grid_across_the_antimeridian_is_two_polygons(tmp_path: Path) -> None:
    """Over Alaska the geometry is cut at 180 degrees, and the west of the box is in the east."""
    data = made_grids.polar(dataDate=20260601, dataTime=1200, forecastTime=6)
    place = "noaa-hrrr-bdp-pds/hrrr.20260601/alaska/hrrr.t12z.wrfsfcf06.ak.grib2"
    item = item_of(tmp_path, place, data)
    assert item["geometry"]["type"] == "MultiPolygon"
    assert item["bbox"][0] > 0 > item["bbox"][2]
    outline = shape(item["geometry"])
    assert outline.contains(Point(-149.9, 61.2))  # Anchorage
    is_valid(item)


def test_only_grib2_files_of_the_gfs_have_an_index() -> None:
    """Beside NetCDF and text none is published."""
    run = "gfs.20210607/12/atmos/gfs.t12z"
    indexed = {
        name: "index" in routed("noaa-gfs-bdp-pds", f"{run}.{name}")["assets"]
        for name in ("pgrb2.0p25.f001", "pgrb2b.1p00.anl", "sfluxgrbf003.grib2", "atmf003.nc")
    }
    assert list(indexed.values()) == [True, True, True, False]
    index = routed("noaa-gfs-bdp-pds", f"{run}.pgrb2.0p25.f001")["assets"]["index"]
    assert index["href"] == f"s3://noaa-gfs-bdp-pds/{run}.pgrb2.0p25.f001.idx"
    assert index["type"] == "text/plain"


# --- the National Water Model ---------------------------------------------------------------------

NWM = "noaa-nwm-pds/nwm.20260601"


@pytest.fixture(scope="module")
def children() -> Iterator[Hdf5Children]:
    """Return one process that reads attributes."""
    made = Hdf5Children(1)
    yield made
    made.close()


def nwm_file(path: Path, configuration: str, run: str, valid: str, grid: str | None) -> bytes:
    """Return a file of the model's form: times as attributes and, on a grid, CF's mapping of it."""
    with h5py.File(path, "w", libver="v108") as file:
        file.attrs["model_configuration"] = configuration
        file.attrs["model_initialization_time"] = run
        file.attrs["model_output_valid_time"] = valid
        file.attrs["Conventions"] = "CF-1.6"
        file.create_dataset("time", data=[29_000_000], dtype="i4")
        if grid is None:
            file.create_dataset("feature_id", data=list(range(50)), compression="gzip")
        else:
            _write_grid(file, grid)
    return path.read_bytes()


def _write_grid(file: h5py.File, name: str) -> None:
    crs = file.create_dataset("crs", data=b"", dtype="S1")
    crs.attrs["grid_mapping_name"] = name
    crs.attrs["earth_radius"] = 6_370_000.0
    crs.attrs["semi_major_axis"] = 6_370_000.0
    crs.attrs["inverse_flattening"] = 0.0
    crs.attrs["false_easting"] = 0.0
    crs.attrs["false_northing"] = 0.0
    if name == "lambert_conformal_conic":
        crs.attrs["standard_parallel"] = [30.0, 60.0]
        crs.attrs["longitude_of_central_meridian"] = -97.0
        crs.attrs["latitude_of_projection_origin"] = 40.0
        x, y = (-2_303_499.25, 4608), (-1_919_500.375, 3840)
    else:
        crs.attrs["standard_parallel"] = 60.0
        crs.attrs["straight_vertical_longitude_from_pole"] = -135.0
        crs.attrs["latitude_of_projection_origin"] = 90.0
        x, y = (-1_200_000.0, 500), (-3_500_000.0, 700)
    for axis, (first, count) in (("x", x), ("y", y)):
        file.create_dataset(
            axis, data=[first + 1000.0 * number for number in range(count)], compression="gzip"
        )


def test_a_grid_of_the_water_model_is_told(tmp_path: Path, children: Hdf5Children) -> None:
    """Lambert's cone of the contiguous states has rows from the south; told is the reverse."""
    times = ("2026-06-01_12:00:00", "2026-06-01_13:00:00")
    data = nwm_file(tmp_path / "made.nc", "short_range", *times, "lambert_conformal_conic")
    place = f"{NWM}/short_range/nwm.t12z.short_range.land.f001.conus.nc"
    item = item_of(tmp_path, place, data, children)
    told = item["properties"]
    assert told["proj:shape"] == [3840, 4608]
    assert told["proj:transform"] == [1000.0, 0.0, -2303999.25, 0.0, -1000.0, 1919999.625]
    assert told["datetime"] == "2026-06-01T13:00:00.000000Z"
    assert (told["forecast:horizon"], told["nwm:domain"]) == ("PT1H", "conus")
    outline = shape(item["geometry"])
    assert outline.contains(Point(-95.68, 39.05))
    assert len(item["geometry"]["coordinates"][0]) > 8
    is_valid(item)


def test_the_plane_of_alaska_is_polar(tmp_path: Path, children: Hdf5Children) -> None:
    """Its grid is a polar plane, true at 60 degrees."""
    times = ("2026-06-01_12:00:00", "2026-06-01_13:00:00")
    data = nwm_file(tmp_path / "made.nc", "short_range_alaska", *times, "polar_stereographic")
    place = f"{NWM}/short_range_alaska/nwm.t12z.short_range.land.f001.alaska.nc"
    item = item_of(tmp_path, place, data, children)
    assert 'METHOD["Polar Stereographic (variant B)"]' in item["properties"]["proj:wkt2"]
    # 6370 km (1 + sin 60°) tan 14.5° = 3074 km from the pole, 15° west of the vertical meridian: at
    # x -796 km, y -2969 km.
    assert shape(item["geometry"]).contains(Point(-150.0, 61.0))
    is_valid(item)


def test_rivers_lie_in_their_domain(tmp_path: Path, children: Hdf5Children) -> None:
    """A file of points says nothing of a place; its domain does."""
    times = ("2026-06-01_12:00:00", "2026-06-01_13:15:00")
    data = nwm_file(tmp_path / "made.nc", "short_range_hawaii", *times, None)
    place = f"{NWM}/short_range_hawaii/nwm.t12z.short_range.channel_rt.f00115.hawaii.nc"
    item = item_of(tmp_path, place, data, children)
    west, south, east, north = item["bbox"]
    assert west < -157.86 < east  # Honolulu
    assert south < 21.31 < north
    assert item["properties"]["forecast:horizon"] == "PT1H15M"
    assert "proj:shape" not in item["properties"]
    is_valid(item)


@pytest.mark.parametrize("domain", ["alaska", "conus", "hawaii", "puertorico"])
def test_each_domain_has_a_place(domain: str) -> None:
    """Also where the file was not read."""
    key = f"nwm.20260601/short_range/nwm.t12z.short_range.channel_rt.f001.{domain}.nc"
    assert routed("noaa-nwm-pds", key)["geometry"]["type"] == "Polygon"


def test_an_analysis_may_have_begun_before_its_cycle(
    tmp_path: Path, children: Hdf5Children
) -> None:
    """The begin of its own short run is not the cycle in the key, and contradicts nothing."""
    times = ("2026-06-01_09:00:00", "2026-06-01_10:00:00")
    data = nwm_file(tmp_path / "made.nc", "analysis_and_assimilation", *times, None)
    place = f"{NWM}/analysis_assim/nwm.t12z.analysis_assim.channel_rt.tm02.conus.nc"
    told = item_of(tmp_path, place, data, children)["properties"]
    assert told["datetime"] == "2026-06-01T10:00:00.000000Z"
    assert told["forecast:reference_datetime"] == "2026-06-01T12:00:00.000000Z"
    assert "forecast:horizon" not in told
