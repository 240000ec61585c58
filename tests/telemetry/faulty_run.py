"""One pipeline run with every fault that is counted, watched from a second connection."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import CertificateUnreachable, DatabaseUnreachable, WorkerFenced
from tallgrass.ingest_loop import Until
from tallgrass.ledger.rules import LedgerRules
from tallgrass.operators import stac_register
from tallgrass.queues.door import Door
from tallgrass.simulate.feed_messages import REMOVED, S3Event
from tests.pipeline.scene import FIRST, VISIBILITY_S, Pipeline, Thing, message_of, thing, things
from tests.pipeline.watched import WatchedDatabase
from tests.replay.scene import Unreadable
from tests.support.backends import NO_BACKOFF
from tests.support.put_back import put_back
from tests.telemetry.watching import ENV, WatchingRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

MAX_ATTEMPTS = 3


class CountingQueue:
    """The pipeline's queue; it counts what it hands out."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.handed_out = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def receive(self, limit: int, *, wait: bool = True) -> Any:
        """Hand out messages."""
        messages = self._queue.receive(limit, wait=wait)
        self.handed_out += len(messages)
        return messages


def with_more_bytes(given: Thing) -> Thing:
    """Return the object with bytes behind its end: suspect, and still a success."""
    return replace(given, content=given.content + b"\0" * 64)


class FaultyRun:
    """A pipeline whose workers and stores report to one watching recorder."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.connection = backend.connect()
        self.recorder = WatchingRecorder(env=ENV, connection=self.connection)
        rules = LedgerRules(backoff=NO_BACKOFF, max_attempts=MAX_ATTEMPTS)
        stores = backend.open(rules, catalogue=default_catalogue(), recorder=self.recorder)
        self.pipeline = Pipeline(backend, folder, rules=rules, max_receive_count=5, stores=stores)
        self.queue = CountingQueue(self.pipeline.queue)
        self.begin()

    def begin(self, **changes: Any) -> None:
        """Go on with a worker of its own."""
        pipeline = self.pipeline
        pipeline.lease = pipeline.register("w")
        pipeline.worker = self.worker(**changes)

    def worker(self, **changes: Any) -> Any:
        """Wire the pipeline's worker to the recorder."""
        return self.pipeline.start(
            self.pipeline.lease, recorder=self.recorder, queue=self.queue, **changes
        )

    def live(self) -> None:
        """Run all scenes, each with its own fault."""
        for scene in (
            self.messages_of_every_kind,
            self.objects_that_are_wrong,
            self.a_row_that_the_database_refuses,
            self.newer_objects,
            self.a_switch,
            self.workers_that_are_lost,
            self.claims_that_are_lost,
            self.receipts_that_are_stale,
            self.messages_that_wait,
            self.the_word_of_a_person,
            self.a_store_that_is_down,
            self.a_fence_that_the_heartbeat_sees_first,
        ):
            scene()
        self.begin()
        self.pipeline.drain()

    # --- scenes -----------------------------------------------------------------------------------

    def messages_of_every_kind(self) -> None:
        """Units, a duplicate, a deletion, and two messages that are poison, one of them twice."""
        pipeline, first = self.pipeline, things(9)
        pipeline.feed(*first)
        pipeline.announce(first[0])
        elsewhere = S3Event(
            name="ObjectCreated:Put", bucket="nobodys-bucket", key="a", time=FIRST, sequencer="1"
        )
        gone = first[1].event(name=REMOVED, size=None, etag=None)
        pipeline.queue.send([b"not json", b"not json", message_of(elsewhere), message_of(gone)])
        pipeline.worker.run_messages()

    def objects_that_are_wrong(self) -> None:
        """Late, missing, empty, of another size than announced, with more bytes than it says."""
        pipeline = self.pipeline
        late, never, empty = thing(20), thing(21), thing(23, dataset="hrrr")
        pipeline.put(empty, content=b"")
        pipeline.announce(late, never, empty)
        pipeline.feed(with_more_bytes(thing(24)), with_more_bytes(thing(25)))
        pipeline.put(thing(27))
        pipeline.announce(thing(27), size=7)
        wrong_site = thing(26, dataset="nexrad-l2")
        moved = wrong_site.content.replace(wrong_site.place.about.encode(), b"KXXX")
        pipeline.feed(replace(wrong_site, content=moved))
        pipeline.worker.run_messages()
        pipeline.put(late)
        pipeline.drain()

    def a_row_that_the_database_refuses(self) -> None:
        """One unit of seven makes an item that no table takes."""
        real = stac_register.stac_register
        bad = thing(33)

        def without_north(*args: Any) -> Any:
            made = real(*args)
            if args[1].key != bad.place.key:
                return made
            box: Any = (*made.item.bbox[:3], None)
            return replace(made, item=replace(made.item, bbox=box))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stac_register, "stac_register", without_north)
            self.pipeline.feed(*things(7, first=30))
            self.pipeline.worker.run_messages()

    def newer_objects(self) -> None:
        """One is overwritten with other bytes, one with none at all, one announced again as is."""
        pipeline = self.pipeline
        pipeline.feed(thing(0, version=2))
        gone = thing(2, dataset="hrrr", version=2)
        pipeline.path(gone).unlink()
        pipeline.announce(gone)
        same = thing(1, dataset="nexrad-l2")
        pipeline.announce(same, sequencer="F" * 16)
        pipeline.worker.run_messages()

    def a_switch(self) -> None:
        """A new unit and one that has failed are parked, then run by the ledger."""
        pipeline = self.pipeline
        failed = thing(41)
        pipeline.put(failed)
        pipeline.announce(failed, etag="0" * 32)
        pipeline.worker.run_messages()
        pipeline.switch(is_on=True)
        pipeline.clock.advance(VISIBILITY_S + 1)
        pipeline.feed(thing(42, dataset="hrrr"))
        pipeline.worker.run_messages()
        pipeline.switch(is_on=False)
        pipeline.worker.run_due()

    def workers_that_are_lost(self) -> None:
        """Two units kill their worker until they are held: one when due, one when announced."""
        pipeline = self.pipeline
        pipeline.drain()
        pipeline.feed(thing(50))
        self.hold()
        for _ in range(MAX_ATTEMPTS):
            self.lose_the_worker()
            pipeline.worker.claim_due()
        pipeline.feed(thing(51, dataset="nexrad-l2"))
        self.hold()
        for _ in range(MAX_ATTEMPTS - 1):
            self.lose_the_worker()
            pipeline.worker.claim_due()
        self.lose_the_worker()
        pipeline.clock.advance(VISIBILITY_S + 1)
        pipeline.worker.run_messages()

    def claims_that_are_lost(self) -> None:
        """What a worker holds is given back behind its back, before it can commit."""
        pipeline = self.pipeline
        pipeline.feed(*things(3, first=60))
        batch = self.hold()
        pipeline.stores.leases.hand_back(pipeline.lease)
        worker = pipeline.worker
        for phase in (worker.read_evidence, worker.operate, worker.commit, worker.acknowledge):
            phase(batch)
        worker.run_due()

    def receipts_that_are_stale(self) -> None:
        """A batch takes longer than its messages are hidden; somebody else has them then."""
        pipeline = self.pipeline
        pipeline.feed(*things(2, first=70))
        batch = self.hold()
        worker = pipeline.worker
        for phase in (worker.read_evidence, worker.operate, worker.commit):
            phase(batch)
        pipeline.clock.advance(VISIBILITY_S + 1)
        pipeline.queue.receive(100)
        worker.acknowledge(batch)
        pipeline.clock.advance(VISIBILITY_S + 1)

    def messages_that_wait(self) -> None:
        """The door cannot tell yet whether a message may come in."""

        def closed(_: object) -> None:
            raise CertificateUnreachable("no answer")

        self.pipeline.drain()
        self.pipeline.feed(thing(75))
        self.worker(door=Door(admit=closed)).run_messages()
        self.pipeline.clock.advance(VISIBILITY_S + 1)
        self.pipeline.worker.run_messages()

    def the_word_of_a_person(self) -> None:
        """Somebody puts a failed unit back, and holds one that is parked."""
        pipeline = self.pipeline
        failed, parked = thing(80), thing(82, dataset="hrrr")
        pipeline.switch(is_on=True)
        pipeline.announce(parked)
        pipeline.worker.run_messages()
        pipeline.switch(is_on=False)
        pipeline.feed(failed)
        self.worker(reader=Unreadable()).run_messages()
        row = pipeline.row(failed)
        assert put_back(pipeline.stores, [(row["wal_id"], row["version"])]) == {row["wal_id"]: None}
        row, verbs = pipeline.row(parked), pipeline.stores.interventions
        verbs.quarantine([(row["wal_id"], row["version"])], reason="look", actor="ann")

    def a_store_that_is_down(self) -> None:
        """A commit fails; the loop waits, gives back what it held, and ends in good order."""
        pipeline = self.pipeline
        pipeline.drain()
        pipeline.feed(*things(2, first=90))
        failures = ["insert_items"]

        def down(name: str) -> None:
            if name in failures:
                failures.remove(name)
                raise DatabaseUnreachable("told to be down")

        runner, database = pipeline.stores.runner, pipeline.stores.database
        runner.database = WatchedDatabase(database, down)
        pipeline.loop(recorder=self.recorder).run(Until.DRAINED)
        runner.database = database
        self.begin()

    def a_fence_that_the_heartbeat_sees_first(self) -> None:
        """The loop is told to end, and its stop is refused."""
        pipeline = self.pipeline
        self.backend.expire(pipeline.lease)
        pipeline.stores.leases.recover()
        with pytest.raises(WorkerFenced):
            pipeline.loop(recorder=self.recorder).run(Until.STOPPED, stop=lambda: True)

    def lose_the_worker(self) -> None:
        """Let the worker vanish; another one frees what it held."""
        self.backend.expire(self.pipeline.lease)
        self.begin()
        self.pipeline.stores.leases.recover()

    # --- looking ----------------------------------------------------------------------------------

    def hold(self) -> Any:
        """Receive and claim a batch, and go no further."""
        worker = self.pipeline.worker
        batch = worker.receive()
        worker.parse(batch)
        worker.record_and_claim(batch)
        return batch

    def messages(self) -> tuple[int, int]:
        """Count the messages that were ever sent, and those that are still there."""
        sent = "SELECT seq FROM sqlite_sequence WHERE name = 'messages'"
        left = "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM dead_letters)"
        with contextlib.closing(sqlite3.connect(self.pipeline.folder / "queue.db")) as queue:
            return queue.execute(sent).fetchone()[0], queue.execute(left).fetchone()[0]
