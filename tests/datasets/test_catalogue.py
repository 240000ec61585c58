from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tallgrass.datasets.catalogue import Catalogue, IgnoredKey, KeyMatch, default_catalogue
from tallgrass.datasets.definition import Dataset, Severity, TimeRule
from tallgrass.errors import ConfigError

NO_TIME = TimeRule(groups=(), form="unknown")


def dataset(name: str) -> Dataset:
    """Return a shipped dataset."""
    found = default_catalogue().dataset(name)
    assert found is not None
    return found


def with_key(base: Dataset, pattern: str, *prefixes: str) -> Dataset:
    """Return a dataset with other keys."""
    return replace(base, key=replace(base.key, pattern=re.compile(pattern), prefixes=prefixes))


def test_the_shipped_datasets_are_there() -> None:
    """The catalogue holds its datasets by their ids, and no other."""
    ids = [one.id for one in default_catalogue().datasets]
    assert ids == sorted(ids)
    assert {"goes-glm", "hrrr", "nexrad-l2", "goes-abi", "swpc"} <= set(ids)
    assert default_catalogue().dataset("goes") is None


@pytest.mark.parametrize(
    ("provider", "bucket"),
    [("aws", "noaa-nbm"), ("gcp", "noaa-goes16"), ("aws", "NOAA-GOES16"), ("aws", "")],
)
def test_an_unknown_bucket_has_no_route(provider: str, bucket: str) -> None:
    """An object of a bucket that no dataset claims at that provider is unroutable."""
    assert default_catalogue().route(provider, bucket, "any/key") is None


def test_an_ignored_key_names_its_dataset() -> None:
    """An ignored key carries the dataset that a unit of its bucket would belong to."""
    sidecar = default_catalogue().route("aws", "noaa-hrrr-bdp-pds", "hrrr.x/y.idx")
    assert isinstance(sidecar, IgnoredKey)
    assert sidecar.dataset is dataset("hrrr")
    other = default_catalogue().route("aws", "noaa-hrrr-bdp-pds", "index.html")
    assert isinstance(other, IgnoredKey)
    assert other.dataset is dataset("hrrr")


def test_two_datasets_with_one_id_are_refused() -> None:
    """An id stands for one dataset."""
    with pytest.raises(ConfigError, match="two datasets have the id 'hrrr'"):
        Catalogue([dataset("hrrr"), dataset("goes-glm"), dataset("hrrr")])


@pytest.mark.parametrize("prefixes", [("",), ("GLM-L2",), ("ABI/", "GLM-L2-LCFA/2025/")])
def test_two_datasets_that_could_claim_one_key_are_refused(prefixes: tuple[str, ...]) -> None:
    """Datasets of one bucket whose prefixes overlap are refused, with both names and the bucket."""
    rival = replace(with_key(dataset("goes-glm"), ".*", *prefixes), id="rival")
    for order in itertools.permutations([rival, dataset("goes-glm")]):
        with pytest.raises(ConfigError, match=r"'goes-glm' and 'rival' share .*'noaa-goes16'"):
            Catalogue(order)


def test_datasets_of_one_bucket_are_told_apart_by_prefix() -> None:
    """Whatever the order of the files, each key goes to the one dataset with its prefix."""
    glm = dataset("goes-glm")
    abi = replace(with_key(glm, r"ABI/(?P<start>\d{14})(?P<end>\d{14})", "ABI/"), id="goes-abi")
    key = "ABI/2025097130020020250971300400"
    for order in itertools.permutations([glm, abi, dataset("hrrr")]):
        found = Catalogue(order).route("aws", "noaa-goes16", key)
        assert isinstance(found, KeyMatch)
        assert found.dataset.id == "goes-abi"


def test_the_rest_of_a_bucket_has_a_home() -> None:
    """What begins with nobody's prefix goes to the one dataset that takes the rest."""
    glm = dataset("goes-glm")
    taker = with_key(glm, "(?P<start>.*)(?P<end>)", "")
    rest = replace(taker, id="a-rest", key=replace(taker.key, rest=True, start=NO_TIME, end=None))
    for order in itertools.permutations([rest, glm, dataset("goes-abi")]):
        catalogue = Catalogue(order)
        found = catalogue.route("aws", "noaa-goes16", "anything")
        assert isinstance(found, KeyMatch)
        assert found.dataset.id == "a-rest"
        unread = catalogue.route("aws", "noaa-goes16", "GLM-L2-LCFA/x")
        assert isinstance(unread, KeyMatch)
        assert (unread.dataset.id, unread.is_known) == ("goes-glm", False)
    with pytest.raises(ConfigError, match="'a-rest' and 'b-rest' share"):
        Catalogue([rest, glm, replace(rest, id="b-rest")])


def test_what_nobody_takes_goes_to_the_first_dataset_of_its_bucket() -> None:
    """By id, whatever the order of the files: an object of a known bucket is never nobody's."""
    for order in itertools.permutations([dataset("goes-suvi"), dataset("goes-glm")]):
        found = Catalogue(order).route("aws", "noaa-goes16", "ABI-L2-X/a.nc")
        assert isinstance(found, KeyMatch)
        assert (found.dataset.id, found.is_known) == ("goes-glm", False)
        assert Catalogue(order).claimant("aws", "noaa-goes16", "SUVI-x") is dataset("goes-suvi")
    assert Catalogue(order).claimant("aws", "noaa-nbm-pds", "x") is None


def test_one_bucket_name_at_two_providers_is_two_buckets() -> None:
    """Datasets of different providers never compete for a bucket's name."""
    copy = replace(dataset("hrrr"), id="hrrr-copy", provider="wasabi", mirrors={})
    catalogue = Catalogue([dataset("hrrr"), copy])
    key = "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2"
    found = catalogue.route("wasabi", "noaa-hrrr-bdp-pds", key)
    assert isinstance(found, KeyMatch)
    assert found.dataset.id == "hrrr-copy"


def test_the_fingerprint_knows_no_order() -> None:
    """The order of datasets, buckets and table entries does not change the fingerprint."""
    expected = default_catalogue().fingerprint
    assert re.fullmatch(r"[0-9a-f]{64}", expected)
    glm = dataset("goes-glm")
    turned = replace(
        glm,
        buckets=tuple(reversed(glm.buckets)),
        mirrors={name: glm.mirrors[name][::-1] for name in reversed(list(glm.mirrors))},
        severities=dict(reversed(list(glm.severities.items()))),
        item=replace(glm.item, places=dict(reversed(list(glm.item.places.items())))),
    )
    others = [one for one in default_catalogue().datasets if one.id != "goes-glm"]
    for order in ([turned, *others], [*others, turned], [*reversed(others), turned]):
        assert Catalogue(order).fingerprint == expected


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    """Another process, with another hash seed, computes the same fingerprint."""
    code = (
        "from tallgrass.datasets.catalogue import default_catalogue;"
        "print(default_catalogue().fingerprint)"
    )
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        printed = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
        assert printed.strip() == default_catalogue().fingerprint


def test_whatever_shapes_an_output_changes_the_fingerprint() -> None:
    """A change that can alter an item gives another fingerprint; one of an address does not."""
    hrrr = dataset("hrrr")
    plain = Catalogue([hrrr]).fingerprint
    shaping = [
        replace(hrrr, id="hrrr2"),
        replace(hrrr, title="another"),
        replace(hrrr, buckets=("another",)),
        replace(hrrr, mirrors={"gcp": ("another",)}),
        replace(hrrr, key=replace(hrrr.key, rest=True)),
        replace(hrrr, item=replace(hrrr.item, placeless=True)),
        replace(hrrr, item=replace(hrrr.item, media_types={".grib2": "text/plain"})),
        replace(hrrr, severities={"size_zero": Severity.SUSPECT}),
        replace(hrrr, key=replace(hrrr.key, end=None)),
        replace(hrrr, key=replace(hrrr.key, ignore=())),
        replace(hrrr, key=replace(hrrr.key, start=replace(hrrr.key.start, plus_hours=None))),
        with_key(hrrr, "another", "hrrr."),
        replace(hrrr, item=replace(hrrr.item, bbox=(0.0, 0.0, 1.0, 1.0))),
        replace(hrrr, item=replace(hrrr.item, properties={"gsd": 3001})),
        replace(hrrr, integrity=replace(hrrr.integrity, etag_required=True)),
        replace(hrrr, governance=replace(hrrr.governance, reject="no")),
    ]
    prints = {Catalogue([one]).fingerprint for one in shaping}
    assert len(prints) == len(shaping)
    assert plain not in prints
    moved = replace(hrrr, topics=(), retired_topics=("t",), cadence_s=1.0, priority="low")
    assert Catalogue([moved]).fingerprint == plain
