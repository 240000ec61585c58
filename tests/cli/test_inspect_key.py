"""`tallgrass inspect key`: what the pipeline reads in an object's key."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tallgrass.clock import parse_instant
from tests.cli.command import PROGRAM, environment, tallgrass
from tests.cli.test_inspect import id_by_hand
from tests.datasets.noaa_data import noaa_data

if TYPE_CHECKING:
    from pathlib import Path

HRRR = "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2"
VOLUME = "2025/01/01/KDMX/KDMX20250101_225441_V06"
MEMBERS = [
    "dataset", "provider", "object_uri", "time_range_start", "time_range_end", "reference_time",
    "valid_time", "item_id", "wal_id", "ignored",
]  # fmt: skip


def item_by_hand(provider: str, bucket: str, key: str) -> str:
    """Return an item's id from its definition: the last part of the key, then a hash."""
    parts = [part.encode() for part in (provider, bucket, key)]
    hashed = hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p for p in parts)).hexdigest()
    return f"{key.rpartition('/')[2]}-{hashed[:24]}"


def ask(*lines: str) -> tuple[int, list[dict[str, Any]]]:
    """Give lines to one process; return its exit code and its answers."""
    done = tallgrass("inspect", "key", "-", input="\n".join(lines).encode())
    assert done.err == ""
    return done.code, [json.loads(line) for line in done.out.splitlines()]


def instants(answer: dict[str, Any], *names: str) -> list[datetime | None]:
    """Return times of an answer."""
    return [None if answer[name] is None else parse_instant(answer[name]) for name in names]


def test_a_unit_is_told_whole() -> None:
    """Dataset, times, item and unit; each name by its definition."""
    uri = f"s3://noaa-hrrr-bdp-pds/{HRRR}"
    done = tallgrass("inspect", "key", uri)
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == MEMBERS
    valid = datetime(2024, 5, 10, 14, tzinfo=UTC)
    assert done.json == {
        "dataset": "hrrr",
        "provider": "aws",
        "object_uri": uri,
        "time_range_start": "2024-05-10T14:00:00.000000Z",
        "time_range_end": "2024-05-10T14:00:00.000000Z",
        "reference_time": "2024-05-10T12:00:00.000000Z",
        "valid_time": "2024-05-10T14:00:00.000000Z",
        "item_id": item_by_hand("aws", "noaa-hrrr-bdp-pds", HRRR),
        "wal_id": id_by_hand("hrrr", uri, valid),
        "ignored": None,
    }


#: Former bucket → the one that holds its objects now.
MOVED = {"noaa-nexrad-level2": "unidata-nexrad-level2"}


def test_every_documented_key_gives_its_times() -> None:
    """One process answers all rows of the table, in order, each with what its source states."""
    with noaa_data("keys", "key-vectors.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 58
    code, answers = ask(*(f"s3://{row['bucket']}/{row['key']}" for row in rows))
    assert (code, len(answers)) == (0, len(rows))
    for row, answer in zip(rows, answers, strict=True):
        assert list(answer) == MEMBERS
        assert (answer["dataset"], answer["ignored"]) == (row["dataset"], None), row["key"]
        expected = [
            parse_instant(row[name]) if row[name] else None
            for name in ("start", "end", "reference_time", "valid_time")
        ]
        told = instants(
            answer, "time_range_start", "time_range_end", "reference_time", "valid_time"
        )
        assert told == expected, row["key"]
        bucket = MOVED.get(row["bucket"], row["bucket"])
        assert answer["object_uri"] == f"s3://{bucket}/{row['key']}"
        assert answer["item_id"] == item_by_hand("aws", bucket, row["key"]).replace(":", "-")


#: Key → dataset, reason, and the hours of start and run, where its form tells them.
IGNORED = (
    (f"s3://noaa-hrrr-bdp-pds/{HRRR}.idx", "hrrr", "sidecar", "14:00:00", "12:00:00"),
    (f"gs://high-resolution-rapid-refresh/{HRRR}.idx", "hrrr", "sidecar", "14:00:00",
     "12:00:00"),
    (f"s3://unidata-nexrad-level2/{VOLUME}_MDM", "nexrad-l2", "metadata_only", "22:54:41", ""),
    (f"s3://unidata-nexrad-level2/{VOLUME}_MDM.gz", "nexrad-l2", "metadata_only", "22:54:41",
     ""),
    (f"s3://unidata-nexrad-level2/{VOLUME}.001", "nexrad-l2", "lesser_copy", "22:54:41", ""),
    (f"s3://noaa-hrrr-bdp-pds/{HRRR}.tmp", "hrrr", "not_ingestable", "14:00:00", "12:00:00"),
    ("s3://noaa-hrrr-bdp-pds/hrrr.20240510/conus/hrrr.t99z.wrfsfcf02.grib2.idx", "hrrr",
     "sidecar", "", ""),
    ("s3://noaa-hrrr-bdp-pds/hrrr.20240510/conus/hrrr.t12z.bufrsnd.tar.gz.md5", "hrrr",
     "sidecar", "12:00:00", ""),
    ("s3://unidata-nexrad-level2/README", "nexrad-l2", "not_ingestable", "", ""),
    ("s3://noaa-goes16/index.html", "goes-other", "not_ingestable", "", ""),
    # Every other object of this bucket is a unit, but nothing is known of its keys.
    ("s3://noaa-swpc-pds/a/b.json.md5", "swpc", "sidecar", "", ""),
)  # fmt: skip


def test_an_ignored_key_tells_what_its_form_tells() -> None:
    """A name after that of a unit has the unit's times; it is neither unit nor item."""
    code, answers = ask(*(uri for uri, *_ in IGNORED))
    assert code == 0
    for (uri, dataset, reason, start, run), told in zip(IGNORED, answers, strict=True):
        assert list(told) == MEMBERS
        assert (told["object_uri"], told["dataset"], told["ignored"]) == (uri, dataset, reason)
        assert (told["item_id"], told["wal_id"]) == (None, None)
        hours = [(told[name] or "")[11:19] for name in ("time_range_start", "reference_time")]
        assert hours == [start, run], uri
        assert told["valid_time"] == (told["time_range_start"] if run else None)


def test_providers_are_told_by_their_schemes(tmp_path: Path) -> None:
    """S3, Cloud Storage and Azure hold the same key as three objects; another one is configured."""
    code, answers = ask(
        f"s3://noaa-hrrr-bdp-pds/{HRRR}",
        f"gs://high-resolution-rapid-refresh/{HRRR}",
        f"az://noaahrrr.hrrr/{HRRR}",
    )
    assert code == 0
    assert [answer["provider"] for answer in answers] == ["aws", "gcp", "azure"]
    assert {answer["dataset"] for answer in answers} == {"hrrr"}
    assert len({answer["item_id"] for answer in answers}) == 3
    assert len({answer["wal_id"] for answer in answers}) == 3
    for scheme in ("wasabi", "azure", "https"):
        refused = tallgrass("inspect", "key", f"{scheme}://b/{HRRR}")
        assert (refused.code, refused.json["error"]["code"]) == (1, "unknown_provider")
        remedy = refused.json["error"]["remedy"]
        for form in ("s3://BUCKET/KEY", "gs://BUCKET/KEY", "az://ACCOUNT.CONTAINER/KEY"):
            assert form in remedy
    assert "s3://BUCKET/KEY" in tallgrass("inspect", "key", "rubbish").json["error"]["remedy"]
    config = tmp_path / "tallgrass.toml"
    config.write_text('[ledger]\nproviders = ["wasabi"]\n', encoding="utf-8")
    known = tallgrass("--config", str(config), "inspect", "key", f"wasabi://b/{HRRR}")
    assert known.json["error"]["code"] == "unroutable"


def test_a_bad_line_loses_no_other() -> None:
    """Each bad line is answered with its error, in its place; at the end it ends with 1."""
    good = f"s3://unidata-nexrad-level2/{VOLUME}"
    lines = [
        good.encode(),
        b"s3://nobodys-pds/x",
        b"no address",
        b"s3://bucket/\xff\xfe",
        b"s3://noaa-hrrr-bdp-pds/" + b"x" * 20_000,
        b"s3://noaa-hrrr-bdp-pds/hrrr.20240510/conus/hrrr.t24z.wrfsfcf02.grib2",
        b"",
        good.encode() + b"\r",
    ]
    done = tallgrass("inspect", "key", "-", input=b"\n".join(lines))
    assert (done.code, done.err) == (1, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    codes = [answer["error"]["code"] if "error" in answer else None for answer in answers]
    assert codes == [
        None,
        "unroutable",
        "invalid_object_uri",
        "invalid_object_uri",
        "invalid_object_uri",
        "invalid_time_range",
        None,
    ]
    assert [answers[number]["object_uri"] for number in (0, 6)] == [good, good]
    assert answers[1]["key"] == "s3://nobodys-pds/x"
    assert [answer["dataset"] for answer in answers] == [
        "nexrad-l2", None, None, None, None, "hrrr", "nexrad-l2"
    ]  # fmt: skip
    assert all(answer["error"]["remedy"] for answer in answers if "error" in answer)


def test_lines_are_answered_as_they_come() -> None:
    """A key is answered while the standard input is still open."""
    command = [*PROGRAM, "inspect", "key", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for site in ("KDMX", "KTLX"):
            line = f"s3://unidata-nexrad-level2/{VOLUME}\n".replace("KDMX", site)
            child.stdin.write(line.encode())
            child.stdin.flush()
            assert f"/{site}/" in json.loads(child.stdout.readline())["object_uri"]
        child.stdin.close()
        assert child.stdout.read() == b""
    assert child.returncode == 0


def test_several_keys_are_several_lines() -> None:
    """Arguments are answered in order, one line each; a dash stands alone."""
    keys = [f"s3://unidata-nexrad-level2/{VOLUME}", f"s3://noaa-hrrr-bdp-pds/{HRRR}"]
    done = tallgrass("inspect", "key", *keys)
    assert done.code == 0
    assert [json.loads(line)["object_uri"] for line in done.out.splitlines()] == keys
    assert tallgrass("inspect", "key", "-", keys[0], "--output", "json").code == 2
    assert tallgrass("inspect", "key").code == 2


def test_people_read_a_page() -> None:
    """With --output table the same is told in words; an error with what to do."""
    done = tallgrass(
        "inspect", "key", f"s3://noaa-hrrr-bdp-pds/{HRRR}.idx", "s3://nobodys-pds/\u202ex",
        "--output", "table",
    )  # fmt: skip
    assert done.code == 1
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == f"s3://noaa-hrrr-bdp-pds/{HRRR}.idx"
    assert "starts    2024-05-10 14:00:00Z" in lines
    assert "ignored   sidecar" in lines
    assert any(line.startswith("remedy") and "dataset file" in line for line in lines)
    assert "\u202e" not in done.out
