"""The same feed, whoever works on it how: the same items, lineage and statuses, byte for byte."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import tallgrass
from tallgrass.bootstrap.datasets import config_version
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.provenance.prov import RUN_FIELDS, RUN_KEY
from tallgrass.simulate.feed import Feed
from tallgrass.simulate.feed_plan import FeedFaults
from tests.pipeline.scene import (
    FIRST,
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    stored,
    thing,
    things,
)
from tests.support.backends import Backend, ManualClock, prepare
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from pathlib import Path

UNITS = 60
FAULTS = FeedFaults(overwritten=0.1, stale=0.05, truncated=0.05, zero_bytes=0.05, missing=0.05)
#: Batch size, number of workers, seed of the order (None: as it comes).
WAYS = [(1, 1, None), (7, 2, 1), (100, 3, 2), (20, 1, 3)]


def run(
    backend: Backend, folder: Path, feed: Feed, *, batch: int, workers: int, seed: int | None
) -> dict[str, Any]:
    """Take a feed through a pipeline in one way; return what is stored."""
    folder.mkdir(exist_ok=True)
    pipeline = Pipeline(backend, folder, batch=batch, max_attempts=12, max_receive_count=10)
    feed.write(pipeline.objects)
    bodies = list(feed.bodies())
    chance = random.Random(seed)
    if seed is not None:
        chance.shuffle(bodies)
    pipeline.queue.send(bodies)
    team = [pipeline.start(pipeline.register(f"team-{number}")) for number in range(workers)]
    for _ in range(2000):
        worker = chance.choice(team)
        if worker.run_messages().is_empty and worker.run_due().is_empty:
            status = pipeline.queue.status()
            if not status.visible and not status.in_flight:
                break
            pipeline.clock.advance(VISIBILITY_S + 1)
    assert_effects_follow_the_ledger(backend)
    return _settled(stored(backend))


def _settled(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out whether an item was created or updated: that depends on what was there before."""
    found["records"] = [(*row[:4], *row[5:]) for row in found["records"]]
    found["events"] = len({row[0] for row in found["events"]})
    return found


def in_a_ledger_of_its_own(folder: Path, name: str, feed: Feed, **way: Any) -> dict[str, Any]:
    """Run on SQLite, whatever else the test runs on."""
    (folder / name).mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / name / 'ledger.db'}")
    found = run(backend, folder / name, feed, **way)
    backend.close()
    return found


@pytest.mark.slow
@pytest.mark.conformance("WAL-7.6", "RP-1.2", "RP-4.1a", "RP-4.1b")
def test_any_way_of_working_gives_the_same_bytes(backend: Backend, tmp_path: Path) -> None:
    """Batch size, order, number of workers, clock and chance change no item, document or status."""
    feed = Feed(5, UNITS, FAULTS)
    found = run(backend, tmp_path, feed, batch=13, workers=2, seed=9)
    expected = {unit.object_uri: unit for unit in feed.manifest().units}
    rows = backend.rows("SELECT object_uri, status, last_error_code FROM wal_records")
    assert {row["object_uri"] for row in rows} == set(expected)
    for row in rows:
        wanted = expected[row["object_uri"]]
        assert (row["status"] == "succeeded") == (wanted.expected == "succeeded")
        assert row["last_error_code"] == wanted.expected_code
    assert len(found["items"]) == sum(each.expected == "succeeded" for each in expected.values())
    for number, (batch, workers, seed) in enumerate(WAYS):
        way: dict[str, Any] = {"batch": batch, "workers": workers, "seed": seed}
        assert in_a_ledger_of_its_own(tmp_path, f"way-{number}", feed, **way) == found


@pytest.mark.conformance("WAL-7.6")
def test_workers_of_any_name_give_the_same_documents(backend: Backend, tmp_path: Path) -> None:
    """A small feed by one worker and by three gives the same items and documents."""
    feed = Feed(6, 12, FeedFaults.none())
    one = run(backend, tmp_path, feed, batch=100, workers=1, seed=None)
    many = in_a_ledger_of_its_own(tmp_path, "many", feed, batch=2, workers=3, seed=4)
    assert many == one
    assert len(one["items"]) == 12


@pytest.mark.conformance("RP-1.2", "RP-4.1a", "RP-4.1b", "WAL-7.4")
def test_a_rerun_gives_the_same_bytes_and_ids(backend: Backend, tmp_path: Path) -> None:
    """Retried, recovered or put back by a tool, a unit ends as a first run would end."""
    given = things(4)
    pipeline = Pipeline(backend, tmp_path)
    plain, retried, recovered, replayed = given
    pipeline.feed(plain)
    pipeline.drain()
    pipeline.announce(retried)
    pipeline.worker.run_messages()
    pipeline.put(retried)
    pipeline.drain()
    pipeline.feed(recovered)
    batch = pipeline.worker.receive()
    for phase in ("parse", "record_and_claim", "read_evidence", "operate"):
        getattr(pipeline.worker, phase)(batch)
    pipeline.replace_worker()
    pipeline.drain()
    pipeline.announce(replayed)
    pipeline.worker.run_messages()
    pipeline.put(replayed)
    row = pipeline.row(replayed)
    put_back(pipeline.stores, [(row["wal_id"], row["version"])])
    pipeline.worker.run_due()
    assert [pipeline.row(each)["attempts"] for each in given] == [1, 2, 2, 2]

    (tmp_path / "first").mkdir()
    other = prepare("sqlite", f"sqlite:///{tmp_path / 'first' / 'ledger.db'}")
    first = Pipeline(other, tmp_path / "first")
    first.feed(*given)
    first.drain()
    assert pipeline.stored() == first.stored()
    for each in given:
        ours, theirs = pipeline.attempts(each)[-1], first.attempts(each)[-1]
        for name in ("item_sha256", "provenance_sha256", "prov_activity_id", "evidence"):
            assert ours[name] == theirs[name]
        # A run is one attempt: its id follows from the record and the attempt's number.
        assert (ours["openlineage_run_id"] == theirs["openlineage_run_id"]) == (
            ours["attempt_no"] == theirs["attempt_no"]
        )
    other.close()


def run_parts(backend: Backend) -> dict[tuple[str, str], dict[str, Any]]:
    """Return by unit and activity the part of a document that is tagged as a run's own."""
    rows = backend.sql("SELECT wal_id, activity_id, run FROM provenance")
    return {(wal_id, activity): json.loads(bytes(run)) for wal_id, activity, run in rows}


@pytest.mark.conformance("RP-4.1d", "RP-4.1b")
def test_only_the_declared_fields_differ_between_runs(backend: Backend, tmp_path: Path) -> None:
    """Over 100 runs with other clocks, workers, messages and attempts only run fields change."""
    given = thing()
    bodies, differing = set(), set()
    documents: list[dict[str, Any]] = []
    for number in range(100):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        url = f"sqlite:///{folder / 'ledger.db'}"
        ledger = prepare("sqlite", url) if number else backend
        clock = ManualClock(FIRST + timedelta(hours=number))
        pipeline = Pipeline(ledger, folder)
        pipeline.new_worker(f"worker-{number % 7}", clock=clock)
        for _ in range(number % 3):
            pipeline.announce(given, time=FIRST + timedelta(seconds=number))
            pipeline.worker.run_messages()
        pipeline.feed(given)
        pipeline.drain()
        item = pipeline.item(given)
        assert item is not None
        (body,) = ledger.sql("SELECT body, sha256, activity_id FROM provenance")
        bodies.add((item["body"], item["sha256"], *body))
        documents.append(next(iter(run_parts(ledger).values())))
        if number:
            ledger.close()
    assert len(bodies) == 1
    first = documents[0]
    for other in documents[1:]:
        assert set(other) == set(first)
        outside = [name for name in first if name != RUN_KEY and first[name] != other[name]]
        assert outside == []
        differing |= {
            name for name in first[RUN_KEY] if first[RUN_KEY][name] != other[RUN_KEY][name]
        }
    assert differing <= set(RUN_FIELDS)
    # The premise: the runs did differ.
    assert differing >= {"attempt", "workerId", "startedAtTime", "endedAtTime", "sqsMessageId"}


@pytest.mark.conformance("RP-3.6")
def test_each_attempt_keeps_the_versions_of_code_and_configuration(
    backend: Backend, tmp_path: Path
) -> None:
    """Failed and successful attempts alike tell by which program and configuration they were."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    pipeline.put(thing())
    pipeline.drain()
    digest = config_version(pipeline.config, default_catalogue())
    kept = [(each["code_version"], each["config_version"]) for each in pipeline.attempts(thing())]
    assert kept == [(tallgrass.__version__, digest)] * 2
    (document,) = backend.sql("SELECT body FROM provenance")
    activity = json.loads(bytes(document[0]))["@graph"][0]
    assert (activity["kfm:codeVersion"], activity["kfm:configDigest"]) == kept[0]


@pytest.mark.conformance("RP-3.6")
def test_the_digest_follows_values_not_their_order(tmp_path: Path) -> None:
    """Order and whitespace of the file do not change the digest; a value does."""
    texts = {
        "one": "[ledger]\nmax_attempts = 5\nreingest = false\n",
        "same": "\n[ledger]\n  reingest   =   false # why\nmax_attempts=5\n",
        "other": "[ledger]\nmax_attempts = 6\nreingest = false\n",
    }
    digests = {}
    for name, text in texts.items():
        file = tmp_path / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        config = load_config(file=file, environment={})
        digests[name] = config_version(config, default_catalogue())
    assert digests["one"] == digests["same"] != digests["other"]
