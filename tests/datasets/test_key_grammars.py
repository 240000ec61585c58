from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.clock import parse_instant
from tallgrass.datasets.catalogue import IgnoredKey, KeyMatch, default_catalogue
from tallgrass.errors import InvalidInput

GOES = (
    "GLM-L2-LCFA/2020/016/06/OR_GLM-L2-LCFA_G17_s20200160612000_e20200160612110_c20200160612335.nc"
)
#: A granule that begins in the last minute that a time can have, and ends in none.
VIIRS_OF_THE_LAST_NIGHT = (
    "VIIRS-DNB-GEO/9999/12/31/"
    "GDNBO_j01_d99991231_t2359460_e0000176_b00001_c20260101000000000000_oebc_ops.h5"
)


def matched(bucket: str, key: str) -> KeyMatch:
    """Return the match of a key that must be a unit."""
    found = default_catalogue().route("aws", bucket, key)
    assert isinstance(found, KeyMatch), found
    return found


def instant(text: str) -> datetime | None:
    """Return an expected time, or None for an empty column."""
    return parse_instant(text) if text else None


@pytest.mark.parametrize(
    ("bucket", "key", "dataset", "start", "end", "reference"),
    [
        ("noaa-goes17", GOES, "goes-glm", "2020-01-16T06:12:00Z", "2020-01-16T06:12:11Z", ""),
        (
            "noaa-goes16",
            "GLM-L2-LCFA/2020/366/23/OR_GLM-L2-LCFA_G16_s20203662359400_e20210010000004_c20210010000030.nc",
            "goes-glm",
            "2020-12-31T23:59:40Z",
            "2021-01-01T00:00:00.4Z",
            "",
        ),
        (
            "noaa-goes18",
            "GLM-L2-LCFA/2023/026/19/RP_GLM-L2-LCFA_G18_s20230261900000_e20230261900200_c20230261900213.nc",
            "goes-glm",
            "2023-01-26T19:00:00Z",
            "2023-01-26T19:00:20Z",
            "",
        ),
        (
            "noaa-nexrad-level2",
            "2020/03/10/KBUF/KBUF20200310_021645_V06",
            "nexrad-l2",
            "2020-03-10T02:16:45Z",
            "",
            "",
        ),
        (
            "unidata-nexrad-level2",
            "2005/01/01/KABR/KABR20050101_000745.gz",
            "nexrad-l2",
            "2005-01-01T00:07:45Z",
            "",
            "",
        ),
        (
            "unidata-nexrad-level2",
            "2010/05/01/KTLX/KTLX20100501_000444_V03.gz",
            "nexrad-l2",
            "2010-05-01T00:04:44Z",
            "",
            "",
        ),
        (
            "unidata-nexrad-level2",
            "2024/02/29/NOP3/NOP320240229_235959_V06",
            "nexrad-l2",
            "2024-02-29T23:59:59Z",
            "",
            "",
        ),
        (
            "noaa-hrrr-bdp-pds",
            "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2",
            "hrrr",
            "2024-05-10T14:00:00Z",
            "2024-05-10T14:00:00Z",
            "2024-05-10T12:00:00Z",
        ),
        (
            "noaa-hrrr-bdp-pds",
            "hrrr.20241231/conus/hrrr.t18z.wrfnatf48.grib2",
            "hrrr",
            "2025-01-02T18:00:00Z",
            "2025-01-02T18:00:00Z",
            "2024-12-31T18:00:00Z",
        ),
        (
            "noaa-hrrr-bdp-pds",
            "hrrr.20240301/alaska/hrrr.t00z.wrfsubhf00.ak.grib2",
            "hrrr",
            "2024-03-01T00:00:00Z",
            "2024-03-01T00:00:00Z",
            "2024-03-01T00:00:00Z",
        ),
    ],
)
def test_a_key_gives_its_times(
    bucket: str, key: str, dataset: str, start: str, end: str, reference: str
) -> None:
    """A unit's start, end and model run are what its key says; what it does not say is None."""
    found = matched(bucket, key)
    assert found.dataset.id == dataset
    assert found.start == parse_instant(start)
    assert found.end == instant(end)
    assert found.reference == instant(reference)


def test_the_groups_of_a_key_are_given() -> None:
    """The parts of a key that items are made of come with the match."""
    assert matched("noaa-goes17", GOES).groups == {
        "environment": "OR",
        "satellite": "17",
        "start": "20200160612000",
        "end": "20200160612110",
        "created": "20200160612335",
    }
    old = matched("unidata-nexrad-level2", "1991/06/05/KTLX/KTLX19910605_162126.gz")
    assert (old.groups["site"], old.groups["version"]) == ("KTLX", None)
    hrrr = matched("noaa-hrrr-bdp-pds", "hrrr.20240301/alaska/hrrr.t00z.wrfprsf07.ak.grib2")
    assert (hrrr.groups["region"], hrrr.groups["product"], hrrr.groups["hour"]) == (
        "alaska",
        "prs",
        "07",
    )


@pytest.mark.parametrize(
    ("bucket", "key", "reason"),
    [
        ("unidata-nexrad-level2", "2025/01/01/KDMX/KDMX20250101_225441_V06_MDM", "metadata_only"),
        ("noaa-nexrad-level2", "2015/01/01/KDMX/KDMX20150101_225441_V06_MDM.gz", "metadata_only"),
        ("unidata-nexrad-level2", "2025/01/01/KDMX/KDMX20250101_225441_V06.001", "lesser_copy"),
        ("noaa-hrrr-bdp-pds", "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2.idx", "sidecar"),
        ("noaa-hrrr-bdp-pds", "index.html", "not_ingestable"),
        ("noaa-goes16", "index.html", "not_ingestable"),
        ("noaa-goes16", "Beginners_Guide_to_GOES-R_Series_Data.pdf", "not_ingestable"),
        ("noaa-goes17", f"{GOES}.tmp", "not_ingestable"),
        ("noaa-goes17", f"{GOES}.md5", "sidecar"),
        ("noaa-mrms-pds", "CONUS/.DS_Store", "not_ingestable"),
        ("noaa-nwm-pds", "nwm.20241029/restart_$folder$", "not_ingestable"),
        ("noaa-nwm-pds", "nwm.20241029/README.txt", "not_ingestable"),
        ("unidata-nexrad-level2", "2025/01/01/KDMX/", "not_ingestable"),
        ("unidata-nexrad-level2", "README", "not_ingestable"),
    ],
)
def test_other_keys_are_passed_over(bucket: str, key: str, reason: str) -> None:
    """A key of a known bucket that is no unit is ignored with the reason that holds for it."""
    found = default_catalogue().route("aws", bucket, key)
    assert isinstance(found, IgnoredKey)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("bucket", "key", "dataset", "start"),
    [
        ("noaa-rap-pds", "rap_p.20260601/rap_p.t23z.awp130pgrbf00.grib2", "rap", "2026-06-01T23"),
        ("noaa-hrrr-bdp-pds", "hrrr.20240510/conus/hrrr.t15z.wrfdayf01.grib2", "hrrr",
         "2024-05-10T15"),
        ("noaa-hrrr-bdp-pds", "hrrr.20240510/conus/hrrr.t12z.bufrsnd.tar.gz", "hrrr",
         "2024-05-10T12"),
        ("noaa-hrrr-bdp-pds", "hrrr.20240510/guam/hrrr.t12z.wrfsfcf02.grib2", "hrrr",
         "2024-05-10T12"),
        ("noaa-hrrr-bdp-pds", "sample/x.grib2", "hrrr", "1970-01-01T00"),
        ("noaa-goes17", GOES.replace("GLM-L2-LCFA", "GLM-L3-GLMF"), "goes-other", "2020-01-16T06"),
        ("noaa-goes17", GOES.replace("GLM-L2-LCFA", "XYZ-L1b-RadM"), "goes-other",
         "2020-01-16T06"),
        ("noaa-goes17", f" {GOES}", "goes-other", "2020-01-16T06"),
        ("noaa-goes17", GOES.replace("_s2020", "_s\u0662\u0660\u0662\u0660"), "goes-glm",
         "1970-01-01T00"),
        ("noaa-goes17", "ABI-L2-CMIPF/guide.nc", "goes-abi", "1970-01-01T00"),
        ("noaa-gk2a-pds", "AMI/L2/CLD/FD/202606/01/12/gk2a_ami_le2_cld_fd020ge_202606011210.nc",
         "gk2a", "2026-06-01T12"),
        ("noaa-mrms-pds", "ProbSevere/PROBSEVERE/MRMS_PROBSEVERE_20260219_042400.json", "mrms",
         "2026-02-19T04"),
        ("noaa-mrms-pds", "ProbSevere/99999999_999999.json", "mrms", "1970-01-01T00"),
        ("noaa-gefs-pds", "gefs.20260601/18/init/gec00/gfs_ctrl.nc", "gefs", "2026-06-01T18"),
        ("noaa-nbm-grib2-pds", "blend.20260601/13/text/blend_nbstx.t13z", "nbm-grib2",
         "2026-06-01T13"),
        ("noaa-nwm-pds", "nwm.20260601/restart/HYDRO_RST.2026-06-01_00:00_DOMAIN1", "nwm",
         "2026-06-01T00"),
        ("unidata-nexrad-level2", "2025/01/01/KDMX/NWS_NEXRAD_NXL2DPBL_KDMX.tar", "nexrad-l2",
         "1970-01-01T00"),
    ],
)  # fmt: skip
def test_an_object_of_an_unknown_layout_is_a_unit(
    bucket: str, key: str, dataset: str, start: str
) -> None:
    """Of the dataset that fits, with the time that its key tells; nothing else is claimed of it."""
    found = default_catalogue().route("aws", bucket, key)
    assert isinstance(found, KeyMatch)
    assert (found.dataset.id, found.start.isoformat()[:13]) == (dataset, start)
    assert (found.is_known, found.groups, found.reference) == (False, {}, None)
    item = found.dataset.item
    assert (item.collection, item.placeless, item.bbox) == (dataset, True, None)
    assert (item.properties, item.sidecars) == ({}, {})


@pytest.mark.parametrize(
    ("bucket", "key"),
    [
        ("noaa-goes17", GOES.replace("_s2020016", "_s2021366")),
        ("noaa-goes17", GOES.replace("_e20200160612110", "_e20200160611590")),
        ("unidata-nexrad-level2", "2025/02/29/KDMX/KDMX20250229_225441_V06"),
        ("unidata-nexrad-level2", "2025/02/28/KDMX/KDMX20250228_245441_V06"),
        ("noaa-hrrr-bdp-pds", "hrrr.20240510/conus/hrrr.t24z.wrfsfcf02.grib2"),
        ("noaa-hrrr-bdp-pds", "hrrr.99991231/conus/hrrr.t23z.wrfsfcf02.grib2"),
        ("noaa-nesdis-n20-pds", VIIRS_OF_THE_LAST_NIGHT),
    ],
)
def test_an_impossible_time_is_refused(bucket: str, key: str) -> None:
    """A unit's key whose time cannot be, or ends before it starts, is refused and not ignored."""
    with pytest.raises(InvalidInput) as refused:
        default_catalogue().route("aws", bucket, key)
    assert refused.value.code == "invalid_time_range"


seconds = st.datetimes(
    min_value=datetime(1991, 1, 1),  # noqa: DTZ001
    max_value=datetime(2099, 12, 31),  # noqa: DTZ001
).map(lambda naive: naive.replace(tzinfo=UTC, microsecond=0))


@given(seconds, st.integers(0, 9), st.integers(0, 600), st.sampled_from(["16", "17", "18", "19"]))
def test_glm_keys_parse_back(start: datetime, tenth: int, length: int, satellite: str) -> None:
    """A GLM key made for any two times gives them back, over days and years."""
    begin = start + timedelta(milliseconds=100 * tenth)
    end = begin + timedelta(milliseconds=100 * length)
    digits = [
        f"{moment.strftime('%Y%j%H%M%S')}{moment.microsecond // 100_000}"
        for moment in (begin, end, end)
    ]
    key = (
        f"GLM-L2-LCFA/{begin.strftime('%Y/%j/%H')}/OR_GLM-L2-LCFA_G{satellite}"
        f"_s{digits[0]}_e{digits[1]}_c{digits[2]}.nc"
    )
    found = matched(f"noaa-goes{satellite}", key)
    assert (found.start, found.end, found.reference) == (begin, end, None)


@given(
    seconds, st.from_regex(r"[KPTR][A-Z]{3}", fullmatch=True), st.sampled_from(["", "_V03", "_V06"])
)
def test_nexrad_keys_parse_back(start: datetime, site: str, version: str) -> None:
    """A volume's key made for any second gives it back, and no end."""
    key = f"{start.strftime('%Y/%m/%d')}/{site}/{site}{start.strftime('%Y%m%d_%H%M%S')}{version}"
    for ending in ("", ".gz"):
        found = matched("unidata-nexrad-level2", key + ending)
        assert (found.start, found.end, found.groups["site"]) == (start, None, site)


@given(seconds, st.integers(0, 48), st.sampled_from(["sfc", "prs", "nat", "subh"]))
def test_hrrr_keys_parse_back(moment: datetime, hour: int, product: str) -> None:
    """A model key gives its run as reference, and the run plus its hour as start and end."""
    run = moment.replace(minute=0, second=0)
    key = f"hrrr.{run.strftime('%Y%m%d')}/conus/hrrr.t{run:%H}z.wrf{product}f{hour:02}.grib2"
    found = matched("noaa-hrrr-bdp-pds", key)
    valid = run + timedelta(hours=hour)
    assert (found.start, found.end, found.reference) == (valid, valid, run)


@given(st.text(max_size=80))
def test_any_key_has_an_answer(key: str) -> None:
    """Whatever the key, routing answers or refuses its time; no other error escapes."""
    for bucket in ("noaa-goes19", "noaa-hrrr-bdp-pds", "unidata-nexrad-level2"):
        assert default_catalogue().route("aws", bucket, key) is not None


@pytest.mark.parametrize(
    ("key", "product"),
    [
        ("short_range/nwm.t19z.short_range.land.f018.conus.nc", "land"),
        ("forcing_short_range/nwm.t00z.short_range.forcing.f001.conus.nc", "forcing"),
        ("medium_range_mem1/nwm.t00z.medium_range.channel_rt_1.f003.conus.nc", "channel_rt_1"),
        ("analysis_assim/nwm.t16z.analysis_assim.terrain_rt.tm02.conus.nc", "terrain_rt"),
    ],
)
def test_the_product_of_the_water_model_is_without_its_configuration(
    key: str, product: str
) -> None:
    """What the folder tells already is no part of it."""
    match = default_catalogue().route("aws", "noaa-nwm-pds", f"nwm.20241029/{key}")
    assert isinstance(match, KeyMatch)
    assert match.groups["product"] == product
