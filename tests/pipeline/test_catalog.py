"""What registering does: created, updated, no-op; and a ledger that nobody beside it overrules."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.ledger.record_filter import RecordFilter
from tests.contract.scene import RAW_ERRORS
from tests.pipeline.scene import Pipeline, assert_effects_follow_the_ledger, message_of, thing
from tests.pipeline.watched import WatchedDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend

REFERENCES = ("stac_item_id", "stac_collection_id", "stac_item_href")


def rerun(pipeline: Pipeline, given: Thing) -> list[str]:
    """Announce an object that may have been written again; return what the commit writes."""
    written: list[str] = []
    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, written.append)
    pipeline.announce(given)
    pipeline.worker.run_messages()
    pipeline.stores.runner.database = pipeline.stores.database
    return [name for name in written if name.endswith(("_items", "_provenance", "_events"))]


def assert_fields_match(pipeline: Pipeline, status: str) -> None:
    """The record's four fields are what the catalog holds."""
    row, item = pipeline.row(thing()), pipeline.item(thing())
    assert item is not None
    assert row["stac_status"] == status
    assert (row["stac_collection_id"], row["stac_item_id"]) == (
        item["collection_id"],
        item["item_id"],
    )
    assert row["stac_item_href"] == (
        f"collections/{item['collection_id']}/items/{item['item_id']}.json"
    )


@pytest.mark.conformance("WAL-3.10", "WAL-3.12", "WAL-6.6", "RP-7.2", "RP-7.3")
def test_created_then_updated_then_no_op(backend: Backend, tmp_path: Path) -> None:
    """A new item is created, a changed one updated, an unchanged one is not written at all."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.put(thing())
    pipeline.announce(thing())
    batch = pipeline.worker.receive()
    pipeline.worker.parse(batch)
    pipeline.worker.record_and_claim(batch)
    assert [pipeline.row(thing())[name] for name in REFERENCES] == [None, None, None]
    assert pipeline.row(thing())["stac_status"] == "unknown"
    for phase in ("read_evidence", "operate", "commit", "acknowledge"):
        getattr(pipeline.worker, phase)(batch)
    assert_fields_match(pipeline, "created")
    created = pipeline.item(thing())
    assert created is not None

    newer = thing(version=2)
    pipeline.put(newer)
    assert rerun(pipeline, newer) == ["update_items", "insert_provenance", "insert_events"]
    assert_fields_match(pipeline, "updated")
    updated = pipeline.item(thing())
    assert updated is not None
    assert updated["sha256"] != created["sha256"]
    assert updated["created_at"] == created["created_at"]
    assert updated["updated_at"] > created["updated_at"]
    assert updated["attempt_no"] == 2

    # Written once more with the same content: a newer sequencer, the same item.
    same = thing(version=2)
    pipeline.queue.send([_announced_again(same)])
    written = _written_by(pipeline)
    assert "update_items" not in written
    assert "insert_items" not in written
    assert_fields_match(pipeline, "no-op")
    assert pipeline.item(thing()) == updated
    assert pipeline.row(thing())["attempts"] == 3
    assert pipeline.attempts(thing())[2]["stac_status"] == "no-op"
    # A repeated activity leaves no second document, and an unchanged item no event.
    assert backend.sql("SELECT count(*) FROM provenance") == [(2,)]
    assert backend.sql("SELECT count(*) FROM outbox") == [(2,)]
    assert_effects_follow_the_ledger(backend)


def _announced_again(given: Thing) -> bytes:
    return message_of(given.event(sequencer=f"{9:016X}"))


def _written_by(pipeline: Pipeline) -> list[str]:
    written: list[str] = []
    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, written.append)
    pipeline.worker.run_messages()
    pipeline.stores.runner.database = pipeline.stores.database
    return written


@pytest.mark.conformance("RP-7.2")
def test_the_comparison_is_with_what_is_stored(backend: Backend, tmp_path: Path) -> None:
    """An item that somebody changed behind the ledger's back is not taken for the same."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.drain()
    item = pipeline.item(thing())
    assert item is not None
    backend.sql("UPDATE stac_items SET sha256 = ? WHERE item_id = ?", "0" * 64, item["item_id"])
    pipeline.queue.send([_announced_again(thing())])
    assert "update_items" in _written_by(pipeline)
    mended = pipeline.item(thing())
    assert mended is not None
    assert (mended["body"], mended["sha256"]) == (item["body"], item["sha256"])


def late_edits(row: dict[str, Any], stranger: str) -> list[tuple[str, tuple[object, ...]]]:
    """Return what a catalog or queue that disagrees might try."""
    wal_id = row["wal_id"]
    return [
        ("DELETE FROM stac_items WHERE wal_id = ?", (wal_id,)),
        ("UPDATE stac_items SET wal_id = ? WHERE wal_id = ?", (stranger, wal_id)),
        ("UPDATE stac_items SET item_id = 'x' WHERE wal_id = ?", (wal_id,)),
        ("UPDATE provenance SET activity_id = 'x' WHERE wal_id = ?", (wal_id,)),
        ("DELETE FROM provenance WHERE wal_id = ?", (wal_id,)),
        ("DELETE FROM outbox WHERE subject = ?", (str(wal_id),)),
    ]


@pytest.mark.conformance("WAL-1.1", "SM-1.3")
def test_a_late_edit_of_the_catalog_moves_no_unit(backend: Backend, tmp_path: Path) -> None:
    """Items, documents and events cannot be taken away or given to another; no record changes."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing(0), thing(1))
    pipeline.drain()
    before = backend.rows("SELECT * FROM wal_records ORDER BY wal_id")
    stored = pipeline.stored()
    for statement, params in late_edits(pipeline.row(thing(0)), pipeline.row(thing(1))["wal_id"]):
        with pytest.raises(RAW_ERRORS):
            backend.sql(statement, *params)
    assert backend.rows("SELECT * FROM wal_records ORDER BY wal_id") == before
    assert pipeline.stored() == stored


@pytest.mark.conformance("WAL-1.1", "SM-1.3")
def test_an_item_does_not_free_a_unit_from_quarantine(backend: Backend, tmp_path: Path) -> None:
    """A catalog with an item and a queue with a message change nothing of a unit that is held."""
    pipeline = Pipeline(backend, tmp_path, max_attempts=2)
    pipeline.announce(thing())
    pipeline.drain()
    held = pipeline.row(thing())
    assert held["status"] == "quarantined"
    # A catalog that believes that all went well.
    item = {
        "collection_id": "goes-glm",
        "item_id": "late",
        "wal_id": held["wal_id"],
        "attempt_no": 1,
        "body": b"{}",
        "sha256": "0" * 64,
        "west": 0.0,
        "south": 0.0,
        "east": 1.0,
        "north": 1.0,
        "start_at": held["created_at"],
        "end_at": held["created_at"],
        "datetime_at": held["created_at"],
        "reach": "hour",
        "created_at": held["created_at"],
        "updated_at": held["created_at"],
    }
    places = ", ".join("?" for _ in item)
    backend.sql(f"INSERT INTO stac_items ({', '.join(item)}) VALUES ({places})", *item.values())
    pipeline.put(thing())
    pipeline.announce(thing(), thing())
    pipeline.drain()
    assert pipeline.row(thing()) == held
    reader = pipeline.stores.reader
    assert reader.record(thing().uri).status.value == "quarantined"
    assert reader.stats().by_dataset == {"goes-glm": {"quarantined": 1}}
    assert [each.wal_id for each in reader.page(RecordFilter()).records] == [held["wal_id"]]
    assert len(pipeline.attempts(thing())) == 2


@pytest.mark.conformance("WAL-1.1")
def test_a_missing_message_does_not_stop_a_unit(backend: Backend, tmp_path: Path) -> None:
    """A unit that the ledger has due is run though the queue knows nothing of it any more."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    batch = pipeline.worker.receive()
    pipeline.worker.parse(batch)
    pipeline.worker.record_and_claim(batch)
    pipeline.queue.delete([message.receipt for message in batch.messages])
    pipeline.replace_worker()
    assert pipeline.left() == (0, 0, 0)
    pipeline.drain()
    assert pipeline.row(thing())["status"] == "succeeded"


@pytest.mark.conformance("WAL-3.10")
def test_the_stac_status_is_one_of_five(backend: Backend, tmp_path: Path) -> None:
    """The database takes the five values and no other."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    connection = backend.connect()
    taken = set()
    for value in ("unknown", "created", "updated", "no-op", "failed", "done", "", "Created"):
        connection.execute("BEGIN")
        with contextlib.suppress(*RAW_ERRORS):
            connection.execute(
                f"UPDATE wal_records SET stac_status = '{value}', version = version + 1,"
                " status = 'pending'"
            )
            taken.add(value)
        connection.execute("ROLLBACK")
    assert taken == {"unknown", "created", "updated", "no-op", "failed"}
