"""Items of radar volumes, chunks and products: times, place and pattern are those of the files."""

from __future__ import annotations

import struct
from math import asin, cos, radians, sin, sqrt
from typing import TYPE_CHECKING, Any

import pytest
from shapely.geometry import Point, shape

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.object_store import ObjectBytes
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence
from tallgrass.stac.circle import circle
from tests.evidence.real_files import chunks, content
from tests.evidence.samples import chunk, ldm, nexrad, read, read_near, volume_header
from tests.stac import schemas
from tests.stac.real_items import item_of
from tests.stac.test_every_dataset import routed
from tests.support.builders import unit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LEVEL2 = FileFormat.NEXRAD_LEVEL2

#: Key → file, and the published ground truth: first and last radial, pattern, longitude, latitude.
VOLUMES: dict[str, tuple[str, str, str, int | None, float, float]] = {
    "2025/01/01/KDMX/KDMX20250101_225441_V06": (
        "KDMX20250101_225441_V06", "2025-01-01T22:54:41.879", "2025-01-01T23:04:15.816",
        31, -93.7229, 41.7312,
    ),
    "2015/04/30/KFTG/KFTG20150430_141911_V06": (
        "Level2_KFTG_20150430_1419.ar2v", "2015-04-30T14:19:10.269", "2015-04-30T14:22:32.333",
        212, -104.5458, 39.7866,
    ),
    "2010/05/01/KTLX/KTLX20100501_000444_V03.gz": (
        "KTLX20100501_000444_V03.gz", "2010-05-01T00:04:41.440", "2010-05-01T00:14:11.876",
        32, -97.2775, 35.3331,
    ),
    # Files before message 31 do not say where their radar is; the dataset's file does.
    "2005/03/29/KLTX/KLTX20050329_100015.gz": (
        "KLTX20050329_100015.gz", "2005-03-29T10:00:09.597", "2005-03-29T10:05:51.357",
        None, -78.43, 33.99,
    ),
    "1991/06/05/KTLX/KTLX19910605_162126.gz": (
        "KTLX19910605_162126.gz", "1991-06-05T16:21:26.826", "1991-06-05T16:27:08.346",
        None, -97.28, 35.33,
    ),
}  # fmt: skip


def kilometres(one: Iterable[float], other: Iterable[float]) -> float:
    """Return how far two places are apart, by the haversine formula."""
    (x1, y1), (x2, y2) = one, other
    y1, y2 = radians(y1), radians(y2)
    half = sin((y2 - y1) / 2) ** 2 + cos(y1) * cos(y2) * sin(radians(x2 - x1) / 2) ** 2
    return 2 * 6371.0088 * asin(sqrt(half))


def rings(geometry: Any) -> list[list[list[float]]]:
    """Return the exterior rings of a polygon or of several."""
    several = geometry["type"] == "MultiPolygon"
    parts = geometry["coordinates"] if several else [geometry["coordinates"]]
    return [part[0] for part in parts]


def is_circle(item: Any, longitude: float, latitude: float, km: float, *, off: float) -> None:
    """Check that each corner of an item's outline is so far from a place, give or take."""
    (ring,) = rings(item["geometry"])
    assert len(ring) <= 64
    assert ring[0] == ring[-1]
    for corner in ring:
        assert abs(kilometres(corner, (longitude, latitude)) - km) < off
    outline = shape(item["geometry"])
    assert outline.exterior.is_ccw
    assert item["bbox"] == list(outline.bounds)


@pytest.mark.parametrize("key", VOLUMES)
def test_a_volume_has_the_times_and_place_of_its_radials(key: str, tmp_path: Path) -> None:
    """Start and end are the first and last radial; the outline is 460 km around the radar."""
    file, start, end, pattern, longitude, latitude = VOLUMES[key]
    item = item_of(tmp_path, f"unidata-nexrad-level2/{key}", content(f"nexrad-l2/{file}"))
    told = item["properties"]
    assert (told["start_datetime"], told["end_datetime"]) == (f"{start}000Z", f"{end}000Z")
    assert start < told["datetime"] < end
    assert told.get("nexrad:vcp") == pattern
    site = key.split("/")[3]
    assert (told["platform"], told["nexrad:site"]) == (site, site)
    assert (told["constellation"], told["instruments"]) == ("nexrad", ["wsr-88d"])
    assert told["processing:level"] == "L2"
    # What a file tells is exact; the dataset's file has hundredths of a degree.
    is_circle(item, longitude, latitude, 460, off=0.05 if pattern else 1.0)
    assert schemas.core_errors(item) == []


def test_an_old_volume_from_afar_has_one_time() -> None:
    """Of a gzip file that is not near nobody decompresses the end: no end is told."""
    header, issues = read(LEVEL2, content("nexrad-l2/KTLX19910605_162126.gz"))
    assert (header["volume_time"], issues) == ("1991-06-05T16:21:26.355000Z", ())
    assert not {"start", "end"} & set(header)
    told = routed("unidata-nexrad-level2", "1991/06/05/KTLX/KTLX19910605_162126.gz", header)
    assert told["properties"]["datetime"] == "1991-06-05T16:21:26.355000Z"
    assert "end_datetime" not in told["properties"]


def test_a_volume_from_afar_has_its_end_by_the_last_record() -> None:
    """Head and tail tell the last radial, as the whole file does."""
    data = content("nexrad-l2/KDMX20250101_225441_V06")
    assert read(LEVEL2, data) == read_near(LEVEL2, data)


class Far:
    """One object that is not near: each further range is a request, and is counted."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.requests: list[tuple[int, int]] = []

    def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes:
        """Return head and tail."""
        del object_uri
        return ObjectBytes(
            head=self.data[:4096],
            tail=self.data[-tail_bytes:],
            size=len(self.data),
            etag="e",
            more=self._more,
        )

    def _more(self, start: int, length: int) -> bytes:
        self.requests.append((start, length))
        return self.data[start : start + length]


@pytest.mark.parametrize(
    ("file", "start", "requests"),
    [
        # Its header tells the first radial to the millisecond.
        ("KDMX20250101_225441_V06", None, 0),
        # Its header has whole seconds, 0.7 s late.
        ("Level2_KFTG_20150430_1419.ar2v", "2015-04-30T14:19:10.269000Z", 1),
    ],
)
def test_the_first_radial_is_asked_for_only_where_the_header_cannot_tell(
    file: str, start: str | None, requests: int
) -> None:
    """One more request from afar, of less than 200 kB, and none where it would tell nothing new."""
    far = Far(content(f"nexrad-l2/{file}"))
    reader = ObjectEvidenceReader(far, lambda _: LEVEL2, threads=1)
    (answer,) = reader.read([unit(0, dataset="nexrad-l2")])
    assert isinstance(answer, Evidence)
    assert (answer.header.get("start"), len(far.requests)) == (start, requests)
    assert all(length < 200_000 for _, length in far.requests)
    assert answer.header["end"] == read_near(LEVEL2, far.data)[0]["end"]


def test_a_volume_whose_last_record_is_damaged_is_not_sound() -> None:
    """A record of the right length that cannot be decompressed is no record."""
    data = bytearray(content("nexrad-l2/KDMX20250101_225441_V06"))
    data[-20_000] ^= 0xFF
    for header, issues in (read(LEVEL2, bytes(data)), read_near(LEVEL2, bytes(data))):
        assert (header["complete"], issues) == (False, ("content_type_invalid",))


def radial(day: int, milliseconds: int) -> bytes:
    """Return a radial (message 31) without any block."""
    body = struct.pack(">4sIH", b"KTWX", milliseconds, day) + bytes(22)
    return bytes(12) + struct.pack(">HBB", (16 + len(body)) // 2, 8, 31) + bytes(12) + body


def test_a_radial_of_another_day_tells_no_end() -> None:
    """A last radial far from the volume's start is not this volume's."""
    day, noon = 20606, 43_200_000
    for last, end in (((day, noon), "2026-06-01T12:00:00.000000Z"), ((day + 2, noon), None)):
        data = nexrad(b"metadata", radial(day, noon - 9000), radial(*last))
        header, issues = read_near(LEVEL2, data)
        assert (header.get("end"), issues) == (end, ())


def test_a_radial_without_a_possible_time_is_passed_over() -> None:
    """Day zero and a 25th hour are no times; the radial before them is the last."""
    day, noon = 20606, 43_200_000
    block = radial(day, noon) + radial(0, noon) + radial(day, 90_000_000)
    assert read_near(LEVEL2, nexrad(b"metadata", block))[0]["end"] == "2026-06-01T12:00:00.000000Z"


def test_a_record_that_grows_without_end_is_not_decompressed_to_it() -> None:
    """A small record with 100 MB inside is refused, not held in memory."""
    data = volume_header() + ldm(b"metadata") + ldm(bytes(100_000_000), last=True)
    assert len(data) < 1000
    assert read_near(LEVEL2, data)[1] == ("content_type_invalid",)


# --- chunks ---------------------------------------------------------------------------------------


def chunk_item(folder: Path, name: str) -> Any:
    """Return the item of one of the real chunks."""
    data = chunks()[f"20260328-201457-{name}"]
    return item_of(folder, f"unidata-nexrad-level2-chunks/KLOT/901/20260328-201457-{name}", data)


def test_a_chunk_has_the_times_of_its_own_radials(tmp_path: Path) -> None:
    """The first radials are the volume's first, the last chunk ends as the volume does."""
    first = chunk_item(tmp_path, "002-I")["properties"]
    last = chunk_item(tmp_path, "055-E")["properties"]
    assert first["start_datetime"] == "2026-03-28T20:14:57.447000Z"
    assert last["end_datetime"] == "2026-03-28T20:21:33.131000Z"
    assert first["end_datetime"] < last["start_datetime"]
    assert [each["nexrad:part"] for each in (first, last)] == ["intermediate", "end"]
    assert [each["nexrad:chunk"] for each in (first, last)] == [2, 55]
    assert [each["nexrad:volume"] for each in (first, last)] == [901, 901]
    assert [each["nexrad:vcp"] for each in (first, last)] == [35, 35]


def test_chunks_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    """Each chunk of a volume begins after the one before, and all lie around the same radar."""
    told = [chunk_item(tmp_path, f"{number:03}-I") for number in (2, 3, 4)]
    ends = [each["properties"]["end_datetime"] for each in told]
    assert all(
        end < after["properties"]["start_datetime"]
        for end, after in zip(ends, told[1:], strict=False)
    )
    for each in told:
        is_circle(each, -88.0844, 41.6044, 460, off=0.05)


def test_the_first_chunk_has_the_volumes_time(tmp_path: Path) -> None:
    """It holds metadata and no radial: one time, that of its volume header."""
    item = chunk_item(tmp_path, "001-S")
    assert item["properties"]["datetime"] == "2026-03-28T20:14:57.447000Z"
    assert "end_datetime" not in item["properties"]
    assert item["properties"]["nexrad:part"] == "start"
    is_circle(item, -88.085, 41.605, 460, off=0.2)


def test_a_chunk_whose_record_is_damaged_is_not_sound() -> None:
    """A record with its right length and end that cannot be decompressed has an issue."""
    data = bytearray(chunk("I"))
    data[24] ^= 0xFF
    assert read(FileFormat.NEXRAD_CHUNK, bytes(data))[1] == ("content_type_invalid",)


# --- products -------------------------------------------------------------------------------------


def test_a_product_has_code_times_tilt_and_place(tmp_path: Path) -> None:
    """What the product's description says is in its item."""
    item = item_of(
        tmp_path,
        "unidata-nexrad-level3/TLX_N0Q_2013_05_20_20_16_43",
        content("nexrad-l3/KOUN_SDUS54_N0QTLX_201305202016"),
    )
    told = item["properties"]
    assert told["datetime"] == "2013-05-20T20:16:43.000000Z"
    assert told["processing:datetime"] == "2013-05-20T20:16:49.000000Z"
    assert (told["nexrad:product"], told["nexrad:product_code"]) == ("N0Q", 94)
    assert (told["nexrad:elevation_angle"], told["nexrad:vcp"]) == (0.5, 12)
    assert (told["nexrad:site"], told["instruments"]) == ("TLX", ["wsr-88d"])
    # 1,277 feet.
    assert told["nexrad:antenna_elevation"] == 389
    is_circle(item, -97.278, 35.333, 460, off=0.05)


def test_an_airports_radar_is_of_another_network(tmp_path: Path) -> None:
    """A product of a terminal radar names TDWR, and reaches less far."""
    item = item_of(
        tmp_path,
        "unidata-nexrad-level3/MCI_TZL_2016_05_26_21_54_08",
        content("nexrad-l3/Level3_MCI_TZL_20160526_2154.nids"),
    )
    told = item["properties"]
    assert (told["constellation"], told["mission"], told["instruments"]) == (
        *("tdwr", "TDWR"), ["tdwr"],
    )  # fmt: skip
    assert (told["nexrad:product_code"], told["nexrad:elevation_angle"]) == (186, 0.6)
    is_circle(item, -94.742, 39.498, 417, off=0.05)


def test_a_status_message_has_its_keys_time_and_its_sites_place(tmp_path: Path) -> None:
    """It has no product description: the dataset's file tells where the radar is."""
    item = item_of(
        tmp_path,
        "unidata-nexrad-level3/TLX_GSM_2013_05_20_21_00_59",
        content("nexrad-l3/KOUN_NXUS64_GSMTLX_201305202100"),
    )
    assert item["properties"]["datetime"] == "2013-05-20T21:00:59.000000Z"
    is_circle(item, -97.28, 35.33, 460, off=0.1)


def test_an_unknown_radar_is_placed_by_its_file_or_not_at_all() -> None:
    """A site that no dataset file lists has a place if its object tells one, else none."""
    header: dict[str, object] = {"latitude": 1.5, "longitude": 179.5, "site": "ZZZ"}
    key = "ZZZ_N0Q_2013_05_20_20_16_43"
    told = routed("unidata-nexrad-level3", key, header)
    assert told["geometry"]["type"] == "MultiPolygon"
    assert told["bbox"][0] > told["bbox"][2]
    unread = routed("unidata-nexrad-level3", key)
    assert unread["geometry"] is None
    assert "bbox" not in unread


# --- circles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("longitude", [179.0, -178.5, 180.0])
def test_a_circle_across_the_antimeridian_is_cut_there(longitude: float) -> None:
    """Its parts meet at ±180, and its box has its west beyond its east."""
    found = circle(longitude, 52.0, 460.0)
    west, south, east, north = found.box
    assert west > 0 > east
    assert (south, north) == pytest.approx((47.8631, 56.1369), abs=0.001)
    parts = rings(found.geometry)
    assert len(parts) == 2
    assert sum(len(part) for part in parts) <= 64
    for part in parts:
        assert all(abs(x) <= 180 for x, _ in part)
        edge = [corner for corner in part if abs(corner[0]) == 180]
        assert len(edge) >= 2
    for part in parts:
        for corner in part:
            if abs(corner[0]) < 180:
                assert kilometres(corner, (longitude, 52.0)) == pytest.approx(460, abs=0.1)
    assert shape(found.geometry).is_valid


@pytest.mark.parametrize(("latitude", "pole"), [(88.0, 90.0), (-88.0, -90.0)])
def test_a_circle_with_a_pole_in_it_goes_all_round(latitude: float, pole: float) -> None:
    """It reaches to the pole on every longitude."""
    found = circle(20.0, latitude, 460.0)
    assert (found.box[0], found.box[2]) == (-180.0, 180.0)
    assert pole in found.box
    outline = shape(found.geometry)
    assert outline.is_valid
    assert all(outline.contains(Point(x, pole * 0.9999)) for x in (-170, -90, 0, 90, 170))
    assert not outline.contains(Point(-160.0, pole * 0.9))


def test_every_radar_of_the_files_has_a_sound_outline() -> None:
    """Alaska, Guam, Okinawa, the Azores: 207 outlines, each valid and around its radar."""
    dataset = default_catalogue().named("nexrad-l3")
    assert len(dataset.item.circles) == 207
    for longitude, latitude, reach in dataset.item.circles.values():
        outline = shape(circle(longitude, latitude, reach).geometry)
        assert outline.is_valid
        assert outline.contains(Point(longitude, latitude))
        assert outline.geom_type == "Polygon"
