"""Objects that are announced before they can be read: the unit waits in the ledger, and comes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.ledger.rules import LedgerRules
from tallgrass.retry import Backoff
from tallgrass.simulate.feed_files import etag_of
from tests.evidence.samples import chunk
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    message_of,
    thing,
)
from tests.pipeline.test_failures import edges

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backends import Backend

LIMIT = 3


def absent(pipeline: Pipeline, dataset: str) -> None:
    """Announce what is not there."""
    pipeline.announce(thing(dataset=dataset))


def growing(pipeline: Pipeline, dataset: str) -> None:
    """Announce the whole object, of which a part is written."""
    whole = thing(dataset=dataset)
    pipeline.put(whole, content=whole.content[: len(whole.content) * 2 // 3])
    pipeline.announce(whole)


def begun(pipeline: Pipeline, dataset: str) -> None:
    """Announce the whole object, of which no byte is written."""
    pipeline.put(thing(dataset=dataset), content=b"")
    pipeline.announce(thing(dataset=dataset))


#: By cause: the code that the unit ends with if the object never comes.
CAUSES: dict[Callable[[Pipeline, str], None], str] = {
    absent: "missing_object",
    growing: "etag_mismatch",
    begun: "size_zero",
}
causes = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
datasets = pytest.mark.parametrize("dataset", ["goes-glm", "nexrad-l2", "hrrr"])


@pytest.mark.conformance("C-11", "SM-4.5c")
@causes
@datasets
def test_a_unit_whose_object_is_not_there_yet_waits(
    backend: Backend, tmp_path: Path, cause: Callable[[Pipeline, str], None], dataset: str
) -> None:
    """It is pending and due by two edges at one instant, its message goes, nothing is written."""
    pipeline = Pipeline(backend, tmp_path)
    cause(pipeline, dataset)
    batch = pipeline.worker.run_messages()
    row = pipeline.row(thing(dataset=dataset))
    assert (row["status"], row["last_error_code"]) == ("pending", "not_ready")
    assert row["due_at"] is not None
    assert row["integrity_status"] == "failed"
    assert f"{CAUSES[cause]}: " in row["last_error_message"]
    assert edges(pipeline, row["wal_id"])[-2:] == [
        ("in_progress", "failed"),
        ("failed", "pending"),
    ]
    (attempt,) = pipeline.attempts(thing(dataset=dataset))
    assert (attempt["status"], attempt["error_code"]) == ("failed", "not_ready")
    assert attempt["closed_at"] == row["updated_at"]
    journal = "SELECT kind, from_status, to_status, occurred_at FROM wal_transitions"
    assert backend.sql(journal) == [("not_yet", "failed", "pending", row["updated_at"])]
    assert (batch.deleted, batch.kept) == (1, 0)
    assert pipeline.left() == (0, 0, 0)
    assert pipeline.item(thing(dataset=dataset)) is None
    assert_effects_follow_the_ledger(backend)


@causes
@datasets
def test_the_object_comes_and_the_unit_succeeds_without_a_message(
    backend: Backend, tmp_path: Path, cause: Callable[[Pipeline, str], None], dataset: str
) -> None:
    """The queue is empty; the ledger runs the unit, and what is stored is the whole object's."""
    pipeline = Pipeline(backend, tmp_path)
    cause(pipeline, dataset)
    whole = thing(dataset=dataset)
    pipeline.worker.run_messages()
    pipeline.worker.run_due()
    assert pipeline.row(whole)["last_error_code"] == "not_ready"
    pipeline.put(whole)
    pipeline.worker.run_due()
    row = pipeline.row(whole)
    assert (row["status"], row["last_error_code"], row["attempts"]) == ("succeeded", None, 3)
    assert pipeline.attempts(whole)[-1]["read_etag"] == etag_of(whole.content)
    assert pipeline.item(whole) is not None
    assert_effects_follow_the_ledger(backend)
    assert pipeline.left() == (0, 0, 0)


@pytest.mark.conformance("SM-7.1a", "C-09")
@causes
def test_what_never_comes_is_held_with_the_fault_itself(
    backend: Backend, tmp_path: Path, cause: Callable[[Pipeline, str], None]
) -> None:
    """The limit bounds the waiting: the last attempt names the fault and the unit is held."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=LIMIT)
    cause(pipeline, "goes-glm")
    pipeline.drain()
    row = pipeline.row(thing())
    assert (row["status"], row["attempts"]) == ("quarantined", LIMIT)
    assert row["last_error_code"] == CAUSES[cause]
    assert row["due_at"] is None
    codes = [attempt["error_code"] for attempt in pipeline.attempts(thing())]
    assert codes == ["not_ready"] * (LIMIT - 1) + [CAUSES[cause]]
    assert pipeline.left() == (0, 0, 0)
    audit = backend.sql("SELECT action, reason FROM audit_log")
    assert audit == [("quarantine", "attempts_exhausted")]
    pipeline.put(thing())
    assert pipeline.worker.run_due().is_empty


def test_waiting_takes_longer_each_time(backend: Backend, tmp_path: Path) -> None:
    """It is due within the back-off of its attempts: 0 of 100 s by the draw, then all of 200 s."""
    rules = LedgerRules(backoff=Backoff(base_s=100.0, cap_s=900.0))
    chance = [0.0]
    stores = backend.open(rules, catalogue=default_catalogue(), draw=lambda: chance[0])
    pipeline = Pipeline(backend, tmp_path, rules=rules, stores=stores)
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    waits = [_wait(pipeline.row(thing()))]
    chance[0] = 1.0
    assert not pipeline.worker.run_due().is_empty
    waits.append(_wait(pipeline.row(thing())))
    assert waits == [0.0, 200.0]
    assert pipeline.worker.run_due().is_empty


def _wait(row: dict[str, Any]) -> float:
    due, since = (datetime.fromisoformat(row[name]) for name in ("due_at", "updated_at"))
    return (due - since).total_seconds()


def test_a_second_message_does_not_hurry_a_unit_that_waits(
    backend: Backend, tmp_path: Path
) -> None:
    """Announced again while it waits it stays as it is, and that message goes, too."""
    rules = LedgerRules(backoff=Backoff(base_s=100.0, cap_s=900.0))
    stores = backend.open(rules, catalogue=default_catalogue(), draw=lambda: 1.0)
    pipeline = Pipeline(backend, tmp_path, rules=rules, stores=stores)
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    before = pipeline.row(thing())
    pipeline.announce(thing())
    batch = pipeline.worker.run_messages()
    assert (batch.deleted, len(batch.claims)) == (1, 0)
    assert pipeline.row(thing()) == before


def test_a_neighbour_is_not_held_up(backend: Backend, tmp_path: Path) -> None:
    """Of two units of one message the one that is there succeeds, and the message goes."""
    pipeline = Pipeline(backend, tmp_path)
    there, waiting = thing(0), thing(1)
    pipeline.put(there)
    pipeline.queue.send([message_of(there.event(), waiting.event())])
    pipeline.worker.run_messages()
    assert pipeline.row(there)["status"] == "succeeded"
    assert pipeline.row(waiting)["last_error_code"] == "not_ready"
    assert pipeline.left() == (0, 0, 0)


def test_a_chunk_without_a_size_waits_until_it_is_whole(backend: Backend, tmp_path: Path) -> None:
    """The topic of radar chunks tells no size: a part of a chunk waits, the whole one succeeds."""
    pipeline = Pipeline(backend, tmp_path)
    bucket, key = "unidata-nexrad-level2-chunks", "KTWX/292/20260601-120304-001-S"
    path = pipeline.objects / bucket / key
    path.parent.mkdir(parents=True)
    path.write_bytes(chunk("S")[:-30])
    event = {
        "S3Bucket": bucket,
        "Key": key,
        "SiteID": "KTWX",
        "DateTime": "2026-06-01T12:03:04",
        "VolumeID": 292,
        "ChunkID": 1,
        "ChunkType": "S",
        "L2Version": "V06",
    }
    pipeline.queue.send([json.dumps(event).encode()])
    pipeline.worker.run_messages()
    columns = "SELECT status, last_error_code, integrity_status FROM wal_records"
    assert backend.sql(columns) == [("pending", "not_ready", "failed")]
    assert pipeline.left() == (0, 0, 0)
    path.write_bytes(chunk("S"))
    pipeline.worker.run_due()
    assert backend.sql(columns) == [("succeeded", None, "ok")]


def test_a_sidecar_is_not_waited_for(backend: Backend, tmp_path: Path) -> None:
    """A forecast succeeds without its index, and the index's own message is let go unread."""
    pipeline = Pipeline(backend, tmp_path)
    forecast = thing(dataset="hrrr")
    pipeline.put(forecast)
    index = forecast.event(key=f"{forecast.place.key}.idx")
    pipeline.queue.send([message_of(forecast.event()), message_of(index, number=1)])
    batch = pipeline.worker.run_messages()
    assert (batch.deleted, len(batch.claims)) == (2, 1)
    assert pipeline.statuses() == {"succeeded": 1}


@datasets
def test_what_is_cut_as_announced_does_not_wait(
    backend: Backend, tmp_path: Path, dataset: str
) -> None:
    """A truncated object that is as long as announced fails with its own code, and stays failed."""
    pipeline = Pipeline(backend, tmp_path)
    cut = thing(dataset=dataset).content[:-40]
    pipeline.put(thing(dataset=dataset), content=cut)
    pipeline.announce(thing(dataset=dataset), size=len(cut), etag=etag_of(cut))
    batch = pipeline.worker.run_messages()
    row = pipeline.row(thing(dataset=dataset))
    assert (row["status"], row["last_error_code"]) == ("failed", "size_too_small")
    assert (batch.deleted, batch.kept) == (0, 1)


def test_another_whole_version_is_not_waited_for(backend: Backend, tmp_path: Path) -> None:
    """An object that was overwritten by a shorter one, whole in itself, is a mismatch."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.put(thing())
    pipeline.announce(thing(), size=len(thing().content) + 1, etag="0" * 32)
    pipeline.worker.run_messages()
    row = pipeline.row(thing())
    assert (row["status"], row["last_error_code"]) == ("failed", "etag_mismatch")


def test_a_rerun_that_waits_leaves_its_unit_as_it_is(backend: Backend, tmp_path: Path) -> None:
    """A newer object that is not there yet: the unit stays succeeded and due, then is renewed."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.worker.run_messages()
    before = pipeline.item(thing())
    pipeline.path(thing()).unlink()
    pipeline.announce(thing(version=2))
    pipeline.worker.run_messages()
    row = pipeline.row(thing())
    assert (row["status"], row["last_error_code"]) == ("succeeded", "not_ready")
    assert row["due_at"] is not None
    assert pipeline.item(thing()) == before
    pipeline.put(thing(version=2))
    pipeline.worker.run_due()
    assert pipeline.row(thing())["last_error_code"] is None
    assert pipeline.attempts(thing())[-1]["read_etag"] == etag_of(thing(version=2).content)
    pipeline.clock.advance(VISIBILITY_S + 1)
    assert pipeline.worker.run_messages().is_empty
