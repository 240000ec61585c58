"""`tallgrass simulate`: what it says is what lies in the folder and in the queue."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import tallgrass
from tests.cli.pipeline import make_feed, shares

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, *flags: str) -> dict[str, Any]:
    """Make a feed whose messages are files; return what was told."""
    done = tallgrass("simulate", "--dir", str(folder), *flags, "--output", "json")
    assert done.code == 0, done.err
    told: dict[str, Any] = done.json
    return told


def bodies(folder: Path) -> list[bytes]:
    """Return the messages in their order."""
    return [path.read_bytes() for path in sorted((folder / "messages").iterdir())]


def records(body: bytes) -> list[Any]:
    """Return the records of an S3 event, in its envelope or not; none where there is none."""
    try:
        value = json.loads(body)
        inner = json.loads(value["Message"]) if "Message" in value else value
    except ValueError:
        return []
    found: list[Any] = inner.get("Records", [])
    return found


def test_the_manifest_tells_what_was_written(tmp_path: Path) -> None:
    """Each object is there with the size and MD5 of the manifest, and a missing one is not."""
    manifest_file = tmp_path / "manifest.json"
    told = made(tmp_path / "f", "--units", "120", "--seed", "4", "--manifest", str(manifest_file))
    manifest = json.loads(manifest_file.read_bytes())
    assert (manifest["seed"], len(manifest["units"])) == (4, 120) == (told["seed"], told["units"])
    for unit in manifest["units"]:
        path = tmp_path / "f" / "objects" / unit["object_uri"].removeprefix("s3://")
        if unit["fate"] == "missing":
            assert not path.exists()
            continue
        content = path.read_bytes()
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        assert (len(content), etag) == (unit["size"], unit["etag"])
    sent = bodies(tmp_path / "f")
    assert len(sent) == told["messages"] == manifest["messages"]
    counted = len(sent) - len(set(sent))
    repeated_poison = counted - told["duplicates"]
    assert 0 <= repeated_poison < told["poison"]["invalid_input"]
    assert sum(told["expected"].values()) == sum(told["by_fate"].values()) == 120


def test_messages_go_to_the_queue_that_is_named(tmp_path: Path) -> None:
    """With `--queue` they wait there, and no files are written."""
    feed = make_feed(tmp_path, 30)
    assert feed.in_queue() == feed.told["messages"]
    assert feed.told["sent_to"] == feed.queue
    assert not (tmp_path / "messages").exists()


def test_one_seed_is_one_feed(tmp_path: Path) -> None:
    """The same seed gives the same bytes in the same order; another seed others."""
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        made(tmp_path / name, "--units", "40", "--seed", seed)
    assert bodies(tmp_path / "a") == bodies(tmp_path / "b")
    assert bodies(tmp_path / "a") != bodies(tmp_path / "c")


@pytest.mark.parametrize(
    ("share", "fate"),
    [
        ("overwritten", "overwritten"),
        ("stale", "stale"),
        ("truncated", "truncated"),
        ("zero_bytes", "zero_bytes"),
        ("missing", "missing"),
        ("late", "late"),
    ],
)
def test_shares_of_units(tmp_path: Path, share: str, fate: str) -> None:
    """A quarter of 20 units has the fate, the others are plain."""
    told = made(tmp_path / "f", "--units", "20", *shares(**{share: "0.25"}))
    assert told["by_fate"] == {fate: 5, "plain": 15}


@pytest.mark.parametrize(
    ("share", "key", "counted"),
    [
        ("duplicated", "duplicates", 5),
        ("poison", "poison", {"invalid_input": 2, "missing_required_field": 1, "unroutable": 2}),
        ("deletions", "ignored", {"deletion": 5}),
        ("sidecars", "ignored", {"metadata_only": 2, "sidecar": 3}),
        ("test_events", "ignored", {"test_event": 5}),
    ],
)
def test_shares_of_messages(tmp_path: Path, share: str, key: str, counted: object) -> None:
    """A quarter of 20 is five more messages of that kind, and of no other."""
    told = made(tmp_path / "f", "--units", "20", *shares(**{share: "0.25"}))
    nothing: dict[str, object] = {"duplicates": 0, "poison": {}, "ignored": {}}
    assert {name: told[name] for name in nothing} == {**nothing, key: counted}
    assert len(bodies(tmp_path / "f")) == told["messages"] == 25


def test_shares_that_change_form_and_order(tmp_path: Path) -> None:
    """Raw delivery has no envelope, two records share a message, reordered ones come later."""
    made(tmp_path / "plain", "--units", "20", *shares())
    plain = bodies(tmp_path / "plain")
    assert all(b'"Type"' in body and len(records(body)) == 1 for body in plain)
    made(tmp_path / "raw", "--units", "20", *shares(raw_delivery="1"))
    assert not any(b'"Type"' in body for body in bodies(tmp_path / "raw"))
    made(tmp_path / "two", "--units", "20", *shares(two_records="0.5"))
    two = bodies(tmp_path / "two")
    assert len(two) < 20
    assert sum(len(records(body)) for body in two) == 20
    made(tmp_path / "late", "--units", "20", *shares(reordered="0.5"))
    late = bodies(tmp_path / "late")
    keys = [[r["s3"]["object"]["key"] for body in feed for r in records(body)]
            for feed in (plain, late)]  # fmt: skip
    assert sorted(keys[0]) == sorted(keys[1])
    assert keys[0] != keys[1]


def test_messages_that_are_there_stay(tmp_path: Path) -> None:
    """A second feed into the same folder is refused with exit code 3 and changes nothing."""
    made(tmp_path, "--units", "3")
    before = bodies(tmp_path)
    again = tallgrass("simulate", "--dir", str(tmp_path), "--seed", "2", "--output", "json")
    assert (again.code, again.error["code"]) == (3, "refused")
    assert bodies(tmp_path) == before


@pytest.mark.parametrize(
    "flags", [("--units", "0"), ("--missing", "1.5"), ("--queue", "http://x")], ids=" ".join
)
def test_what_cannot_be_made_is_refused(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """No units, a share above 1, an address that is no queue: exit code 2, nothing written."""
    done = tallgrass("simulate", "--dir", str(tmp_path / "f"), *flags)
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_summary_is_for_people(tmp_path: Path) -> None:
    """Counts by fate and kind, what must come of it, and where it is."""
    out = tallgrass("simulate", "--units", "50", "--dir", str(tmp_path / "f")).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "units 50" in lines
    assert "must fail 3" in lines
    assert f"objects {tmp_path / 'f' / 'objects'}" in lines
