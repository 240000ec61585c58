"""`tallgrass inspect message`: what the pipeline would make of a notification."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import tallgrass
from tests.intake.notifications import GLM, event, record, sns

if TYPE_CHECKING:
    from pathlib import Path

URI = f"s3://noaa-goes19/{GLM}"
#: Deleted, known, of nobody's bucket, and no record at all.
MIXED = sns(
    event(record(eventName="ObjectRemoved:Delete"), record(), record(bucket="nobodys-pds"), 7)
)


def id_by_hand(dataset: str, uri: str, start: datetime) -> str:
    """Return a unit's id from its definition: milliseconds since the year 1, then SHA-256."""
    parts = [dataset.encode(), uri.encode(), f"{start:%Y-%m-%dT%H:%M:%S.%fZ}".encode()]
    hashed = hashlib.sha256(b"".join(len(p).to_bytes(4, "big") + p for p in parts)).hexdigest()
    since = start - datetime(1, 1, 1, tzinfo=UTC)
    bits = (since.days * 86_400 + since.seconds) * 1000 << 80 | int(hashed[:19], 16)
    # Version 8 stands before the hash; the variant's two bits, 10, replace two of its bits.
    return str(uuid.UUID(int=bits & ~(3 << 62) | 2 << 62 | 8 << 76))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A file with a message of which not everything can be understood."""
    path = tmp_path / "body.json"
    path.write_bytes(MIXED)
    return path


def test_a_notification_is_told_whole(tmp_path: Path) -> None:
    """Id, dataset, object, times, reference and message ids; it ends with 0: nothing is wrong."""
    body = {"messageId": "m-1", "body": sns(event(record())).decode()}
    (tmp_path / "body.json").write_text(json.dumps(body), encoding="utf-8")
    done = tallgrass("inspect", "message", "body.json", "--output", "json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    start = datetime(2025, 4, 7, 13, 0, 20, tzinfo=UTC)
    assert done.json == {
        "units": [
            {
                "wal_id": id_by_hand("goes-glm", URI, start),
                "dataset": "goes-glm",
                "object_uri": URI,
                "provider": "aws",
                "time_range_start": "2025-04-07T13:00:20.000000Z",
                "time_range_end": "2025-04-07T13:00:40.000000Z",
                "event_time": "2025-04-07T13:00:47.250000Z",
                "sns_message_id": "191c04d9-d428-5417-b457-511b08af29c6",
                "sqs_message_id": "m-1",
                "object_ref": {
                    "etag": "7239138a465f83a247851a1a64ac8927",
                    "size": 176_998,
                    "sequencer": "005D48DA450E238E88",
                    "version_id": None,
                },
            }
        ],
        "ignored": [],
        "errors": [],
    }
    # Neither a database nor a queue was made.
    assert [path.name for path in tmp_path.iterdir()] == ["body.json"]


def test_each_fault_is_told_by_itself(mixed: Path) -> None:
    """Units and ignored records are told beside what is wrong; then it ends with 1."""
    done = tallgrass("inspect", "message", str(mixed), "--output", "json")
    assert done.code == 1
    assert [unit["object_uri"] for unit in done.json["units"]] == [URI]
    assert done.json["ignored"] == [{"reason": "deletion", "object_uri": URI}]
    assert [error["code"] for error in done.json["errors"]] == ["unroutable", "invalid_input"]
    assert [error["message"][:14] for error in done.json["errors"]] == [
        "record 3 of 4:",
        "record 4 of 4:",
    ]
    assert all(error["remedy"] for error in done.json["errors"])


def test_a_message_may_come_through_a_pipe(mixed: Path) -> None:
    """A dash reads the standard input, with the same answer."""
    piped = tallgrass("inspect", "message", "-", "--output", "json", input=MIXED)
    assert piped == tallgrass("inspect", "message", str(mixed), "--output", "json")


def test_people_read_a_page(mixed: Path) -> None:
    """Without --output the same is told in words, with what to do."""
    done = tallgrass("inspect", "message", str(mixed))
    assert done.code == 1
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == "Unit of goes-glm"
    assert f"object       {URI}" in lines
    assert f"deletion  {URI}" in lines
    assert any(line.startswith("unroutable") and "Add it to a dataset" in line for line in lines)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_input"),
        (b"\xff\xfe", "invalid_input"),
        (b"[" * 2_000_000, "invalid_input"),
        (b'{"Records":[]}', "missing_required_field"),
        (sns("x", Type="SubscriptionConfirmation"), "subscription_unconfirmed"),
    ],
    ids=["nothing", "no text", "two mebibytes", "no records", "confirmation"],
)
def test_what_is_no_notification_is_an_error(body: bytes, code: str) -> None:
    """Whatever the bytes, the answer is a document, not a traceback."""
    done = tallgrass("inspect", "message", "-", "--output", "json", input=body)
    assert (done.code, done.json["units"], done.json["ignored"]) == (1, [], [])
    assert [error["code"] for error in done.json["errors"]] == [code]


def test_nothing_in_a_message_steers_the_terminal() -> None:
    """Marks of direction in a key are shown as escapes."""
    body = event(record("GLM-L2-LCFA/%E2%80%AEx", eventName="ObjectRemoved:Delete"))
    done = tallgrass("inspect", "message", "-", input=body.encode())
    assert done.code == 0
    assert "\\u202e" in done.out
    assert "\u202e" not in done.out


def test_a_file_that_is_not_there_is_a_bad_argument(tmp_path: Path) -> None:
    """It ends with 2 and says which file."""
    done = tallgrass("inspect", "message", str(tmp_path / "none.json"), "--output", "json")
    assert done.code == 2
    assert "none.json" in done.error["message"]
