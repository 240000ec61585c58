"""`tallgrass inspect object`: what the pipeline would make of a file; every real file there is."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tallgrass.cli.main import cli
from tallgrass.evidence.object_store import OneFile
from tallgrass.evidence.reading import ReadFailure
from tests.cli.command import tallgrass
from tests.datasets.noaa_data import noaa_data
from tests.evidence.real_files import chunks, content
from tests.pipeline.scene import Pipeline, thing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

GLM = "OR_GLM-L2-LCFA_G16_s2018"
ABI = "OR_ABI-L2-LSTM2-M6_G16_s20211381700538_e20211381700595_c20211381701211.nc"
EXIS = "OR_EXIS-L1b-SFXR_G17_s20202900000000_e20202910000000_c20202910000100.nc"
L2 = "unidata-nexrad-level2"
L3 = "unidata-nexrad-level3"
MRMS = "noaa-mrms-pds"
GFS = "noaa-gfs-bdp-pds"
WAVE = "gfs.20230823/18/wave/gridded/gfswave.t18z.atlocn.0p16.f001.grib2"


def mrms(domain: str, product: str, level: str, stamp: str, ending: str = ".gz") -> tuple[str, str]:
    """Return file and key of an MRMS object."""
    name = f"MRMS_{product}_{level}_{stamp}.grib2{ending}"
    return f"mrms/{domain}/{name}", f"{MRMS}/{domain}/{product}_{level}/{stamp[:8]}/{name}"


#: File → bucket and key, integrity, and some of its evidence: seen by eye, or as published (radar
#: times of first and last radial).
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    f"goes-abi/{ABI}": (
        f"noaa-goes16/ABI-L2-LSTM/2021/138/17/{ABI}",
        "ok",
        {"format": "hdf5", "start": "2021-05-18T17:00:53.8", "end": "2021-05-18T17:00:59.5"},
    ),
    "goes-exis/sci_xrsf-l2-flx1s_g17_d20201016_truncated.nc": (
        f"noaa-goes17/EXIS-L1b-SFXR/2020/290/00/{EXIS}",
        "ok",
        {"complete": True},
    ),
    **{
        f"goes-glm/{name}": (f"{bucket}/GLM-L2-LCFA/{folder}/{name}", "ok", {"complete": True})
        for bucket, folder, name in (
            ("noaa-goes16", "2018/159/14", f"{GLM}1591447400_e20181591448000_c20181591448028.nc"),
            ("noaa-goes16", "2018/183/04", f"{GLM}1830433000_e20181830433200_c20181830433231.nc"),
            ("noaa-goes16", "2018/183/04", f"{GLM}1830433200_e20181830433400_c20181830433424.nc"),
            ("noaa-goes16", "2018/183/04", f"{GLM}1830433400_e20181830434000_c20181830434029.nc"),
            (
                "noaa-goes19",
                "2025/097/13",
                "OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc",
            ),
        )
    },
    "nclimgrid/prcp-202201-grd-scaled.nc": (
        "noaa-nclimgrid-daily-pds/access/grids/by-month/2022/01/prcp-202201-grd-scaled.nc",
        "ok",
        {},
    ),
    "ghcn-d/1763-1764.csv": ("noaa-ghcn-pds/csv/by_year/1763.csv", "ok", {}),
    "gefs/gec00_20250101_00_soilw.grib": (
        "noaa-gefs-pds/gefs.20250101/00/atmos/pgrb2ap5/gec00.t00z.pgrb2a.0p50.f003",
        "ok",
        {"forecast_time_s": 10_800},
    ),
    "gfs/gfs.t06z.pgrb2.10p0.f010.grib2": (
        f"{GFS}/gfs.20210918/06/atmos/gfs.t06z.pgrb2.1p00.f010",
        "ok",
        {"forecast_time_s": 36_000},
    ),
    "gfs/gfs.t12z.pgrb2.0p25.f023-PV-TMP-missing.grib2": (
        f"{GFS}/gfs.20260605/12/atmos/gfs.t12z.pgrb2.0p25.f023",
        "ok",
        {"forecast_time_s": 82_800},
    ),
    "gfs/gfswave.t18z.atlocn.0p16.f001.grib2": (f"{GFS}/{WAVE}", "ok", {"messages": 19}),
    "hrrr/hrrr.t06z.wrfsfcf01-TMP.grib2": (
        "noaa-hrrr-bdp-pds/hrrr.20230722/conus/hrrr.t06z.wrfsfcf01.grib2",
        "ok",
        {"forecast_time_s": 3600},
    ),
    "hrrr/hrrr.wrfsubhf.sample.grib2": (
        "noaa-hrrr-bdp-pds/hrrr.20221014/conus/hrrr.t01z.wrfsubhf01.grib2",
        "ok",
        {"messages": 2},
    ),
    # A stray letter stands behind each of its four messages.
    "hrrr/hrrr_srad.grib2": (
        "noaa-hrrr-bdp-pds/hrrr.20231017/conus/hrrr.t09z.wrfsubhf01.grib2",
        "suspect",
        {"complete": False},
    ),
    **{
        file: (key, "ok", {"complete": True, "messages": 1})
        for file, key in (
            mrms("ALASKA", "MultiSensor_QPE_01H_Pass1", "00.00", "20221024-015800"),
            mrms("CONUS", "EchoTop_18", "00.50", "20161015-133230", ""),
            mrms("CONUS", "MultiSensor_QPE_01H_Pass2", "00.00", "20220602-120000"),
            mrms("CONUS", "PrecipFlag", "00.00", "20260219-042400"),
            mrms("CONUS", "ReflectivityAtLowestAltitude", "00.50", "20230406-120039"),
        )
    },
    "nbm/blend.t00z.core.f001.tmp.co.grib2": (
        "noaa-nbm-grib2-pds/blend.20250901/00/core/blend.t00z.core.f001.co.grib2",
        "ok",
        {"messages": 1},
    ),
    # A copy that somebody packed: no such object is in the bucket.
    "ndfd/ds.critfireo.bin.xz": (
        "noaa-ndfd-pds/wmo/critfireo/2020/12/29/YGUZ98_KWBN_202012291149",
        "failed",
        {},
    ),
    "ndfd/ds.mint.bin": (
        "noaa-ndfd-pds/wmo/mint/2008/02/21/YHAZ98_KWBN_200802211651",
        "ok",
        {"bulletin": "YHAZ98 KWBN 211651"},
    ),
    "ndfd/ds.temp.bin": (
        "noaa-ndfd-pds/wmo/temp/2025/02/06/YEUZ98_KWBN_202502060030",
        "ok",
        {"start": "2025-02-06T01:00:00", "end": "2025-02-06T02:00:00"},
    ),
    "rap/rap.tsoil.gdt32769.grib2": (
        "noaa-rap-pds/rap.20230910/rap.t00z.awp130pgrbf01.grib2",
        "ok",
        {"start": "2023-09-10T01:00:00"},
    ),
    "nexrad-l2-chunks/Level2_KLBB_single_chunk": (
        f"{L2}-chunks/KLBB/426/20200823-203255-002-I",
        "ok",
        {"part": "I", "complete": True},
    ),
    "nexrad-l2/KDMX20220305_record_00.bin": (
        f"{L2}-chunks/KDMX/1/20220305-232324-002-I",
        "ok",
        {"part": "I", "complete": True},
    ),
    "nexrad-l2/KDMX20250101_225441_V06": (
        f"{L2}/2025/01/01/KDMX/KDMX20250101_225441_V06",
        "ok",
        {
            "site": "KDMX",
            "volume_time": "2025-01-01T22:54:41.879",
            "end": "2025-01-01T23:04:15.816",
        },
    ),
    "nexrad-l2/Level2_KFTG_20150430_1419.ar2v": (
        f"{L2}/2015/04/30/KFTG/KFTG20150430_141911_V06",
        "ok",
        {"volume_time": "2015-04-30T14:19:11.000", "end": "2015-04-30T14:22:32.333"},
    ),
    "nexrad-l2/KTLX20100501_000444_V03.gz": (
        f"{L2}/2010/05/01/KTLX/KTLX20100501_000444_V03.gz",
        "ok",
        {"volume_time": "2010-05-01T00:04:44.000", "end": "2010-05-01T00:14:11.876"},
    ),
    "nexrad-l2/KLTX20050329_100015.gz": (
        f"{L2}/2005/03/29/KLTX/KLTX20050329_100015.gz",
        "ok",
        {"site": "KLTX", "end": "2005-03-29T10:05:51.357"},
    ),
    "nexrad-l2/KTLX19910605_162126.gz": (
        f"{L2}/1991/06/05/KTLX/KTLX19910605_162126.gz",
        "ok",
        {"site": None, "end": "1991-06-05T16:27:08.346"},
    ),
    # Metadata without radials, and a volume of which two records are left: neither has an end.
    "nexrad-l2/KJKL_20240227_102059": (
        f"{L2}/2024/02/27/KJKL/KJKL20240227_102059_V06",
        "failed",
        {"site": "KJKL", "complete": False},
    ),
    "nexrad-l2/example_nexrad_archive_msg31_compressed.ar2v": (
        f"{L2}/2013/07/17/KATX/KATX20130717_195024_V06",
        "failed",
        {"site": "KATX", "complete": False},
    ),
    **{
        f"nexrad-l3/{name}": (
            f"{L3}/{key}",
            "ok",
            {"message_code": code, "site": key[:3], "complete": True},
        )
        for name, key, code in (
            ("KOUN_NXUS64_GSMTLX_201305202100", "TLX_GSM_2013_05_20_21_00_00", 2),
            ("KOUN_SDUS34_NVWTLX_201305202016", "TLX_NVW_2013_05_20_20_16_43", 48),
            ("KOUN_SDUS54_N0QTLX_201305202016", "TLX_N0Q_2013_05_20_20_16_43", 94),
            ("KOUN_SDUS64_NHITLX_201305202016", "TLX_NHI_2013_05_20_20_16_43", 59),
            ("KOUN_SDUS84_DPRTLX_201305202016", "TLX_DPR_2013_05_20_20_16_43", 176),
            ("Level3_MCI_TZL_20160526_2154.nids", "MCI_TZL_2016_05_26_21_54_08", 186),
        )
    },
}
INDEXES = {
    "gfs/gfs.t06z.pgrb2.10p0.f010.grib2.idx": (
        f"{GFS}/gfs.20210918/06/atmos/gfs.t06z.pgrb2.1p00.f010.idx",
        6,
    ),
    "gfs/gfswave.t18z.atlocn.0p16.f001.grib2.idx": (f"{GFS}/{WAVE}.idx", 19),
}
#: Looked at chunk by chunk.
CHUNKS = "nexrad-l2-chunks/nexrad_level2_chunks_KLOT.tar.gz"
#: What is no data.
OTHERS = ("messages", "stac-expected", "keys", "registry")


def ask(file: Path, key: str) -> dict[str, Any]:
    """Run the command in this process: a new one for each of forty files would take a minute."""
    done = CliRunner().invoke(cli, ["inspect", "object", str(file), "--key", f"s3://{key}"])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def begins_with(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Tell whether all expected values are there; of a time the first digits."""
    return all(
        name in found
        and (str(found[name]).startswith(value) if isinstance(value, str) else found[name] == value)
        for name, value in expected.items()
    )


def test_no_file_is_left_out() -> None:
    """Each data file of the manifest is in the tables here."""
    with noaa_data("MANIFEST.csv").open(encoding="utf-8", newline="") as rows:
        listed = {row["file"] for row in csv.DictReader(rows)}
    data = {file for file in listed if not file.startswith(OTHERS)}
    assert data == {*FILES, *INDEXES, CHUNKS}


@pytest.mark.parametrize("file", FILES)
def test_a_real_file_gets_its_verdict(file: str) -> None:
    """Evidence and verdict of each real file under a key of its kind; an item unless it failed."""
    key, integrity, expected = FILES[file]
    path = noaa_data(*file.split("/"))
    answer = ask(path, key)
    assert list(answer) == ["evidence", "integrity", "metadata", "item"]
    evidence = answer["evidence"]
    data = path.read_bytes()
    assert evidence["etag"] == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert evidence["size"] == len(data)
    assert begins_with(evidence["header"], expected), evidence["header"]
    assert answer["integrity"]["status"] == integrity
    assert [bool(found["message"]) for found in answer["integrity"]["issues"]] == [True] * (
        integrity != "ok"
    )
    if integrity == "failed":
        assert (answer["metadata"]["status"], answer["item"]) == ("unknown", None)
    else:
        assert (answer["metadata"]["status"], answer["metadata"]["issues"]) == ("ok", [])
        assert answer["item"]["type"] == "Feature"
        assert answer["item"]["assets"]["data"]["href"] == f"s3://{key}"
        assert answer["item"]["assets"]["data"]["file:size"] == len(data)


GRIB2 = [
    file
    for file, (_, integrity, _) in FILES.items()
    if file.startswith(("gefs", "gfs", "hrrr", "mrms", "nbm", "ndfd", "rap")) and integrity == "ok"
]


@pytest.mark.parametrize("file", GRIB2)
def test_eccodes_says_the_same_of_a_forecast(file: str) -> None:
    """Number of messages, run, and the first and last time that the file is for."""
    eccodes = pytest.importorskip("eccodes")
    data = content(file)
    data = gzip.decompress(data) if file.endswith(".gz") else data
    runs, valid, position = set(), [], 0
    while (at := data.find(b"GRIB", position)) >= 0:
        handle = eccodes.codes_new_from_message(data[at:])
        names = ("year", "month", "day", "hour", "minute", "second")
        digits = "{:04}{:02}{:02}{:02}{:02}{:02}"
        run = digits.format(*(eccodes.codes_get(handle, name) for name in names))
        runs.add(run)
        day, minute = (eccodes.codes_get(handle, f"validity{name}") for name in ("Date", "Time"))
        valid.append(f"{day:08}{minute:04}")
        position = at + eccodes.codes_get(handle, "totalLength")
        eccodes.codes_release(handle)
    header = ask(noaa_data(*file.split("/")), FILES[file][0])["evidence"]["header"]
    assert header["messages"] == len(valid)
    assert {f"{datetime.fromisoformat(header['reference_time']):%Y%m%d%H%M%S}"} == runs
    ends = [header[name] for name in ("valid_end", "end") if name in header]
    assert f"{datetime.fromisoformat(max(ends)):%Y%m%d%H%M}" == max(valid)


@pytest.mark.parametrize("file", [file for file in FILES if file.endswith(".nc")])
def test_h5py_says_the_same_of_an_observation(file: str) -> None:
    """The item spans the coverage that the file's own attributes tell, where they do."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(noaa_data(*file.split("/"))) as opened:
        names = ("time_coverage_start", "time_coverage_end")
        told = [opened.attrs[name].decode() for name in names if name in opened.attrs]
    properties = ask(noaa_data(*file.split("/")), FILES[file][0])["item"]["properties"]
    if file.startswith("nclimgrid"):
        assert told == []
        told = ["2022-01-01T00:00:00Z", "2022-01-31T23:59:59Z"]
    spans = [properties["start_datetime"], properties["end_datetime"]]
    assert [datetime.fromisoformat(each) for each in spans] == [
        datetime.fromisoformat(each) for each in told
    ]


def test_every_chunk_of_a_volume_is_read_under_its_key(tmp_path: Path) -> None:
    """The first has the volume's header, the last is marked as such, the others are between."""
    parts = []
    for name, data in chunks().items():
        path = tmp_path / name
        path.write_bytes(data)
        answer = ask(path, f"{L2}-chunks/KLOT/901/{name}")
        assert (answer["integrity"]["status"], answer["metadata"]["issues"]) == ("ok", [])
        header = answer["evidence"]["header"]
        assert header["part"] == name[-1]
        parts.append(header["part"])
        if header["part"] == "S":
            assert header["volume_time"].startswith("2026-03-28T20:14:57.447")
    assert parts == ["S", *"I" * 53, "E"]


@pytest.mark.parametrize("file", INDEXES)
def test_an_index_is_compared_with_its_file(file: str, tmp_path: Path) -> None:
    """Its offsets are told; where its file lies beside it, those that are wrong are found."""
    key, messages = INDEXES[file]
    answer = ask(noaa_data(*file.split("/")), key)
    assert answer["ignored"] == "sidecar"
    assert [answer[name] for name in ("integrity", "metadata", "item")] == [None, None, None]
    header = answer["evidence"]["header"]
    assert (header["messages"], header["wrong_offsets"]) == (messages, [])
    assert len(header["offsets"]) == messages
    alone = tmp_path / "alone.idx"
    alone.write_bytes(content(file))
    assert "wrong_offsets" not in ask(alone, key)["evidence"]["header"]
    beside = tmp_path / "alone"
    beside.write_bytes(content(file.removesuffix(".idx"))[1:])
    assert ask(alone, key)["evidence"]["header"]["wrong_offsets"] == header["offsets"]
    alone.write_bytes(b"no index\n")
    assert ask(alone, key)["evidence"]["issues"] == ["content_type_invalid"]


# --- files of our own: these need no real data --------------------------------------------------


@pytest.fixture
def volume(tmp_path: Path) -> tuple[Path, str]:
    """A radar volume of the simulated feed, and its address."""
    made = thing(dataset="nexrad-l2")
    path = tmp_path / "a volume #1 100%.ar2v"
    path.write_bytes(made.content)
    return path, made.uri


def test_the_item_is_the_one_that_a_worker_stores(
    backend: Backend, tmp_path: Path, volume: tuple[Path, str]
) -> None:
    """Byte for byte, evidence too: what the command shows is what the ledger keeps."""
    pipeline = Pipeline(backend, tmp_path)
    made = thing(dataset="nexrad-l2")
    pipeline.feed(made)
    pipeline.worker.run_messages()
    stored = pipeline.item(made)
    assert stored is not None
    path, uri = volume
    answer = ask(path, uri.removeprefix("s3://"))
    assert answer["item"] == json.loads(bytes(stored["body"]))
    assert answer["evidence"] == json.loads(pipeline.attempts(made)[0]["evidence"])


def test_a_damaged_file_is_answered_with_what_is_wrong(volume: tuple[Path, str]) -> None:
    """A cut volume is failed with its code and has no item; the command did its work."""
    path, uri = volume
    path.write_bytes(path.read_bytes()[:-10])
    done = tallgrass("inspect", "object", str(path), "--key", uri)
    assert (done.code, done.err) == (0, "")
    assert done.json["integrity"]["status"] == "failed"
    assert [found["code"] for found in done.json["integrity"]["issues"]] == ["size_too_small"]
    assert done.json["item"] is None
    table = tallgrass("inspect", "object", str(path), "--key", uri, "--output", "table")
    assert table.code == 0
    assert "size_too_small" in table.out
    assert "No item would be stored." in table.out


def test_people_read_a_page(volume: tuple[Path, str]) -> None:
    """With --output table: what was read, what the checks say, what the item says."""
    path, uri = volume
    done = tallgrass("inspect", "object", str(path), "--key", uri, "--output", "table")
    assert (done.code, done.err) == (0, "")
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == uri
    assert any(line.split() == ["format", "nexrad-level2"] for line in lines)
    assert any(line.split() == ["integrity", "ok"] for line in lines)
    assert any(line.startswith("Item ") for line in lines)


def test_a_large_file_with_an_odd_name_is_read(tmp_path: Path) -> None:
    """One that is read in pieces is found whatever its name holds."""
    path = tmp_path / "a b#c%20d.csv"
    path.write_bytes(b"x" * 5_000_000)
    answer = ask(path, "noaa-ghcn-pds/csv/by_year/1763.csv")
    assert (answer["evidence"]["size"], answer["integrity"]["status"]) == (5_000_000, "ok")


def test_a_read_that_fails_ends_with_1(
    volume: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says why nothing was read."""
    path, uri = volume
    failed = ReadFailure(code="io_error", message="changed while it was read")
    monkeypatch.setattr(OneFile, "read", lambda *_: failed)
    done = CliRunner().invoke(cli, ["inspect", "object", str(path), "--key", uri])
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert (answer["evidence"], answer["item"]) == (None, None)
    assert [found["code"] for found in answer["integrity"]["issues"]] == ["io_error"]


@pytest.mark.parametrize(
    ("file", "uri", "code", "said"),
    [
        ("none", "s3://noaa-ghcn-pds/csv/by_year/1763.csv", 2, "none"),
        (".", "s3://noaa-ghcn-pds/csv/by_year/1763.csv", 2, "directory"),
        ("file", "s3://nobodys-pds/x", 2, "no dataset claims"),
        ("file", "nobodys-pds/x", 2, "not scheme://bucket/key"),
    ],
    ids=["no file", "a folder", "nobody's bucket", "no address"],
)
def test_what_cannot_be_inspected_is_an_error(
    tmp_path: Path, file: str, uri: str, code: int, said: str
) -> None:
    """It says what is wrong with file or key, and ends with 2."""
    (tmp_path / "file").write_bytes(b"x")
    done = tallgrass("inspect", "object", file, "--key", uri, "--output", "json", cwd=str(tmp_path))
    assert (done.code, done.out) == (code, "")
    assert said in done.error["message"]
