"""What the embedded queue promises beyond the contract of all queues."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ConfigError, DatabaseUnreachable, DatabaseUnusable
from tallgrass.queues.embedded import EmbeddedQueue
from tallgrass.storage.migrations import check_schema, migrate, require_current_schema
from tallgrass.storage.named_queries import load_queries
from tallgrass.storage.queue_store import QueueStore
from tallgrass.storage.sqlite import SqliteDatabase
from tests.queues.harness import MAX_RECEIVE_COUNT, VISIBILITY_S, open_embedded
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.queues.harness import EmbeddedHarness

START = "2026-06-01T12:00:00.000000Z"


def test_it_gives_the_oldest_first(embedded: EmbeddedHarness) -> None:
    """Messages come in the order in which they became visible, of equals those sent first."""
    embedded.queue.send([b"1", b"2", b"3"])
    (first,) = embedded.queue.receive(1)
    embedded.wait(1)
    embedded.queue.send([b"4"])
    embedded.wait(1)
    embedded.queue.change_visibility([(first.receipt, 0)])
    assert [message.body for message in embedded.queue.receive(10)] == [b"2", b"3", b"4", b"1"]


def test_a_message_is_visible_exactly_when_its_time_has_come(embedded: EmbeddedHarness) -> None:
    """At the very instant the receipt is worth nothing any more and the message can be had."""
    embedded.queue.send([b"one"])
    (first,) = embedded.queue.receive(1)
    embedded.wait(VISIBILITY_S - 0.000001)
    assert embedded.queue.receive(1) == []
    embedded.wait(0.000001)
    assert embedded.queue.delete([first.receipt]) == [first.receipt]
    assert len(embedded.queue.receive(1)) == 1


def test_the_defaults_are_those_of_the_documents(tmp_path: Path) -> None:
    """Unless told otherwise a message is hidden for 300 s and received five times."""
    clock = ManualClock()
    queue, database = open_embedded(tmp_path / "queue.db", clock)
    queue.send([b"one"])
    for count in range(1, 6):
        assert [message.receive_count for message in queue.receive(1)] == [count]
        clock.advance(299.999)
        assert queue.receive(1) == []
        clock.advance(0.001)
    assert queue.receive(1) == []
    assert queue.status().dead == 1
    database.close()


@pytest.mark.parametrize(
    "setting",
    [
        {"visibility_s": 0},
        {"visibility_s": -1},
        {"visibility_s": 43_201},
        {"visibility_s": float("nan")},
        {"max_receive_count": 0},
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, setting: dict[str, Any]) -> None:
    """A queue that would lose or never hide messages cannot be made."""
    store = QueueStore(SqliteDatabase(tmp_path / "queue.db", clock=ManualClock()))
    with pytest.raises(ConfigError, match="nodd-primary"):
        EmbeddedQueue("nodd-primary", store, ids=uuid.uuid4, **setting)


def test_dead_letters_are_listed_in_pages(embedded: EmbeddedHarness) -> None:
    """Each page begins after the last position known; time of sending and id are kept."""
    embedded.queue.send([f"body {number}".encode() for number in range(5)])
    ids = {m.body: m.message_id for m in embedded.queue.receive(10)}
    for _ in range(MAX_RECEIVE_COUNT):
        embedded.wait(VISIBILITY_S)
        embedded.queue.receive(10)
    first = embedded.queue.dead_letters(size=3)
    second = embedded.queue.dead_letters(after=first[-1].position, size=3)
    assert [letter.body for letter in (*first, *second)] == sorted(ids)
    assert embedded.queue.dead_letters(after=second[-1].position) == []
    for letter in (*first, *second):
        assert letter.message_id == ids[letter.body]
        assert letter.receive_count == MAX_RECEIVE_COUNT
        assert letter.sent_at.isoformat() == "2026-06-01T12:00:00+00:00"
        assert letter.died_at.isoformat() == "2026-06-01T12:03:00+00:00"


def test_the_file_tells_anyone_what_waits(embedded: EmbeddedHarness) -> None:
    """Raw SQL shows a sent message with its time, its body, and no delivery yet."""
    embedded.queue.send([b"one"])
    assert embedded.sql(
        "SELECT m.position, m.sent_at, m.body, d.visible_at, d.receive_count, d.delivery_id"
        " FROM messages AS m JOIN deliveries AS d USING (position)"
    ) == [(1, START, b"one", START, 0, None)]


def test_a_deleted_message_leaves_no_row(embedded: EmbeddedHarness) -> None:
    """Neither body nor delivery stays behind, and no position is used twice."""
    embedded.queue.send([b"one", b"two"])
    embedded.queue.delete([message.receipt for message in embedded.queue.receive(2)])
    assert embedded.sql("SELECT position FROM messages") == []
    assert embedded.sql("SELECT position FROM deliveries") == []
    embedded.queue.send([b"three"])
    assert embedded.sql("SELECT position FROM messages") == [(3,)]


@pytest.mark.parametrize("size", [1, 500])
def test_a_verb_takes_the_same_transactions_for_any_size(tmp_path: Path, size: int) -> None:
    """Sending, receiving, hiding and deleting are one transaction each, for one or for 500."""
    queue, database = open_embedded(tmp_path / "queue.db", ManualClock())
    begun: list[str] = []
    database._connect().set_trace_callback(
        lambda statement: begun.append(statement) if statement.startswith("BEGIN") else None
    )
    queue.send([b"body"] * size)
    messages = queue.receive(size)
    queue.change_visibility([(message.receipt, 10) for message in messages])
    assert queue.delete([message.receipt for message in messages]) == []
    assert begun == ["BEGIN IMMEDIATE"] * 4
    database.close()


def test_a_receipt_named_twice_is_one_delivery(embedded: EmbeddedHarness) -> None:
    """A repeated receipt is no stale one; of two wishes for one delivery the last counts."""
    embedded.queue.send([b"one"])
    (message,) = embedded.queue.receive(1)
    changes = [(message.receipt, 0), (message.receipt, 30)]
    assert embedded.queue.change_visibility(changes) == []
    assert embedded.queue.receive(1) == []
    assert embedded.queue.delete([message.receipt] * 2) == []


def test_ids_are_those_that_were_given(tmp_path: Path) -> None:
    """With the ids and the clock passed in, a run can be repeated to the same receipts."""
    given = iter([uuid.UUID(int=1), uuid.UUID(int=2)])
    database = SqliteDatabase(tmp_path / "a.db", clock=ManualClock(), schema="sqlite_queue")
    open_embedded(tmp_path / "a.db", ManualClock())[1].close()
    queue = EmbeddedQueue("q", QueueStore(database), ids=lambda: next(given))
    queue.send([b"one"])
    (message,) = queue.receive(1)
    assert message.message_id == "00000000-0000-0000-0000-000000000001"
    assert message.receipt == "1.00000000000000000000000000000002"
    database.close()


def test_the_queue_has_a_schema_of_its_own(tmp_path: Path) -> None:
    """Its file is migrated and checked like the ledger's, and neither is taken for the other."""
    path = tmp_path / "queue.db"
    queue = SqliteDatabase(path, clock=ManualClock(), schema="sqlite_queue")
    with pytest.raises(DatabaseUnusable) as missing:
        check_schema(queue)
    assert missing.value.code == "schema_missing"
    open_embedded(path, ManualClock())[1].close()
    require_current_schema(queue)
    ledger = SqliteDatabase(path, clock=ManualClock())
    own = SqliteDatabase(tmp_path / "ledger.db", clock=ManualClock())
    migrate(own)
    taken = SqliteDatabase(tmp_path / "ledger.db", clock=ManualClock(), schema="sqlite_queue")
    for wrong in (ledger, taken):
        for call in (migrate, require_current_schema):
            with pytest.raises(DatabaseUnusable, match=r"another kind of database.*mixed up"):
                call(wrong)
    for database in (queue, ledger, own, taken):
        database.close()


def test_a_queue_that_was_deleted_is_not_written_into_nowhere(embedded: EmbeddedHarness) -> None:
    """A file that is gone is told, whatever verb meets it."""
    embedded.queue.send([b"one"])
    embedded.path.unlink()
    with pytest.raises(DatabaseUnreachable):
        embedded.queue.receive(1)


def test_the_plan_of_a_receive_reads_what_it_returns(embedded: EmbeddedHarness) -> None:
    """Receiving follows the index of visibility: it sorts nothing and scans no table."""
    statement = load_queries("sqlite_queue")["visible_messages"].sql
    plan = embedded.sql(f"EXPLAIN QUERY PLAN {statement}", START, 10)
    text = " ".join(str(step) for *_, step in plan)
    assert "deliveries_visible_at" in text
    assert "SCAN" not in text
    assert "TEMP B-TREE" not in text
