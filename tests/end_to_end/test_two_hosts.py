"""Two hosts on one database and one queue; one of them dies in the middle of its work."""

from __future__ import annotations

import contextlib
import http.client
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FeedFaults
from tests.end_to_end.cloud import Host, wait_for
from tests.oracle.verdict import verdict
from tests.support.odd_store import Answer, OddStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.end_to_end.cloud import Cloud
    from tests.support.odd_store import Request

UNITS = 120
#: Reads that the dying host finishes before its store hangs.
READS = 12


class HangingGate:
    """Passes requests on to the store, then hangs: it stops a worker in the middle of a batch."""

    def __init__(self, store_url: str) -> None:
        self._address = store_url.removeprefix("http://")

    def __call__(self, number: int, request: Request) -> Answer:
        """Answer a request as the store does, or not at all."""
        if number > READS:
            return Answer(status=0, hang=True)
        asked = http.client.HTTPConnection(self._address, timeout=60)
        with contextlib.closing(asked):
            asked.request(request.method, request.path, headers=request.headers)
            found = asked.getresponse()
            names = ("ETag", "Content-Range", "Last-Modified")
            kept = {name: found.headers[name] for name in names if name in found.headers}
            return Answer(status=found.status, body=found.read(), headers=kept)


def host(folder: Path, name: str, cloud: Cloud, database: str, **changes: Any) -> Host:
    """Make a host with its own folder, configuration file and worker id."""
    values = {
        "queue": cloud.queue.url, "objects": cloud.server.url, "lease_s": 10.0, "visibility_s": 20.0
    } | changes  # fmt: skip
    return Host(
        folder / name,
        {
            "database": {"url": database},
            "worker": {"id": name, "batch": 10, "lease_s": values["lease_s"]},
            "queue": {
                "url": values["queue"],
                "endpoint_url": cloud.server.url,
                "visibility_s": values["visibility_s"],
                "receivers": 2,
            },
            "objects": {"url": "cloud", "endpoint_url": values["objects"]},
        },
    )


@pytest.mark.slow
def test_a_host_killed_in_the_middle_is_replaced_by_the_other(
    cloud: Cloud,
    database: str,
    rows: Callable[[str], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """One host gets SIGKILL: every object has one item, none is lost or doubled, no dead letter."""
    manifest = cloud.put_objects(Feed(34, UNITS, FeedFaults.none()))
    with OddStore(HangingGate(cloud.server.url)) as gate:
        # The first names its queue by ARN and the second by address: it is one queue.
        dying = host(
            tmp_path, "host-a", cloud, database, queue=cloud.queue.arn, objects=gate.url,
            lease_s=5.0, visibility_s=5.0,
        )  # fmt: skip
        living = host(tmp_path, "host-b", cloud, database)
        assert dying.run("db", "migrate").code == 0
        held = (
            "SELECT count(*) AS n FROM wal_attempts AS a JOIN workers AS w"
            " ON w.incarnation = a.worker_incarnation"
            " WHERE w.worker_id = 'host-a' AND a.status = 'pending'"
        )
        with dying.start("ingest") as killed:
            wait_for(
                lambda: len(gate.requests) > READS and rows(held)[0]["n"] > 0,
                "host-a in the middle of a batch",
                killed,
            )
            with living.start("ingest", "--output", "json") as survivor:
                wait_for(
                    lambda: rows(
                        "SELECT 1 FROM wal_attempts"
                        " WHERE worker_id = 'host-b' AND status = 'applied'"
                    ),
                    "both hosts at work",
                    survivor,
                )
                killed.kill()
                wait_for(lambda: cloud.counts()[:2] == (0, 0), "an empty queue", survivor)
                wait_for(
                    lambda: rows("SELECT count(*) AS n FROM stac_items") == [{"n": UNITS}],
                    "all items",
                    survivor,
                )
                done = survivor.stop()
    assert done.code == 0, done.err
    assert done.json["by_verdict"]["succeeded"] > 0
    assert rows("SELECT status, count(*) AS n FROM wal_records GROUP BY status") == [
        {"status": "succeeded", "n": UNITS}
    ]
    lost = rows(
        "SELECT count(*) AS n FROM wal_attempts WHERE status = 'rolled_back'"
        " AND error_code = 'lease_expired'"
    )
    assert lost[0]["n"] > 0
    assert cloud.counts() == (0, 0, 0)
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        assert verdict(connection, cloud.contents(), manifest) == []
