"""A ledger that takes nothing for a long time: what was received stays in hand and is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.queues import open_embedded_queue
from tallgrass.errors import DatabaseFull, DatabaseUnreachable, WorkerFenced
from tallgrass.ingest_loop import Until
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.protocol import VISIBILITY_S_MAX
from tallgrass.storage.ledger import Ledger
from tallgrass.telemetry.names import MESSAGE_POISONED, STORE_WAITED_FOR
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    things,
)
from tests.pipeline.watched import WatchedDatabase
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallgrass.queues.protocol import QueueMessage
    from tests.support.backends import Backend

HOUR_S = 3600.0
BEAT_S = 20.0
UNITS = 30
#: What PostgreSQL says where its disk is full, of whatever would make the ledger larger.
FUNCTION = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$
"""
TRIGGER = "CREATE TRIGGER full_disk BEFORE INSERT ON wal_records EXECUTE FUNCTION full_disk()"


class Counted:
    """A queue that notes how often the message was delivered that was delivered most."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.deliveries = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def receive(self, limit: int, *, wait: bool = True) -> Sequence[QueueMessage]:
        """Receive, and note it."""
        given: Sequence[QueueMessage] = self._inner.receive(limit, wait=wait)
        self.deliveries = max([self.deliveries, *(message.receive_count for message in given)])
        return given


class Full:
    """A pipeline with a heartbeat on a clock of its own, whose ledger may take nothing more."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.now = 0.0
        self.pipeline = Pipeline(backend, folder, batch=10, max_receive_count=5)
        self.queue = Counted(self.pipeline.queue)
        self.held = HeldMessages(visibility_s=VISIBILITY_S, lease_s=60, monotonic=lambda: self.now)
        self.recorder = MemoryRecorder()
        self.start()

    def start(self) -> None:
        """Work under another lease with the same messages in hand."""
        self.pipeline.new_worker(queue=self.queue, held=self.held, recorder=self.recorder)

    def fail(self, statement: str, error: Exception) -> Callable[[], object]:
        """Let a statement of the ledger fail; return what heals it."""
        fails = [True]

        def watch(name: str) -> None:
            if fails and name == statement:
                raise error

        stores = self.pipeline.stores
        stores.runner.database = WatchedDatabase(stores.database, watch)
        return fails.clear

    def pass_time(self, seconds: float) -> None:
        """Let time pass for queue and worker."""
        self.now += seconds
        self.pipeline.clock.advance(seconds)

    def outlast(self, heal: Callable[[], object], then: Callable[[], object]) -> None:
        """Run the loop to its end, with a beat at each rest; heal the ledger after an hour."""
        is_full = [True]

        def rest(_seconds: float) -> None:
            self.pass_time(BEAT_S)
            self.pipeline.stores.leases.renew(self.pipeline.lease)
            self.held.extend(self.pipeline.queue)
            if is_full and self.now > HOUR_S:
                is_full.clear()
                then()
                heal()

        loop = self.pipeline.loop(sleep=rest, monotonic=lambda: self.now, recorder=self.recorder)
        assert loop.run(Until.DRAINED).messages == UNITS

    def told(self, event: str) -> list[object]:
        """Return the codes that an event was told with."""
        return [fields["error_code"] for name, fields in self.recorder.events if name == event]


def fill(backend: Backend, pipeline: Pipeline) -> Callable[[], object]:
    """Leave the ledger no room for a batch; return what makes room again."""
    if backend.name == "postgres":
        backend.sql(FUNCTION)
        backend.sql(TRIGGER)
        return lambda: backend.sql("DROP TRIGGER full_disk ON wal_records")
    with pipeline.stores.database.transaction() as transaction:
        connection: Any = transaction.connection  # type: ignore[attr-defined]
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    assert free == 0
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return lambda: connection.execute("PRAGMA max_page_count = 1000000")


@pytest.mark.conformance("SM-7.3a")
def test_a_ledger_that_is_full_for_an_hour_costs_no_message(
    backend: Backend, tmp_path: Path
) -> None:
    """Nothing is received twice or dead-lettered meanwhile; with room all is recorded at once."""
    full = Full(backend, tmp_path)
    pipeline = full.pipeline
    pipeline.feed(*things(UNITS))

    def then() -> None:
        assert backend.sql("SELECT count(*) FROM wal_records") == [(0,)]
        assert pipeline.left() == (UNITS - 10, 10, 0)

    full.outlast(fill(backend, pipeline), then)
    assert pipeline.statuses() == {"succeeded": UNITS}
    assert pipeline.left() == (0, 0, 0)
    assert full.queue.deliveries == 1
    assert full.told(STORE_WAITED_FOR) == ["database_full"]
    assert_effects_follow_the_ledger(backend)


@pytest.mark.conformance("SM-7.3a")
def test_a_ledger_that_takes_claims_alone_costs_no_message(
    backend: Backend, tmp_path: Path
) -> None:
    """What is recorded and handed back is the ledger's: its message goes without a delivery."""
    full = Full(backend, tmp_path)
    full.pipeline.feed(*things(UNITS))
    heal = full.fail("close_attempts", DatabaseFull("told to be full"))
    full.outlast(heal, lambda: None)
    assert full.pipeline.statuses() == {"succeeded": UNITS}
    assert full.pipeline.left() == (0, 0, 0)
    assert full.queue.deliveries == 1
    assert_effects_follow_the_ledger(backend)


@pytest.mark.parametrize("statement", ["upsert_poison", "insert_records"])
def test_poison_in_a_batch_that_is_cut_off_is_kept_and_told_once(
    backend: Backend, tmp_path: Path, statement: str
) -> None:
    """Whether or not it was kept before the store failed, it is there before its message goes."""
    full = Full(backend, tmp_path)
    full.pipeline.queue.send([b"nothing that anybody understands"])
    full.pipeline.feed(*things(2))
    heal = full.fail(statement, DatabaseFull("told to be full"))
    for _ in range(3):
        with pytest.raises(DatabaseFull):
            full.pipeline.worker.run_messages()
    heal()
    full.pipeline.worker.run_messages()
    assert full.pipeline.left() == (0, 0, 0)
    assert full.pipeline.statuses() == {"succeeded": 2}
    assert backend.sql("SELECT sum(times_seen) FROM poison_messages") in ([(1,)], [("1",)])
    assert len(full.told(MESSAGE_POISONED)) == 1
    assert full.queue.deliveries == 1


@pytest.mark.parametrize("error", [DatabaseFull("full"), DatabaseUnreachable("gone")])
def test_what_is_in_hand_outlives_the_lease(
    backend: Backend, tmp_path: Path, error: Exception
) -> None:
    """A worker that could not renew its lease meanwhile goes on under the next one."""
    full = Full(backend, tmp_path)
    pipeline = full.pipeline
    pipeline.feed(*things(3))
    heal = full.fail("insert_records", error)
    with pytest.raises(type(error)):
        pipeline.worker.run_messages()
    heal()
    backend.expire(pipeline.lease)
    pipeline.stores.leases.recover()
    with pytest.raises(WorkerFenced):
        pipeline.worker.run_messages()
    full.start()
    assert len(pipeline.worker.run_messages().closed) == 3
    assert pipeline.left() == (0, 0, 0)
    assert full.queue.deliveries == 1


def test_what_cannot_be_hidden_any_longer_is_let_go(backend: Backend, tmp_path: Path) -> None:
    """After twelve hours others may have the messages: they are received anew."""
    full = Full(backend, tmp_path)
    pipeline = full.pipeline
    pipeline.feed(*things(3))
    heal = full.fail("insert_records", DatabaseFull("told to be full"))
    with pytest.raises(DatabaseFull):
        pipeline.worker.run_messages()
    heal()
    full.pass_time(VISIBILITY_S_MAX)
    assert len(pipeline.worker.run_messages().closed) == 3
    assert full.queue.deliveries == 2


def test_a_refusal_lets_the_messages_go(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that ends the worker leaves nothing in hand: the heartbeat hides it no longer."""
    full = Full(backend, tmp_path)
    full.pipeline.feed(*things(3))

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(full.pipeline.worker, "operate", broken)
    with pytest.raises(RuntimeError):
        full.pipeline.worker.run_messages()
    assert full.held.cut_off is None
    full.pass_time(VISIBILITY_S - 1)
    full.held.extend(full.pipeline.queue)
    full.pass_time(2)
    assert full.pipeline.left() == (3, 0, 0)


def test_a_process_keeps_what_it_has_in_hand_when_it_is_fenced(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next lease begins with it: a drain that would wait for it to come again ends before."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.queue = open_embedded_queue(pipeline.config)
    pipeline.feed(*things(4))
    real, fails = Ledger.record_and_claim, [True]

    def full(self: Ledger, *args: Any) -> Any:
        if fails:
            raise DatabaseFull("told to be full")
        return real(self, *args)

    def rest(_seconds: float) -> None:
        if fails:
            backend.sql("UPDATE workers SET expires_at = '2000-01-01T00:00:00.000000Z'")
            pipeline.stores.leases.recover()
            fails.clear()

    monkeypatch.setattr(Ledger, "record_and_claim", full)
    ingest(pipeline.config, until=Until.DRAINED, stop=lambda: False, sleep=rest)
    assert pipeline.statuses() == {"succeeded": 4}
    assert pipeline.left() == (0, 0, 0)
    pipeline.queue.close()
