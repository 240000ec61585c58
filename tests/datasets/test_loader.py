"""A dataset's file: what it becomes, and how each mistake in it is refused."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import FileFormat, IntegrityRules, Severity, TimeRule
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.datasets.loader import load_dataset
from tallgrass.errors import ConfigError
from tests.datasets.file_texts import FILE


def changed(old: str, new: str) -> str:
    """Return the file with one place changed."""
    assert FILE.count(old) == 1, old
    return FILE.replace(old, new)


def test_a_file_becomes_a_dataset() -> None:
    """Every field of a file is in the dataset that it describes."""
    radar = load_dataset(FILE, "radar.toml")
    assert (radar.id, radar.title, radar.description) == ("radar", "A radar", "Volumes of a radar.")
    assert (radar.provider, radar.buckets) == ("aws", ("radar-pds",))
    assert radar.topics == ("arn:aws:sns:us-east-1:1:NewRadarObject",)
    assert (radar.format, radar.cadence_s) == (FileFormat.NEXRAD_LEVEL2, 300.0)
    assert radar.priority == "high"
    assert radar.key.prefixes == ("raw/",)
    assert radar.key.start == TimeRule(groups=("date", "time"), form="date-time")
    assert (radar.key.end, radar.key.reference) == (None, None)
    assert [rule.reason for rule in radar.key.ignore] == ["test_file", "sidecar"]
    assert (radar.item.collection, radar.item.media_type) == ("radar", "application/octet-stream")
    assert radar.item.bbox == (-180.0, -90.0, 180.0, 90.0)
    assert (radar.item.place_group, radar.item.places) == (
        "site",
        {"KTLX": (-102.9, 31.1, -91.6, 39.5)},
    )
    assert radar.item.properties == {"instruments": ["radar"]}
    assert radar.item.from_key == {"platform": "site"}
    assert radar.item.vocabulary == {"platform": {"KTLX": "Twin Lakes"}}
    assert radar.item.sidecars == {".idx": "index"}
    assert radar.integrity == IntegrityRules(min_size_bytes=24, max_size_bytes=1000)
    assert radar.severities == {
        "size_too_small": Severity.FAILED,
        "etag_mismatch": Severity.SUSPECT,
    }
    assert (radar.governance.care_label, radar.governance.sensitivity) == ("public", "low")
    assert radar.governance.reject is None


def test_what_is_optional_may_be_left_out() -> None:
    """Prefixes, ends, places, severities, integrity rules and topics have defaults."""
    text = """
    id = "station"
    title = "A station"
    description = "Its file."
    provider = "aws"
    buckets = ["station-pds"]
    format = "netcdf4"
    cadence_s = 86400.5
    priority = "low"
    key.pattern = 'station\\.nc'
    key.start.form = "unknown"
    item.collection = "station"
    item.media_type = "application/netcdf"
    governance.care_label = "restricted"
    governance.sensitivity = "high"
    governance.reject = "not ours to show"
    [[examples]]
    key = "station.nc"
    start = "1970-01-01T00:00:00Z"
    """
    station = load_dataset(text, "station.toml")
    assert (station.topics, station.key.prefixes, station.key.ignore) == ((), ("",), ())
    assert (station.item.bbox, station.item.places, station.severities) == (None, {}, {})
    assert station.integrity == IntegrityRules()
    assert station.governance.reject == "not ours to show"


REFUSALS = [
    ("id = ", "id ", "radar.toml: not TOML"),
    ("id = ", f"id = {'[' * 5000}", "radar.toml: not TOML"),
    ("cadence_s = 300", f"cadence_s = 1{'0' * 5000}", "radar.toml: not TOML"),
    ("cadence_s = 300", f"cadence_s = 1{'0' * 400}", "cadence_s: must be a number of seconds"),
    ('id = "radar"', 'id = "Radar One"', "radar.toml: id: must be small letters"),
    ('id = "radar"', "id = 7", "id: must be a text, not 7"),
    ('title = "A radar"', "", "title: is missing"),
    ('title = "A radar"', 'title = " "', "title: must be a text"),
    ('title = "A radar"', 'titel = "A radar"', "title: is missing; is 'titel' meant for it"),
    ('title = "A radar"', 'title = "A"\ncolour = "red"', "colour: unknown field"),
    ('priority = "high"', 'priority = "high"\nprioriti = 1', "did you mean 'priority'"),
    (
        'priority = "high"',
        'priority = "hihg"',
        "priority: unknown word 'hihg'; did you mean 'high'",
    ),
    ('provider = "aws"', 'provider = ""', "provider: must be a text"),
    ('["radar-pds"]', '["radar pds"]', "buckets: 'radar pds' is not a bucket's name"),
    ('["radar-pds"]', "[]", "buckets: must name at least one"),
    ('["radar-pds"]', '["a", "a"]', "buckets: names something twice"),
    ('["radar-pds"]', '"radar-pds"', "buckets: must be a list of texts"),
    ('"nexrad-level2"', '"nexrad-levle2"', "format: unknown word 'nexrad-levle2'; did you mean"),
    ("cadence_s = 300", "cadence_s = 0", "cadence_s: must be a number of seconds above 0"),
    ("cadence_s = 300", "cadence_s = inf", "cadence_s: must be a number of seconds above 0"),
    ("cadence_s = 300", "cadence_s = nan", "cadence_s: must be a number of seconds above 0"),
    ("cadence_s = 300", "cadence_s = true", "cadence_s: must be a number of seconds above 0"),
    ("raw/(?P<site>", "raw/(?P<site", "key.pattern: not a regular expression"),
    ("[A-Z]{4})", "[A-Z{4})", "key.pattern: not a regular expression"),
    ('prefixes = ["raw/"]', "prefixes = []", "key.prefixes: must hold at least one"),
    ('prefixes = ["raw/"]', 'prefixes = ["cooked/"]', "begins with none of key.prefixes"),
    ('prefixes = ["raw/"]', 'prefix = ["raw/"]', "key.prefix: unknown field; did you mean"),
    ('form = "date-time"', 'form = "date-tiem"', "key.start.form: unknown time form 'date-tiem'"),
    ('form = "date-time"', 'form = "unknown"', "key.start.groups: the form 'unknown' takes no"),
    ('form = "date-time"', "", "key.start.form: is missing"),
    ('groups = ["date", "time"]', "", "key.start.groups: the form 'date-time' must name"),
    (
        'groups = ["date", "time"]',
        'groups = ["dat", "time"]',
        "no group 'dat'; did you mean 'date'",
    ),
    (
        'groups = ["date", "time"]',
        'groups = ["date", "time"]\nplus_hours = "hour"',
        "key.start.plus_hours: key.pattern has no group 'hour'",
    ),
    ('reason = "test_file"', 'reason = "Test file"', "key.ignore[1].reason: must be small letters"),
    ('reason = "test_file"', "", "key.ignore[1].reason: is missing"),
    ("'.*_TEST'", "'*_TEST'", "key.ignore[1].pattern: not a regular expression"),
    ("[item]\n", "[item]\nsidecar_keys = '*.x'\n", "item.sidecar_keys: not a regular expression"),
    ('collection = "radar"', 'collection = "Radar/1"', "item.collection: must be small letters"),
    ("bbox = [-180, -90, 180, 90]", "bbox = [-180, -90, 180]", "item.bbox: must be [west, south"),
    (
        "bbox = [-180, -90, 180, 90]",
        "bbox = [0, 90, 1, -90]",
        "item.bbox: is not on Earth, or south",
    ),
    ("bbox = [-180, -90, 180, 90]", "bbox = [0, 0, 181, 1]", "item.bbox: is not on Earth"),
    ("bbox = [-180, -90, 180, 90]", "bbox = [0, 0, nan, 1]", "item.bbox: is not on Earth"),
    ("KTLX = [-102.9, 31.1, -91.6, 39.5]", 'KTLX = "here"', "item.places.KTLX: must be [west"),
    ('place_group = "site"', 'place_group = "siet"', "item.place_group: key.pattern has no group"),
    ('place_group = "site"', "", "item.places: place_group and places go together"),
    ('platform = "site"', 'platform = "sit"', "item.from_key.platform: key.pattern has no group"),
    ("[item.vocabulary.platform]", "[item.vocabulary.platfrom]", "did you mean 'platform'"),
    (
        'instruments = ["radar"]',
        "since = 1991-06-05",
        "item.properties.since: must be a JSON value",
    ),
    ('instruments = ["radar"]', "gain = inf", "item.properties.gain: must be a JSON value"),
    ('".idx" = "index"', '".idx" = ""', "item.sidecars"),
    ("min_size_bytes = 24", "min_size_bytes = -1", "integrity.min_size_bytes: must be a whole"),
    ("min_size_bytes = 24", "min_size_bytes = 24.0", "integrity.min_size_bytes: must be a whole"),
    ("max_size_bytes = 1000", "max_size_bytes = 10", "integrity.max_size_bytes: 10 is less than"),
    (
        "max_size_bytes = 1000",
        "etag_required = 1",
        "integrity.etag_required: must be true or false",
    ),
    (
        "size_too_small =",
        "size_to_small =",
        "severities.size_to_small: unknown issue code; did you",
    ),
    ("etag_mismatch =", "refused =", "severities.refused: unknown issue code"),
    ('"suspect"', '"suspicious"', "severities.etag_mismatch: unknown word 'suspicious'; did you"),
    ('care_label = "public"', 'care_label = "pubic"', "governance.care_label: unknown word"),
    ('care_label = "public"', 'care_label = "restricted"', "governance.governance_ref: is missing"),
    ('sensitivity = "low"', "", "governance.sensitivity: is missing"),
    ("[governance]", "[government]", "governance: is missing; is 'government' meant"),
    ("01:02:03Z", "01:02:04Z", "examples[1].key: 'raw/KTLX_20240229_010203' gives"),
    ("2024-02-29T01", "2023-02-29T01", "examples[1].start: no such instant"),
    ('"raw/KTLX_20240229_010203"', '"raw/KTLX_20230229_010203"', "examples[1].key"),
    ('ignored = "sidecar"', 'ignored = "metadata_only"', "examples[2].key"),
    ('ignored = "sidecar"', 'ignore = "sidecar"', "examples[2].ignore: unknown field"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSALS)
def test_a_mistake_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    """What cannot be used is refused with the file, the field and what to do about it."""
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        load_dataset(changed(old, new), "radar.toml")
    assert str(refused.value).startswith("radar.toml: ")


def test_a_file_without_an_example_is_refused() -> None:
    """A dataset file proves its grammar by at least one key of a unit."""
    text = FILE[: FILE.index("[[examples]]")]
    with pytest.raises(ConfigError, match="examples: needs at least one key of a unit"):
        load_dataset(text, "radar.toml")


def test_a_sidecar_is_passed_over_without_a_rule() -> None:
    """The keys with a sidecar's suffix are ignored as sidecars, whatever they contain."""
    rule = load_dataset(FILE, "radar.toml").key.ignore[-1]
    assert rule.reason == "sidecar"
    assert rule.pattern.fullmatch("raw/KTLX_20240229_010203.idx")
    assert rule.pattern.fullmatch("a\nb.idx")
    assert not rule.pattern.fullmatch("raw/KTLXxidx")


ALIASES = '[aliases]\n{former} = "{present}"\n\n[key]\n'


def test_a_former_bucket_has_its_present_one() -> None:
    """Objects of a bucket that moved are those of the new one: one object, one address."""
    text = FILE.replace("[key]\n", ALIASES.format(former="old-radar", present="radar-pds"), 1)
    dataset = load_dataset(text, "radar.toml")
    catalogue = Catalogue([dataset])
    assert dataset.aliases == {"old-radar": "radar-pds"}
    assert catalogue.bucket_now("aws", "old-radar") == "radar-pds"
    assert catalogue.bucket_now("aws", "radar-pds") == "radar-pds"
    assert catalogue.bucket_now("gcp", "old-radar") == "old-radar"
    assert isinstance(catalogue.route("aws", "old-radar", "raw/KTLX_20240101_000000"), KeyMatch)


@pytest.mark.parametrize(
    ("former", "present", "problem"),
    [
        ("radar-pds", "radar-pds", "'radar-pds' is not the name of a former bucket"),
        ('"No Bucket"', "radar-pds", "'No Bucket' is not the name of a former bucket"),
        ("old-radar", "elsewhere", "'old-radar' moved to 'elsewhere', which is not in buckets"),
    ],
)
def test_an_alias_that_leads_nowhere_is_refused(former: str, present: str, problem: str) -> None:
    """An alias is a former bucket, and leads to one that the dataset has."""
    text = FILE.replace("[key]\n", ALIASES.format(former=former, present=present), 1)
    with pytest.raises(ConfigError, match=re.escape(f"aliases: {problem}")):
        load_dataset(text, "radar.toml")


def test_the_shipped_files_are_named_after_their_datasets() -> None:
    """Each dataset that comes with the package stands in the file of its name."""
    folder = files("tallgrass.datasets").joinpath("files")
    for file in folder.iterdir():
        dataset = load_dataset(file.read_text(encoding="utf-8"), file.name)
        assert f"{dataset.id}.toml" == file.name


# --- circles, numbers, licence, region ------------------------------------------------------------


def test_a_place_of_two_or_three_numbers_is_a_circle() -> None:
    """Longitude and latitude take the common range, or have a third number of their own."""
    text = FILE.replace('place_group = "site"', 'place_group = "site"\nrange_km = 460')
    places = "KAAA = [-97.3, 35.3]\nKBBB = [10, -20.5, 90]\nKCCC = [0, 0, 1, 1]"
    item = load_dataset(text.replace("KTLX = [-102.9, 31.1, -91.6, 39.5]", places), "f").item
    assert item.circles == {"KAAA": (-97.3, 35.3, 460.0), "KBBB": (10.0, -20.5, 90.0)}
    assert item.places == {"KCCC": (0.0, 0.0, 1.0, 1.0)}
    assert item.range_km == 460.0


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("[-97.3, 35.3]", "item.places.KTLX: has no range"),
        ("[-97.3, 95.3, 460]", "item.places.KTLX: is not on Earth"),
        ("[-197.3, 35.3, 460]", "item.places.KTLX: is not on Earth"),
        ("[-97.3, 35.3, 0]", "item.places.KTLX: is not on Earth, or its range"),
        ("[-97.3, 35.3, 9000]", "item.places.KTLX: is not on Earth, or its range"),
        ('[-97.3, 35.3, "far"]', "item.places.KTLX: must be"),
        ("[-97.3]", "item.places.KTLX: must be"),
    ],
)
def test_a_circle_that_cannot_be_is_refused(place: str, problem: str) -> None:
    """Its place in the file and what is wrong are told."""
    text = FILE.replace("[-102.9, 31.1, -91.6, 39.5]", place)
    with pytest.raises(ConfigError, match=re.escape(problem)):
        load_dataset(text, "f")


def test_numbers_are_properties_of_the_key() -> None:
    """A property that the key does not give cannot be one of its numbers."""
    text = FILE.replace('place_group = "site"', 'place_group = "site"\nnumbers = ["platform"]')
    assert load_dataset(text, "f").item.numbers == {"platform"}
    with pytest.raises(ConfigError, match="has no property 'form'"):
        load_dataset(text.replace('numbers = ["platform"]', 'numbers = ["form"]'), "f")


def test_buckets_of_aws_are_where_nodd_keeps_them() -> None:
    """A dataset at AWS has NODD's region unless it says otherwise; others have none."""
    assert load_dataset(FILE, "f").item.region == "us-east-1"
    own = FILE.replace('collection = "radar"', 'collection = "radar"\nregion = "us-west-1"')
    assert load_dataset(own, "f").item.region == "us-west-1"
    assert load_dataset(FILE.replace('"aws"', '"gcp"'), "f").item.region is None


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('license = "CC BY"', "item.license: must be an SPDX id"),
        ('license = "other"', "item.license_url: is missing"),
        ('license_url = "https://example.org"', "item.license: is missing"),
    ],
)
def test_a_licence_that_cannot_be_read_anywhere_is_refused(lines: str, problem: str) -> None:
    """An SPDX id, or `other` with an address."""
    text = FILE.replace('collection = "radar"', f'collection = "radar"\n{lines}')
    with pytest.raises(ConfigError, match=re.escape(problem)):
        load_dataset(text, "f")
