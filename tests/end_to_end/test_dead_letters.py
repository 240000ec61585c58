"""Failed, dead-lettered, mended, drained: the catalog is as if nothing had been."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.simulate.feed import Feed, FeedMessage, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tests.end_to_end.cloud import Cloud, Host, inner, manifest_of, wait_for
from tests.oracle.tables import read_rows
from tests.oracle.verdict import Disturbances, verdict
from tests.pipeline.scene import STORED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases
    from tests.support.aws import AwsServer

pytestmark = pytest.mark.slow

UNITS = 9
JSON = ("--output", "json")
RUN = "drain-1"


def host_of(cloud: Cloud, database: str, folder: Path) -> Host:
    """Return a host with tables, whose pipeline takes messages from the cloud's queue."""
    made = Host(
        folder,
        {"worker": {"id": "host"}, "ledger": {"retry_cap_s": 0.01}},
        {
            "TALLGRASS_DATABASE_URL": database,
            "TALLGRASS_QUEUE_URL": cloud.queue.arn,
            "TALLGRASS_QUEUE_ENDPOINT_URL": cloud.server.url,
            "TALLGRASS_OBJECTS_URL": "cloud",
            "TALLGRASS_OBJECTS_ENDPOINT_URL": cloud.server.url,
        },
    )
    ran(made, "db", "migrate")
    return made


def ran(host: Host, *args: str) -> Any:
    """Run a command that must succeed; return its JSON, if it was asked for."""
    done = host.run(*args)
    assert done.code == 0, (args, done.err)
    return done.json if JSON[0] in args else None


def stored(database: str) -> dict[str, Any]:
    """Return items and provenance bodies by plain SQL."""
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        return {name: read_rows(connection, STORED[name]) for name in ("items", "provenance")}


def store(cloud: Cloud, feed: Feed, change: Callable[[bytes], bytes] = lambda body: body) -> None:
    """Put the objects of a feed without telling anybody."""
    s3 = cloud.server.client("s3")
    for step in feed.steps():
        if isinstance(step, FeedObject):
            s3.put_object(Bucket=step.bucket, Key=step.key, Body=change(step.content))


@pytest.fixture
def untroubled(
    server: AwsServer, postgres_databases: Databases, tmp_path: Path
) -> Iterator[dict[str, Any]]:
    """What a run gives that never failed."""
    url = postgres_databases.create()
    cloud = Cloud.make(server, "untroubled")
    host = host_of(cloud, url, tmp_path / "untroubled")
    cloud.publish(Feed(51, UNITS, FeedFaults.none()))
    assert ran(host, "ingest", "--drain", *JSON)["by_verdict"] == {"succeeded": UNITS}
    yield stored(url)
    postgres_databases.drop(url)


@pytest.mark.conformance("WAL-10.5", "WAL-1.3", "RP-4.2c", "RP-5.5", "SM-5.3a")
def test_a_drained_catalog_is_that_of_a_run_that_never_failed(
    cloud: Cloud, database: str, untroubled: dict[str, Any], tmp_path: Path
) -> None:
    """Garbled objects fail into the dead-letter queue; mended and drained, every byte is there."""
    feed = Feed(51, UNITS, FeedFaults.none())
    host = host_of(cloud, database, tmp_path / "host")
    store(cloud, feed, lambda body: b"\xff" * len(body))
    sns = cloud.server.client("sns")
    for step in feed.steps():
        if isinstance(step, FeedMessage):
            sns.publish(TopicArn=cloud.topic, Message=inner(step.body))
    with host.start("ingest", *JSON) as worker:
        wait_for(lambda: cloud.counts() == (0, 0, UNITS), "dead letters", worker)
        assert worker.stop().code == 0
    failed = "SELECT status, count(*) AS n FROM wal_records GROUP BY status"
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        assert read_rows(connection, failed) == [{"status": "failed", "n": UNITS}]
    assert stored(database)["items"] == []

    classes = ran(host, "dlq", "classify", *JSON)
    assert classes["by_cause"]["integrity"] == classes["letters"] == UNITS
    store(cloud, feed)  # the remedy
    ran(host, "changes", "open", "CHG-1", "--title", "objects restored", "--actor", "otto")
    plan = ran(
        host, "dlq", "plan", "--cause", "integrity", "--replay-run-id", RUN,
        "--file", "drain.jsonl", *JSON,
    )  # fmt: skip
    assert plan["by_action"]["replay"] == UNITS
    assert cloud.counts() == (0, 0, UNITS)
    drained = ran(
        host, "dlq", "drain", "--plan", "drain.jsonl", "--change-ref", "CHG-1",
        "--remediation", "the objects were restored", "--actor", "otto", "--yes", *JSON,
    )  # fmt: skip
    assert (drained["planned"], drained["sent"], drained["left"]) == (UNITS, UNITS, 0)
    assert cloud.counts() == (UNITS, 0, 0)
    assert ran(host, "ingest", "--drain", *JSON)["by_verdict"] == {"succeeded": UNITS}
    report = ran(host, "dlq", "report", RUN, *JSON)
    assert (report["units"]["done"], report["units"]["due"]) == (UNITS, 0)
    assert [report[n] for n in ("duplicates", "lineage_regressions", "mismatches")] == [0, 0, 0]

    assert cloud.counts() == (0, 0, 0)
    assert stored(database) == untroubled
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        assert read_rows(connection, failed) == [{"status": "succeeded", "n": UNITS}]
        disturbed = Disturbances(codes=frozenset({"etag_mismatch"}), redriven=True)
        assert verdict(connection, cloud.contents(), manifest_of(feed), disturbed) == []
