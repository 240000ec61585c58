from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.errors import InvalidInput
from tallgrass.simulate.feed import Feed, FeedManifest, FeedMessage, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tests.evidence.samples import read

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {
    "goes-glm": FileFormat.NETCDF4,
    "nexrad-l2": FileFormat.NEXRAD_LEVEL2,
    "hrrr": FileFormat.GRIB2,
}
MANY = FeedFaults(
    overwritten=0.1,
    stale=0.1,
    truncated=0.1,
    zero_bytes=0.05,
    missing=0.05,
    late=0.05,
    duplicated=0.2,
    reordered=0.3,
    poison=0.1,
    deletions=0.05,
    sidecars=0.1,
    test_events=0.02,
    raw_delivery=0.3,
    two_records=0.2,
)


@pytest.fixture(scope="module")
def feed() -> Feed:
    """Return a feed with much of everything."""
    return Feed(11, 400, MANY)


@pytest.fixture(scope="module")
def manifest(feed: Feed) -> FeedManifest:
    """Return what must become of it."""
    return feed.manifest()


def records(body: bytes) -> list[dict[str, Any]] | None:
    """Return the S3 records of a body; None where it is none."""
    try:
        event = json.loads(body)
    except ValueError:
        return None
    if "Message" in event:
        event = json.loads(event["Message"])
    found = event.get("Records")
    return found if isinstance(found, list) else None


def uri(record: dict[str, Any]) -> str:
    """Return the address of a record's object."""
    place = record["s3"]
    return f"s3://{place['bucket']['name']}/{unquote_plus(place['object']['key'])}"


def created(feed: Feed) -> list[dict[str, Any]]:
    """Return every record of a creation that names an object of a unit."""
    known = {unit.object_uri for unit in feed.manifest().units}
    found = [record for body in feed.bodies() for record in records(body) or ()]
    return [
        record
        for record in found
        if record["eventName"] == "ObjectCreated:Put"
        and "key" in record["s3"]["object"]
        and uri(record) in known
    ]


def test_shares_are_kept(manifest: FeedManifest) -> None:
    """Each fault has its share, to the unit."""
    assert Counter(unit.fate for unit in manifest.units) == {
        "plain": 220,
        "overwritten": 40,
        "stale": 40,
        "truncated": 40,
        "zero_bytes": 20,
        "missing": 20,
        "late": 20,
    }
    assert sum(manifest.poison.values()) == 40
    assert manifest.ignored == {
        "deletion": 20,
        "metadata_only": 20,
        "sidecar": 20,
        "test_event": 8,
    }
    assert Counter(unit.dataset for unit in manifest.units) == {
        "goes-glm": 240,
        "nexrad-l2": 120,
        "hrrr": 40,
    }


def test_every_message_is_accounted_for(feed: Feed, manifest: FeedManifest) -> None:
    """The counts of the manifest are those of the bodies."""
    bodies = list(feed.bodies())
    assert len(bodies) == manifest.messages
    assert len(bodies) - len(set(bodies)) >= manifest.duplicates > 0
    announced = Counter(uri(record) for record in created(feed))
    assert {unit.object_uri: unit.announced for unit in manifest.units} == announced
    with_units = manifest.messages - sum(manifest.ignored.values()) - sum(manifest.poison.values())
    two = sum(len(records(body) or ()) == 2 for body in bodies)
    assert two > 40
    assert sum(announced.values()) == with_units + two
    raw = sum(body.startswith(b'{"Records"') for body in bodies)
    assert 0.2 < raw / len(bodies) < 0.4


def test_announcements_tell_the_object(feed: Feed, manifest: FeedManifest, tmp_path: Path) -> None:
    """The newest announcement of a unit has the size and the MD5 of the object that is there."""
    feed.write(tmp_path)
    newest: dict[str, dict[str, Any]] = {}
    for record in created(feed):
        told = record["s3"]["object"]
        before = newest.get(uri(record))
        if before is None or before["sequencer"] < told["sequencer"]:
            newest[uri(record)] = told
    for unit in manifest.units:
        told = newest[unit.object_uri]
        assert told["sequencer"] == unit.sequencer
        path = tmp_path / unit.object_uri.removeprefix("s3://")
        assert path.exists() is (unit.fate != "missing")
        if path.exists():
            content = path.read_bytes()
            etag = hashlib.md5(content).hexdigest()  # noqa: S324 - what S3 uses
            assert (unit.etag, unit.size) == (etag, len(content))
            assert (told["eTag"], told["size"]) == (etag, len(content))
        else:
            assert (unit.etag, unit.size) == (None, None)
            assert told["size"] > 0


def test_the_readers_find_what_must_become_of_each(
    feed: Feed, manifest: FeedManifest, tmp_path: Path
) -> None:
    """A sound object has no issue, a cut one is too small, an empty one has no bytes."""
    feed.write(tmp_path)
    for unit in manifest.units:
        if unit.fate == "missing":
            assert (unit.expected, unit.expected_code) == ("failed", "missing_object")
            continue
        content = (tmp_path / unit.object_uri.removeprefix("s3://")).read_bytes()
        issues = read(FORMATS[unit.dataset], content)[1]
        assert issues == (() if unit.expected_code is None else (unit.expected_code,))
        assert unit.expected == ("failed" if issues else "succeeded")


def test_objects_tell_the_times_of_their_keys(
    feed: Feed, manifest: FeedManifest, tmp_path: Path
) -> None:
    """Key, manifest and file agree on site, volume time and model run."""
    feed.write(tmp_path)
    for unit in manifest.units:
        if unit.expected != "succeeded" or unit.dataset == "goes-glm":
            continue
        content = (tmp_path / unit.object_uri.removeprefix("s3://")).read_bytes()
        header, _ = read(FORMATS[unit.dataset], content)
        if unit.dataset == "hrrr":
            assert header["valid_start"] == unit.time_range_start
        else:
            assert str(header["volume_time"])[:19] == unit.time_range_start[:19]
            assert f"/{header['site']}/" in unit.object_uri


def test_steps_lead_to_the_written_objects(feed: Feed, tmp_path: Path) -> None:
    """Played step by step, the feed ends with the same objects and sends the same messages."""
    bodies = []
    for step in feed.steps():
        if isinstance(step, FeedObject):
            step.write(tmp_path / "steps")
        else:
            bodies.append(step.body)
    feed.write(tmp_path / "all")
    assert bodies == list(feed.bodies())
    assert tree(tmp_path / "steps") == tree(tmp_path / "all")


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_write_precedes_its_message(feed: Feed) -> None:
    """No message announces an object version that was not written before it, but of late ones."""
    written = set()
    apart = {"missing", "late", "stale"}
    others = {unit.object_uri for unit in feed.manifest().units if unit.fate in apart}
    for step in feed.steps():
        if isinstance(step, FeedObject):
            etag = hashlib.md5(step.content).hexdigest()  # noqa: S324 - what S3 uses
            written.add((f"s3://{step.bucket}/{step.key}", etag))
            continue
        assert isinstance(step, FeedMessage)
        for record in records(step.body) or ():
            told = record["s3"]["object"]
            if "eTag" not in told or "key" not in told or uri(record) in others:
                continue
            if uri(record).endswith((".idx", "_MDM")) or "unheard" in uri(record):
                continue
            assert (uri(record), told["eTag"]) in written


def test_a_late_object_comes_after_its_message() -> None:
    """It is announced as if it were there, and written minutes later; it must succeed."""
    feed = Feed(3, 30, FeedFaults(**{**vars_of(FeedFaults.none()), "late": 1.0}))
    assert {unit.expected for unit in feed.manifest().units} == {"succeeded"}
    told: set[str] = set()
    written: dict[str, str] = {}
    for step in feed.steps():
        if isinstance(step, FeedMessage):
            told |= {uri(record) for record in records(step.body) or ()}
            continue
        place = f"s3://{step.bucket}/{step.key}"
        assert place in told
        written[place] = hashlib.md5(step.content).hexdigest()  # noqa: S324 - what S3 uses
    assert written == {unit.object_uri: unit.etag for unit in feed.manifest().units}


def test_a_stale_message_comes_after_the_newer_one() -> None:
    """The first write of a stale unit is announced last, with the lower sequencer."""
    only_stale = FeedFaults(**{**vars_of(FeedFaults.none()), "stale": 1.0})
    order: dict[str, list[str]] = {}
    for record in created(Feed(3, 30, only_stale)):
        order.setdefault(uri(record), []).append(record["s3"]["object"]["sequencer"])
    assert len(order) == 30
    assert all(len(each) == 2 and each[0] > each[1] for each in order.values())


def vars_of(faults: FeedFaults) -> dict[str, float]:
    """Return the shares by name."""
    return {name: getattr(faults, name) for name in FeedFaults.__slots__}


def test_a_feed_without_faults_has_none() -> None:
    """With all shares at 0, each unit is announced once, in an envelope, and succeeds."""
    feed = Feed(5, 120, FeedFaults.none())
    manifest = feed.manifest()
    assert {(unit.expected, unit.announced) for unit in manifest.units} == {("succeeded", 1)}
    assert (manifest.messages, manifest.duplicates) == (120, 0)
    assert (manifest.ignored, manifest.poison) == ({}, {})
    assert all(b'"Type" : "Notification"' in body for body in feed.bodies())


def test_keys_are_distinct_and_lie_in_the_window() -> None:
    """A feed of a chosen window has distinct objects whose data times begin in it."""
    start = datetime(2025, 12, 31, 18, tzinfo=UTC)
    feed = Feed(2, 2000, FeedFaults.none(), start=start, window=timedelta(hours=12))
    manifest = feed.manifest()
    assert len({unit.object_uri for unit in manifest.units}) == 2000
    times = [
        datetime.fromisoformat(unit.time_range_start)
        for unit in manifest.units
        if unit.dataset != "hrrr"
    ]
    assert start <= min(times) < start + timedelta(hours=1)
    assert start + timedelta(hours=11) < max(times) < start + timedelta(hours=12)
    # The year ends within the window.
    assert any("/2026/001/" in unit.object_uri for unit in manifest.units)


def test_a_window_that_is_too_short_is_refused() -> None:
    """More units than the datasets publish in the window are refused."""
    with pytest.raises(InvalidInput):
        Feed(2, 2000, window=timedelta(hours=1))


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    """A share that is none is refused."""
    with pytest.raises(InvalidInput):
        FeedFaults(poison=share)


@pytest.mark.parametrize("units", [0, 1, 2, 3, 7])
def test_small_feeds_work(units: int) -> None:
    """Any number of units makes a feed."""
    feed = Feed(1, units, MANY)
    assert len(feed.manifest().units) == units
    assert len(list(feed.bodies())) == feed.manifest().messages


def test_the_manifest_is_json(manifest: FeedManifest) -> None:
    """A manifest survives being written as JSON."""
    assert json.loads(json.dumps(manifest.to_json())) == manifest.to_json()


def test_an_envelope_is_laid_out_as_sns_does(feed: Feed) -> None:
    """Fields and white space of an envelope are those of captured messages."""
    body = next(body for body in feed.bodies() if body.startswith(b'{\n  "Type"'))
    lines = body.decode().split("\n")
    assert (lines[0], lines[-1]) == ("{", "}")
    assert [line.partition(" : ")[0] for line in lines[1:-1]] == [
        f'  "{name}"'
        for name in (
            "Type",
            "MessageId",
            "TopicArn",
            "Subject",
            "Message",
            "Timestamp",
            "SignatureVersion",
            "Signature",
            "SigningCertURL",
            "UnsubscribeURL",
        )
    ]
