"""`tallgrass follow` as a real process: a catalog from listings, without an account or a queue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, environment, here, tallgrass
from tests.pipeline.scene import Pipeline, thing
from tests.support.catalog import spanned

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Done
    from tests.support.backends import Backend

SINCE = ("--since", "2026-06-01T12:00:00Z")
GIVEN = [thing(2 * number) for number in range(4)]


@pytest.fixture
def pipeline(backend: Backend, tmp_path: Path) -> Pipeline:
    """Four objects in a folder."""
    made = Pipeline(backend, tmp_path)
    made.put(*GIVEN)
    return made


def flags_of(pipeline: Pipeline) -> list[str]:
    """Return the flags that lead it to the pipeline's folder and ledger."""
    objects = f"file:{pipeline.objects}"
    return ["--dataset", "goes-glm", "--store", pipeline.backend.url, "--objects", objects]


def follow(pipeline: Pipeline, *flags: str) -> Done:
    """Run it to its end."""
    return tallgrass("follow", *flags_of(pipeline), *flags)


def quick(pipeline: Pipeline, *flags: str) -> Done:
    """Run it to its end in this process, for its JSON."""
    return here("follow", *flags_of(pipeline), *flags, at=pipeline.backend)


def items(pipeline: Pipeline) -> int:
    """Count items by plain SQL."""
    ((number,),) = pipeline.backend.sql("SELECT count(*) FROM stac_items")
    return int(number)


def test_once_lists_records_and_works(pipeline: Pipeline) -> None:
    """From nothing to items in one command; the second finds nothing new."""
    done = follow(pipeline, *SINCE, "--once", "--output", "json")
    assert done.code == 0, done.err
    told = done.json
    buckets = {each.pop("bucket"): each for each in told.pop("buckets")}
    assert told == {
        "dataset": "goes-glm", "dry_run": False, "rounds": 1, "listed": 4, "known": 0,
        "recorded": 4, "changed": 0, "waited_for_message": 0, "worked_on": 4, "left": {},
        "passed_over": {}, "outside_time": 0, "capped": False,
    }  # fmt: skip
    assert list(buckets) == [f"s3://noaa-goes{number}" for number in range(16, 20)]
    assert buckets["s3://noaa-goes16"] == {
        "listings": 1, "failed_listings": 0, "down_since": None, "code": None, "message": None,
    }  # fmt: skip
    assert items(pipeline) == 4
    assert set(spanned(pipeline.backend.sql)) == {"goes-glm"}
    assert "recorded 4, overwritten 0, worked on 4" in done.err
    assert pipeline.backend.sql("SELECT DISTINCT intent FROM wal_attempts") == [("ingest",)]
    again = follow(pipeline, *SINCE, "--once")
    assert (again.code, again.err) == (0, "")
    assert "units worked on  0" in again.out


def test_until_idle_ends_after_a_listing_that_brings_nothing(pipeline: Pipeline) -> None:
    """Two listings: one with work, one without."""
    done = quick(pipeline, *SINCE, "--until-idle", "--every", "0.1")
    assert (done.json["rounds"], done.json["worked_on"]) == (2, 4)


def test_flags_choose_what_is_followed(pipeline: Pipeline) -> None:
    """Another bucket, a later time, a prefix, the last hour: each leaves something out."""
    bucket = GIVEN[0].place.bucket
    other = "noaa-goes18" if bucket == "noaa-goes19" else "noaa-goes19"
    for flags in ((*SINCE, "--bucket", other), ("--since", "now-2h"), ()):
        assert quick(pipeline, *flags, "--once").json["recorded"] == 0
    prefix = GIVEN[0].place.key.rpartition("_s")[0] + "_s202615212002"
    found = quick(pipeline, *SINCE, "--prefix", prefix, "--once")
    assert found.json["recorded"] == 1


def test_a_cap_ends_it_and_says_so(pipeline: Pipeline) -> None:
    """Two of four, the oldest, and the work on them; the same command brings the rest."""
    done = follow(pipeline, *SINCE, "--max-events", "2")
    assert (done.code, items(pipeline)) == (0, 2), done.err
    assert "--max-events is reached: run it again for the rest" in done.out
    again = follow(pipeline, *SINCE, "--max-events", "9", "--once", "--output", "json")
    told = again.json
    assert (told["known"], told["recorded"], told["capped"], items(pipeline)) == (2, 2, False, 4)


def test_a_rate_spreads_records_and_work(pipeline: Pipeline) -> None:
    """Two a second: the other two are recorded a second later, when the first are worked on."""
    done = follow(pipeline, *SINCE, "--once", "--rate", "2", "--output", "json")
    assert (done.code, done.json["worked_on"]) == (0, 4), done.err
    rows = pipeline.backend.sql(
        "SELECT created_at, updated_at FROM wal_records ORDER BY created_at"
    )
    created = [datetime.fromisoformat(row[0]) for row in rows]
    assert created[0] == created[1]
    assert (created[2] - created[1]).total_seconds() > 0.9
    assert rows[1][1] < rows[2][0], "worked on before the next are recorded"


def test_a_dry_run_tells_and_writes_nothing(pipeline: Pipeline) -> None:
    """One listing, whatever else is said; no record, no lease, no entry of the log."""
    tables = ("wal_records", "workers", "audit_log", "stac_collections", "config_versions")
    before = {table: pipeline.backend.sql(f"SELECT count(*) FROM {table}") for table in tables}
    done = follow(pipeline, *SINCE, "--dry-run", "--output", "json")
    told = done.json
    assert (done.code, told["dry_run"], told["rounds"]) == (0, True, 1), done.err
    assert (told["recorded"], told["worked_on"]) == (4, 0)
    for table in tables:
        assert pipeline.backend.sql(f"SELECT count(*) FROM {table}") == before[table], table
    people = follow(pipeline, *SINCE, "--dry-run", "--max-events", "3")
    assert "What following would do" in people.out
    assert ["new", "3"] in [line.split() for line in people.out.splitlines()]


def test_its_start_is_in_the_log(pipeline: Pipeline) -> None:
    """Who follows what, and from when on."""
    quick(pipeline, *SINCE, "--once")
    (entry,) = here("audit", "list", "--action", "follow_start", at=pipeline.backend).json[
        "entries"
    ]
    assert (entry["actor"], entry["subject"]) == ("worker", "follow:goes-glm")
    assert entry["detail"]["since"] == "2026-06-01T12:00:00.000000Z"


def test_old_data_of_a_dataset_that_wants_approvers_are_a_backfill(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """What is new may be followed; a refusal is in the log."""
    policy = tmp_path / "tallgrass.toml"
    policy.write_text("[governance.policies.goes-glm]\napprovals_needed = 1\n")
    env = {"TALLGRASS_CONFIG": str(policy)}
    for old in (SINCE, ("--since", "now-2h")):
        done = here("follow", *flags_of(pipeline), *old, "--once", at=pipeline.backend, env=env)
        assert (done.code, done.error["guard"]) == (3, "approval_missing"), done.err
    for new in ((), ("--since", "now-1h")):
        done = here("follow", *flags_of(pipeline), *new, "--once", at=pipeline.backend, env=env)
        assert done.code == 0, done.err
    log = here("audit", "list", "--action", "follow_refused", at=pipeline.backend)
    assert len(log.json["entries"]) == 2


def test_it_runs_until_it_is_told_to_stop(pipeline: Pipeline) -> None:
    """By SIGTERM; it hands its lease back, and reports what it did."""
    running = subprocess.Popen(
        [*PROGRAM, "follow", *flags_of(pipeline), *SINCE, "--every", "0.1", "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        _until(lambda: items(pipeline) == 4, running)
        os.kill(running.pid, signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    assert running.returncode == 0, err
    assert json.loads(out)["worked_on"] >= 4
    leases = pipeline.backend.sql(
        "SELECT count(*) FROM workers WHERE worker_id = 'worker' AND stopped_at IS NULL"
    )
    assert leases == [(0,)]


def _until(holds: object, running: subprocess.Popen[str]) -> None:
    """Wait for a condition, as long as the process lives."""
    deadline = time.monotonic() + 60
    while not holds():  # type: ignore[operator]
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_cannot_be_followed_is_told(pipeline: Pipeline) -> None:
    """Two ends, a dataset without times, objects that cannot be listed, a time that is none."""
    for flags, said in (
        (("--once", "--until-idle"), "--once or --until-idle, not both"),
        (("--dataset", "nexrad-l3", "--once"), "say which part with --prefix"),
        (("--objects", "event", "--once"), "nothing can be listed"),
        (("--since", "now-1y", "--once"), "RFC 3339"),
        (("--since", "now-99999d", "--bucket", "x", "--once"), "is no bucket of goes-glm"),
    ):
        done = quick(pipeline, *flags)
        assert (done.code, said in done.err) == (2, True), done.err


def test_a_ledger_that_is_not_there_is_told_before_anything_is_listed(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    """No file is made for it."""
    nowhere = f"sqlite:///{tmp_path / 'none.db'}"
    done = quick(pipeline, "--once", "--store", nowhere)
    assert (done.code, "there is no database" in done.err) == (4, True), done.err
