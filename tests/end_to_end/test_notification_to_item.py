"""From an object put into a bucket to an item in the catalog: S3, SNS, SQS and PostgreSQL."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import psycopg
import pytest

from tallgrass.simulate.feed import Feed, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tests.end_to_end.cloud import Host, wait_for
from tests.oracle.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.cloud import Cloud
    from tests.oracle.tables import QueueContents

    Ask = Callable[[str], list[dict[str, Any]]]


pytestmark = pytest.mark.slow


def judge(database: str, queue: QueueContents, manifest: dict[str, Any]) -> list[str]:
    """Return what the oracle finds, which knows nothing of the package."""
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        return verdict(connection, queue, manifest)


@pytest.fixture
def host(cloud: Cloud, database: str, tmp_path: Path) -> Host:
    """A host that learns where the cloud is from its environment; tables are made."""
    made = Host(
        tmp_path / "host",
        {"worker": {"id": "host"}, "ledger": {"retry_cap_s": 0.01}},
        {
            "TALLGRASS_DATABASE_URL": database,
            "TALLGRASS_QUEUE_URL": cloud.queue.arn,
            "TALLGRASS_QUEUE_ENDPOINT_URL": cloud.server.url,
            "TALLGRASS_OBJECTS_URL": "cloud",
            "TALLGRASS_OBJECTS_ENDPOINT_URL": cloud.server.url,
        },
    )
    done = made.run("db", "migrate")
    assert done.code == 0, done.err
    return made


def announced(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """Return what each message that waits tells of its object, by address."""
    found = {}
    for message in cloud.peek():
        envelope = json.loads(message["Body"])
        for record in json.loads(envelope["Message"]).get("Records", ()):
            s3 = record["s3"]
            found[f"s3://{s3['bucket']['name']}/{unquote_plus(s3['object']['key'])}"] = {
                "sqs_message_id": message["MessageId"],
                "sns_message_id": envelope["MessageId"],
                "object_etag": s3["object"]["eTag"],
                "object_size": s3["object"]["size"],
                "object_sequencer": s3["object"]["sequencer"],
                "object_version_id": None,
            }
    return found


@pytest.mark.conformance("RP-3.3", "RP-3.4")
def test_an_object_put_into_a_bucket_becomes_an_item(
    cloud: Cloud, host: Host, database: str, rows: Ask
) -> None:
    """Put, notified, received, read from S3, catalogued; put again, and the item is new."""
    feed = Feed(31, 9, FeedFaults.none())
    manifest = cloud.put_objects(feed)
    told = announced(cloud)
    done = host.run("ingest", "--drain", "--output", "json")
    assert done.code == 0, done.err
    assert done.json["by_verdict"] == {"succeeded": 9}
    # Each bucket tested its notification when it was set up.
    assert done.json["ignored"] == {"test_event": len(cloud.buckets)}
    assert cloud.counts() == (0, 0, 0)

    found = rows(
        "SELECT r.object_uri, i.body, a.evidence, a.object_etag, a.object_size,"
        " a.object_sequencer, a.object_version_id, a.sqs_message_id, a.sns_message_id"
        " FROM wal_records AS r JOIN stac_items AS i USING (wal_id)"
        " JOIN wal_attempts AS a USING (wal_id) ORDER BY r.object_uri"
    )
    units = sorted(manifest["units"], key=lambda unit: str(unit["object_uri"]))
    assert [row["object_uri"] for row in found] == [unit["object_uri"] for unit in units]
    formats = {"goes-glm": "netcdf4", "hrrr": "grib2", "nexrad-l2": "nexrad-level2"}
    for row, unit in zip(found, units, strict=True):
        evidence = json.loads(row["evidence"])
        assert (evidence["source"], evidence["etag"], evidence["size"]) == (
            "object",
            unit["etag"],
            unit["size"],
        )
        # Only the object's own bytes tell this.
        assert evidence["header"]["format"] == formats[unit["dataset"]]
        assert evidence["header"]["complete"] is True
        assets = json.loads(row["body"])["assets"].values()
        assert unit["object_uri"] in {asset["href"] for asset in assets}
        assert {name: row[name] for name in told[unit["object_uri"]]} == told[unit["object_uri"]]
        assert told[unit["object_uri"]]["object_etag"] == unit["etag"]
    assert judge(database, cloud.contents(), manifest) == []

    first = next(step for step in feed.steps() if isinstance(step, FeedObject))
    cloud.put(FeedObject(bucket=first.bucket, key=first.key, content=first.content + b"\0"))
    again = host.run("ingest", "--drain", "--output", "json")
    assert again.code == 0, again.err
    assert again.json["units"] == 1
    attempts = rows(
        "SELECT a.attempt_no, a.intent, a.object_size FROM wal_attempts AS a JOIN wal_records AS r"
        f" USING (wal_id) WHERE r.object_uri = 's3://{first.bucket}/{first.key}'"
        " ORDER BY a.attempt_no"
    )
    assert attempts == [
        {"attempt_no": 1, "intent": "ingest", "object_size": len(first.content)},
        {"attempt_no": 2, "intent": "reingest", "object_size": len(first.content) + 1},
    ]
    assert cloud.counts() == (0, 0, 0)


def test_a_feed_of_every_fate_ends_as_planned(
    cloud: Cloud, host: Host, database: str, rows: Ask
) -> None:
    """Cut, empty, missing, overwritten, doubled, poison: each promise holds, by the oracle."""
    faults = FeedFaults(
        overwritten=0.1, stale=0.05, truncated=0.1, zero_bytes=0.05, missing=0.05, duplicated=0.1,
        poison=0.1, deletions=0.05, sidecars=0.05, test_events=0.05, raw_delivery=0.0,
    )  # fmt: skip
    feed = Feed(32, 40, faults)
    manifest = cloud.publish(feed)
    failing = [unit for unit in manifest["units"] if unit["expected"] == "failed"]
    assert {unit["expected_code"] for unit in failing} == {
        "missing_object",
        "size_too_small",
        "size_zero",
    }
    with host.start("ingest", "--output", "json") as worker:
        # What fails is delivered five times, with a rest of a second at least where it is retried;
        # what is not there is waited for in the ledger, up to the limit.
        wait_for(lambda: cloud.counts()[:2] == (0, 0), "an empty queue", worker)
        waiting = "SELECT count(*) AS n FROM wal_records WHERE status IN ('pending', 'in_progress')"
        wait_for(lambda: rows(waiting) == [{"n": 0}], "a ledger at rest", worker)
        done = worker.stop()
    assert done.code == 0, done.err
    assert rows("SELECT count(*) AS n FROM stac_items") == [{"n": 40 - len(failing)}]
    queue = cloud.contents()
    assert queue.dead
    assert judge(database, queue, manifest) == []


def test_several_processes_share_a_queue(
    cloud: Cloud, host: Host, database: str, rows: Ask
) -> None:
    """`--processes 2` on SQS: two leases, every object once, nothing left."""
    manifest = cloud.put_objects(Feed(33, 60, FeedFaults.none()))
    done = host.run("ingest", "--drain", "--processes", "2", "--batch", "10", "--output", "json")
    assert done.code == 0, done.err
    assert (done.json["processes"], done.json["by_verdict"]) == (2, {"succeeded": 60})
    assert rows("SELECT count(*) AS n FROM workers WHERE stopped_at IS NOT NULL") == [{"n": 2}]
    assert rows("SELECT count(*) AS n FROM wal_attempts") == [{"n": 60}]
    assert cloud.counts() == (0, 0, 0)
    assert judge(database, cloud.contents(), manifest) == []
