"""What NODD publishes is known: each bucket and topic of its registry, each documented key."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.clock import parse_instant
from tallgrass.datasets.catalogue import IgnoredKey, KeyMatch, default_catalogue
from tallgrass.datasets.key_times import UNKNOWN_START
from tests.datasets.noaa_data import noaa_data

if TYPE_CHECKING:
    from tallgrass.datasets.definition import Dataset

#: The numbered datasets of the reference sheet.
NUMBERED = (
    *("goes-abi", "goes-glm", "goes-suvi", "goes-space", "goes19-ccor1", "nexrad-l2"),
    *("nexrad-l2-chunks", "nexrad-l3", "mrms", "hrrr", "gfs", "gfs-warmstart", "gefs", "rap"),
    *("nam", "nbm-grib2", "nbm-cog", "nbm-parallel", "ndfd", "nwm", "rtma", "urma", "rrfs", "cfs"),
    *("jpss-viirs", "jpss-cris", "jpss-atms", "jpss-omps", "himawari", "gk2a", "gmgsi"),
    *("rainrate", "ofs", "rtofs", "stofs-2d", "stofs-3d", "naqfc", "hafs", "graphcast-gfs"),
    *("fourcastnet-gfs", "ghcn-d", "ghcn-h", "isd", "gsod", "nclimgrid", "cdr-oisst", "swpc"),
    *("s111", "hysplit", "nodd-kerchunk", "dcdb"),
)
#: Those of which no key layout is known.
WITHOUT_LAYOUT = {
    *("goes19-ccor1", "gfs-warmstart", "nbm-parallel", "gmgsi", "rainrate", "rtofs", "stofs-2d"),
    *("stofs-3d", "naqfc", "ghcn-h", "isd", "gsod", "swpc", "s111", "hysplit", "dcdb"),
}


def registry() -> list[dict[str, Any]]:
    """Return the entries of the registry, or skip."""
    path = noaa_data("registry", "nodd-aws-registry.json")
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["datasets"]
    return entries


def vectors() -> list[dict[str, str]]:
    """Return the documented keys with their times, or skip."""
    path = noaa_data("keys", "key-vectors.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_bucket_of_the_registry_is_routed() -> None:
    """An object of each bucket has a dataset: as its unit, or as a key that is passed over."""
    named = [bucket["bucket"] for entry in registry() for bucket in entry["buckets"]]
    assert len(named) == 139
    catalogue = default_catalogue()
    assert [name for name in named if not catalogue.by_bucket("aws", name)] == []
    assert [name for name in named if catalogue.route("aws", name, "a/b.nc") is None] == []


def announced_by(topic: str) -> list[Dataset]:
    """Return the datasets that a topic announces, or did."""
    return [
        each
        for each in default_catalogue().datasets
        if topic in (*each.topics, *each.retired_topics)
    ]


def test_every_topic_of_the_registry_has_a_dataset() -> None:
    """A topic leads to datasets of a bucket of its own entry."""
    topics = 0
    for entry in registry():
        buckets = {bucket["bucket"] for bucket in entry["buckets"]}
        for topic in entry["sns_topics"]:
            topics += 1
            found = announced_by(topic["arn"])
            assert found, topic["arn"]
            assert all(buckets & set(each.buckets) for each in found), topic["arn"]
    assert topics == 84


def test_the_numbered_datasets_are_there() -> None:
    """Each has a file of its id; it has a grammar where its layout is known."""
    found = {name: default_catalogue().dataset(name) for name in NUMBERED}
    assert [name for name, each in found.items() if each is None] == []
    generic = {name for name, each in found.items() if each is not None and each.key.generic}
    assert generic == WITHOUT_LAYOUT


@pytest.mark.parametrize(
    ("topic", "ids"),
    [
        ("arn:aws:sns:us-east-1:709902155096:RemoveDCDBObject", ["dcdb"]),
        ("arn:aws:sns:us-east-1:709902155096:NewCDRSeaSurfTempOptInterpObject", ["cdr-oisst"]),
        ("arn:aws:sns:us-east-1:709902155096:NewCDRNDVIObject", ["cdr-terrestrial"]),
        ("arn:aws:sns:us-east-1:811054952067:NewNEXRADLevel2Archive", ["nexrad-l2"]),
        ("arn:aws:sns:us-east-1:684042711724:NewNEXRADLevel2Object", ["nexrad-l2-chunks"]),
        (
            "arn:aws:sns:us-east-1:123901341784:NewGOES19Object",
            ["goes-abi", "goes-glm", "goes-other", "goes-space", "goes-suvi"],
        ),
        # One name in two accounts.
        ("arn:aws:sns:us-east-1:123901341784:NewRRFSObject", ["rrfs"]),
        ("arn:aws:sns:us-east-1:709902155096:NewRRFSObject", ["rrfs"]),
        ("arn:aws:sns:us-east-1:709902155096:NewGOES19Object", []),
    ],
)
def test_topics_that_no_registry_names_are_known_too(topic: str, ids: list[str]) -> None:
    """Undocumented and retired topics, and those of several datasets, lead to theirs."""
    assert [each.id for each in announced_by(topic)] == ids


def test_a_retired_topic_is_not_one_to_subscribe_to() -> None:
    """What is gone is told apart from what sends today."""
    radar = default_catalogue().dataset("nexrad-l2")
    assert radar is not None
    assert len(radar.topics) == 1
    assert not set(radar.topics) & set(radar.retired_topics)


def test_every_documented_key_has_its_times() -> None:
    """Start, end and run of each documented key are those that its source states."""
    rows = vectors()
    assert len(rows) == 58
    for row in rows:
        found = default_catalogue().route("aws", row["bucket"], row["key"])
        assert isinstance(found, KeyMatch), row["key"]
        assert found.dataset.id == row["dataset"]
        assert found.start == parse_instant(row["start"]), row["key"]
        assert found.end == (parse_instant(row["end"]) if row["end"] else None), row["key"]
        run = row["reference_time"]
        assert found.reference == (parse_instant(run) if run else None), row["key"]
        if row["valid_time"]:
            assert found.start == parse_instant(row["valid_time"])


@pytest.mark.parametrize(
    ("provider", "bucket", "key", "dataset"),
    [
        ("gcp", "gcp-public-data-goes-16", "GLM-L2-LCFA/x", "goes-glm"),
        ("gcp", "gcp-public-data-goes-19", "ABI-L1b-RadF/x", "goes-abi"),
        ("azure", "goeseuwest.noaa-goes17", "SUVI-L1b-Fe171/x", "goes-suvi"),
        ("gcp", "high-resolution-rapid-refresh", "hrrr.x", "hrrr"),
        ("azure", "noaahrrr.hrrr", "hrrr.x", "hrrr"),
        ("gcp", "global-forecast-system", "gfs.x", "gfs"),
        ("azure", "noaagefs.gefs", "gefs.x", "gefs"),
        ("azure", "mrms.mrms", "CONUS/x", "mrms"),
        ("gcp", "gcp-noaa-nesdis-n21", "VIIRS-JRR-CloudMask/x", "jpss-viirs"),
        ("gcp", "gcp-public-data-nexrad-l2", "x.tar", "nexrad-l2-tar"),
        ("azure", "noaaisd.noaa-isd", "x.csv", "isd"),
        ("azure", "nclimgrideastus.nclimgrid", "x.nc", "nclimgrid"),
    ],
)
def test_copies_at_other_providers_belong_to_the_same_dataset(
    provider: str, bucket: str, key: str, dataset: str
) -> None:
    """A bucket of Google or Azure leads to the dataset whose keys it holds."""
    found = default_catalogue().route(provider, bucket, key)
    assert found is not None
    assert found.dataset.id == dataset


@pytest.mark.parametrize(
    ("bucket", "key", "dataset"),
    [
        ("noaa-goes18", "ABI-L2-CMIPF/x", "goes-abi"),
        ("noaa-goes18", "GLM-L2-LCFA/x", "goes-glm"),
        ("noaa-goes18", "SUVI-L1b-Fe093/x", "goes-suvi"),
        ("noaa-goes18", "SEIS-L1b-SGPS/x", "goes-space"),
        ("noaa-goes18", "MAG-L1b-GEOF/x", "goes-space"),
        ("noaa-goes18", "Beginners_Guide.pdf", "goes-other"),
        ("noaa-nesdis-n20-pds", "CrIS-FS-SDR/2020/01/02/x", "jpss-cris"),
        ("noaa-nesdis-n20-pds", "ATMS-SDR/2020/01/02/x", "jpss-atms"),
        ("noaa-nesdis-n20-pds", "OMPS-TC-SDR/2020/01/02/x", "jpss-omps"),
        ("noaa-nesdis-n20-pds", "Something-New/2020/01/02/x", "jpss-other"),
        ("noaa-nesdis-n20-pds", "no-folder", "jpss-other"),
        ("noaa-jpss", "VIIRS-M1-SDR/2020/01/02/x", "jpss-other"),
    ],
)
def test_keys_of_a_shared_bucket_are_told_apart(bucket: str, key: str, dataset: str) -> None:
    """The prefix decides; the rest goes to the dataset that takes it, if there is one."""
    found = default_catalogue().route("aws", bucket, key)
    assert found is not None
    assert found.dataset.id == dataset


@pytest.mark.parametrize(
    ("bucket", "key", "reason"),
    [
        ("noaa-swpc-pds", "json/f107_cm_flux.json", None),
        ("noaa-wod-pds", "2020/wod_ctd_2020.nc", None),
        ("noaa-cors-pds", "rinex/2024/001/1lsu/1lsu0010.24d.gz", None),
        ("noaa-gmgsi-pds", "README.md", "not_ingestable"),
        ("noaa-gmgsi-pds", "index.html", "not_ingestable"),
        ("noaa-gmgsi-pds", "GMGSI_LW/", "not_ingestable"),
        ("noaa-gmgsi-pds", "docs/test.txt", "not_ingestable"),
        ("noaa-gmgsi-pds", "a/file.nc.md5", "sidecar"),
        ("noaa-nbm-para-pds", "blend/x.grib2.idx", "sidecar"),
    ],
)
def test_a_generic_unit_has_no_time_of_its_own(bucket: str, key: str, reason: str | None) -> None:
    """Without a grammar each object is a unit at the fixed start; sidecars stay ignored."""
    found = default_catalogue().route("aws", bucket, key)
    if reason is not None:
        assert isinstance(found, IgnoredKey)
        assert found.reason == reason
        return
    assert isinstance(found, KeyMatch)
    assert (found.start, found.end, found.reference) == (UNKNOWN_START, None, None)
    assert found.groups == {}
