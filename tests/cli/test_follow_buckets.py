"""`tallgrass follow` on buckets of an S3 server, of which some cannot be listed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import PROGRAM, environment, tallgrass
from tests.pipeline.scene import Pipeline, thing
from tests.support.listing_server import Bucket, ListingServer, refuses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.command import Done
    from tests.support.backends import Backend
    from tests.support.listing_server import Fault

#: One folder, so that each bucket is one listing.
NOON = ("--since", "2026-06-01T12:00:00Z", "--prefix", "GLM-L2-LCFA/2026/152/12/")
#: Objects of two satellites in turn: of goes-18 and goes-19, which are asked for last.
GIVEN = [thing(number) for number in range(6)]
NOBODY = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "none"}


@pytest.fixture
def pipeline(backend: Backend, tmp_path: Path) -> Pipeline:
    """A ledger; the objects are elsewhere."""
    return Pipeline(backend, tmp_path)


@pytest.fixture
def cloud() -> Iterator[ListingServer]:
    """The four buckets of GLM; a listing has two objects a page."""
    buckets = {name: Bucket(name) for name in (f"noaa-goes{n}" for n in range(16, 20))}
    for each in GIVEN:
        buckets[each.place.bucket].put_bytes(each.place.key, each.content)
    with ListingServer(*buckets.values(), page=2) as serving:
        yield serving


def command(
    pipeline: Pipeline, cloud: ListingServer, *flags: str
) -> tuple[list[str], dict[str, str]]:
    """Return the bare command, as its help tells it, and the way to the server."""
    env = {"TALLGRASS_OBJECTS_ENDPOINT_URL": cloud.url, **NOBODY}
    return ["follow", "--dataset", "goes-glm", "--store", pipeline.backend.url, *flags], env


def follow(pipeline: Pipeline, cloud: ListingServer, *flags: str) -> Done:
    """Run it to its end."""
    args, env = command(pipeline, cloud, *flags)
    return tallgrass(*args, "--output", "json", env=env, cwd=pipeline.folder)


def items(pipeline: Pipeline) -> int:
    """Count items by plain SQL."""
    ((number,),) = pipeline.backend.sql("SELECT count(*) FROM stac_items")
    return int(number)


def test_without_further_options_it_reads_the_public_buckets(
    pipeline: Pipeline, cloud: ListingServer
) -> None:
    """No folder, no account, no file: as the first line of its help says."""
    done = follow(pipeline, cloud, *NOON, "--once")
    assert (done.code, done.json["recorded"], items(pipeline)) == (0, 6, 6), done.err
    told = {each["bucket"]: each["listings"] for each in done.json["buckets"]}
    assert told == {f"s3://noaa-goes{number}": 1 for number in range(16, 20)}


@pytest.mark.parametrize("said", ["variable", "file", "flag"])
def test_where_objects_are_may_be_said_otherwise(
    pipeline: Pipeline, cloud: ListingServer, said: str
) -> None:
    """By a variable, by a file, by a flag: then no bucket is asked."""
    args, env = command(pipeline, cloud, *NOON, "--once", "--output", "json")
    url = f"file:{pipeline.objects}"
    if said == "variable":
        env["TALLGRASS_OBJECTS_URL"] = url
    elif said == "file":
        (pipeline.folder / "tallgrass.toml").write_text(f'[objects]\nurl = "{url}"\n')
    else:
        args += ["--objects", url]
    done = tallgrass(*args, env=env, cwd=pipeline.folder)
    assert (done.code, done.json["listed"], cloud.requests) == (0, 0, []), done.err


def test_a_folder_that_is_not_there_is_told_with_the_flag(
    pipeline: Pipeline, cloud: ListingServer
) -> None:
    """A backfill lists where its workers read; who means the cloud is told how to say so."""
    args = ["--dataset", "goes-glm", "--prefix", "GLM-L2-LCFA/2026/152/12/", "--dry-run"]
    done = tallgrass("backfill", *args, at=pipeline.backend, cwd=cloud_less(pipeline))
    assert (done.code, "--objects cloud" in done.err) == (2, True), done.err


def cloud_less(pipeline: Pipeline) -> Path:
    """Return a folder without objects."""
    folder = pipeline.folder / "elsewhere"
    folder.mkdir()
    return folder


def _half_way(cloud: ListingServer, name: str) -> Fault:
    """Answer the first page, and refuse the next."""

    def answer(query: dict[str, str]) -> tuple[int, bytes]:
        if "start-after" in query or "continuation-token" in query:
            return refuses(403, "AccessDenied")(query)  # type: ignore[return-value]
        return cloud._page(name, query)

    return answer


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        ("missing", "bucket_missing"),
        ("denied", "bucket_denied"),
        ("busy", "listing_broken"),
        ("half_way", "bucket_denied"),
    ],
)
def test_one_bucket_that_fails_leaves_the_others_and_the_work(
    pipeline: Pipeline, cloud: ListingServer, trouble: str, code: str
) -> None:
    """The first of the two that hold objects: the other is listed and worked on, and 1 says so."""
    name = "noaa-goes18"
    faults = {
        "missing": refuses(404, "NoSuchBucket"),
        "denied": refuses(403, "AccessDenied"),
        "busy": refuses(503, "SlowDown"),
        "half_way": _half_way(cloud, name),
    }
    cloud.buckets[name].fault = faults[trouble]
    done = follow(pipeline, cloud, *NOON, "--once")
    assert (done.code, done.json["recorded"], done.json["worked_on"]) == (1, 3, 3)
    assert items(pipeline) == 3
    told = {each["bucket"]: each["code"] for each in done.json["buckets"]}
    assert {uri: why for uri, why in told.items() if why} == {f"s3://{name}": code}
    assert done.err.count("not listed: ") == 1, done.err
    assert cloud.buckets["noaa-goes19"].asked > 0
    cloud.buckets[name].fault = None
    again = follow(pipeline, cloud, *NOON, "--once")
    assert (again.code, items(pipeline)) == (0, 6), again.err


def test_where_no_bucket_can_be_listed_what_is_due_is_done_all_the_same(
    pipeline: Pipeline, cloud: ListingServer, tmp_path: Path
) -> None:
    """It ends with 4 and the bucket's error, behind the report of the work."""
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{GIVEN[0].uri}\n")
    due = tallgrass(
        "backfill", "--dataset", "goes-glm", "--listing", str(keys), "--actor", "ann",
        at=pipeline.backend,
    )  # fmt: skip
    assert due.code == 0, due.err
    for bucket in cloud.buckets.values():
        bucket.fault = refuses(403, "AccessDenied")
    for until in ("--once", "--until-idle", None):
        done = follow(pipeline, cloud, *NOON, *([until] if until else []))
        assert (done.code, '"code": "bucket_denied"' in done.err) == (4, True), done.err
        assert [each["code"] for each in done.json["buckets"]] == ["bucket_denied"] * 4
    assert items(pipeline) == 1


def test_a_bucket_that_is_down_for_a_while_is_told_twice_and_loses_nothing(
    pipeline: Pipeline, cloud: ListingServer
) -> None:
    """It answers with 503, then again: a line each, however many rounds pass, and all is found."""
    down = cloud.buckets["noaa-goes16"]
    down.fault = refuses(503, "SlowDown")
    args, env = command(pipeline, cloud, *NOON, "--every", "0.1", "--output", "json")
    running = subprocess.Popen(
        [*PROGRAM, *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**env),
        cwd=pipeline.folder,
    )  # fmt: skip
    try:
        _until(lambda: items(pipeline) == 6, running)
        asked = cloud.buckets["noaa-goes17"].asked
        _until(lambda: cloud.buckets["noaa-goes17"].asked > asked + 3, running)
        # Two tries of four requests each at the most, between rests; not one a round.
        assert down.asked <= 24
        late = thing(8).place.key.replace("_G19_", "_G16_")
        down.put_bytes(late, thing(8).content)
        down.fault = None
        _until(lambda: items(pipeline) == 7, running)
        os.kill(running.pid, signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    finally:
        if running.poll() is None:
            running.kill()
            running.communicate()
    assert running.returncode == 0, err
    assert (err.count("not listed: "), err.count("listed again: ")) == (1, 1), err
    (told, *_) = json.loads(out)["buckets"]
    assert (told["code"], told["down_since"]) == (None, None)
    assert told["failed_listings"] > 0


def _until(holds: Callable[[], bool], running: subprocess.Popen[str]) -> None:
    """Wait for a condition, as long as the process lives."""
    deadline = time.monotonic() + 60
    while not holds():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
