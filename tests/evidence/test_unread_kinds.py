"""Objects that no reader reads: zeros, error documents, wrong or missing ends are still seen."""

from __future__ import annotations

import bz2
import gzip

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.formats import HEAD_BYTES, TAIL_BYTES
from tallgrass.evidence.header import Seen
from tallgrass.evidence.kinds import issue_of
from tallgrass.evidence.object_store import ObjectBytes
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence
from tests.datasets.noaa_data import noaa_data
from tests.support.builders import unit

OTHER, SHORT = "content_type_invalid", "size_too_small"
ERROR = b"<?xml version='1.0' encoding='UTF-8'?>\n<Error><Code>SlowDown</Code></Error>"
PAGE = b"<!DOCTYPE html><html><body>503</body></html>"

#: One key of each dataset that has several formats, or one without a place and time of its own.
KEYS = {
    "nclimgrid": "noaa-nclimgrid-monthly-pds/access/prcp-202402-grd-scaled.nc",
    "nclimgrid.csv": "noaa-nclimgrid-monthly-pds/access/prcp-202402-grd-scaled.csv",
    "ofs": "noaa-nos-ofs-pds/cbofs.20240910/cbofs.t06z.20240910.fields.n006.nc",
    "himawari": "noaa-himawari8/AHI-L1b-FLDK/2021/02/25/0700/"
    "HS_H08_20210225_0700_B07_FLDK_R20_S0110.DAT.bz2",
    "nbm-cog": "noaa-nbm-pds/blendv5.0/conus/2026/06/06/1500/spctor4hr/"
    "blendv5.0_conus_spctor4hr_2026-06-06T15:00_2026-06-06T19:00.tif",
    "jpss-atms": "noaa-nesdis-snpp-pds/ATMS-SDR/2020/09/11/"
    "SATMS_npp_d20200911_t1153460_e1154176_b14587_c20200911120205330501_oebc_ops.h5",
    "jpss-cris": "noaa-nesdis-n20-pds/CrIS-FS-SDR/2020/09/11/"
    "SCRIF_j01_d20200911_t2359299_e0000277_b14587_c20200912002205330501_oebc_ops.h5",
    "jpss-omps": "noaa-nesdis-snpp-pds/OMPS-TC-SDR/2020/09/11/"
    "SOMTC_npp_d20200911_t1153460_e1154234_b14587_c20200911120205330501_oebc_ops.h5",
    "jpss-other": "noaa-nesdis-n20-pds/SOUNDING-MIRS/2026/04/16/"
    "MIRS_v11r9_n20_s202604162301309_e202604162302556_c202604162344501.nc",
    "graphcast-gfs": "noaa-nws-graphcastgfs-pds/graphcastgfs.20240510/06/"
    "forecasts_13_levels/graphcastgfs.t06z.pgrb2.0p25.f240",
    "fourcastnet-gfs": "noaa-nws-fourcastnetgfs-pds/fourcastnetgfs.20240510/06/"
    "forecasts_13_levels/fourcastnetgfs.t06z.pgrb2.0p25.f240",
    "ghcn-d": "noaa-ghcn-pds/csv/by_year/2000.csv",
    "ghcn-d.gz": "noaa-ghcn-pds/csv.gz/1788.csv.gz",
    "nodd-kerchunk": "noaa-nodd-kerchunk-pds/nos/tbofs/nos.tbofs.fields.n002.20230314.t00z.nc.zarr",
    # It has a file without a grammar.
    "aorc": "noaa-nws-aorc-v1-1-1km/1979.zarr/APCP_surface/0.0.0",
}


class Near:
    """One object of which every byte can be looked at."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, uri: str, tail_bytes: int) -> ObjectBytes:
        """Return head and tail."""
        del uri
        data = self._content
        return ObjectBytes(
            head=data[:HEAD_BYTES],
            tail=data[-tail_bytes:],
            size=len(data),
            etag="0" * 32,
            more=lambda at, length: data[at : at + length],
            near=True,
        )


def issues_of(place: str, data: bytes) -> tuple[str, ...]:
    """Return what the reader says of an object with this bucket and key."""
    bucket, key = place.split("/", 1)
    match = default_catalogue().route("aws", bucket, key)
    assert isinstance(match, KeyMatch)
    made = unit(0, object_uri=f"s3://{place}")
    (answer,) = ObjectEvidenceReader(Near(data), lambda _: match.dataset.format).read([made])
    assert isinstance(answer, Evidence), answer
    return answer.issues


@pytest.mark.parametrize("name", KEYS)
def test_zeros_and_error_documents_are_no_data(name: str) -> None:
    """Whatever the dataset is, neither is ever sound."""
    assert issues_of(KEYS[name], bytes(9000)) == (OTHER,)
    assert issues_of(KEYS[name], ERROR) == (OTHER,)
    if name != "aorc":
        assert issues_of(KEYS[name], PAGE) == (OTHER,)


def test_a_real_table_is_sound() -> None:
    """Text is what a table is made of; in gzip it is whole or not."""
    data = noaa_data("ghcn-d", "1763-1764.csv").read_bytes()
    assert issues_of(KEYS["ghcn-d"], data) == ()
    packed = gzip.compress(data, mtime=0)
    assert issues_of(KEYS["ghcn-d.gz"], packed) == ()
    assert issues_of(KEYS["ghcn-d.gz"], data) == (OTHER,)
    for length in (1, 2, len(packed) // 2, len(packed) - 1):
        assert issues_of(KEYS["ghcn-d.gz"], packed[:length]) == (SHORT,)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.parquet", b"PAR1" + b"x" * 5000 + b"PAR1"),
        ("a.DAT.bz2", bz2.compress(b"lines of an image" * 40)),
        ("a.nc.zarr", b'{"version": 1}\n'),
    ],
)
def test_an_end_that_is_missing_is_seen(name: str, data: bytes) -> None:
    """Formats that end with a mark are cut where it is not there."""

    def judged(part: bytes) -> str | None:
        return issue_of(name, Seen(part[:HEAD_BYTES], part[-TAIL_BYTES:], len(part)))

    assert judged(data) is None
    for length in (2, 7, len(data) // 2, len(data) - 2):
        assert judged(data[:length]) == SHORT
    if not name.endswith(".zarr"):
        assert judged(b"rubbish" + data) == OTHER


@pytest.mark.parametrize("name", ["a.xml", "a.html", "a.kml"])
def test_a_document_may_be_one(name: str) -> None:
    """A name that stands for markup is not held against it."""
    for data in (ERROR, PAGE):
        assert issue_of(name, Seen(data, data, len(data))) is None


def test_the_older_form_of_netcdf_has_the_same_name() -> None:
    """A `.nc` file of the classic form is no HDF5, and sound."""
    assert issues_of(KEYS["ofs"], b"CDF\x01" + bytes(3) + b"\x01" * 900) == ()
    assert issues_of(KEYS["ofs"], b"CDX\x01" + bytes(3) + b"\x01" * 900) == (OTHER,)
