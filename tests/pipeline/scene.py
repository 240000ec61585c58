"""A whole pipeline on one ledger: real queue, real files, workers that can be stopped anywhere."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.queues import open_embedded_queue
from tallgrass.bootstrap.workers import open_worker
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.switches import SwitchScope
from tallgrass.ingest_loop import IngestLoop
from tallgrass.ledger.rules import LedgerRules
from tallgrass.simulate.feed import FeedObject
from tallgrass.simulate.feed_files import FeedPlace, content_of, etag_of, place_of, seeded
from tallgrass.simulate.feed_messages import CREATED, S3Event, s3_message, sns_envelope
from tallgrass.telemetry.recorder import NOBODY
from tests.support.backends import NO_BACKOFF, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.datasets.catalogue import Catalogue
    from tallgrass.evidence.reading import EvidenceReader
    from tallgrass.ledger.claim import WorkerLease
    from tallgrass.outbox.routing import Routing
    from tallgrass.queues.embedded import EmbeddedQueue
    from tallgrass.telemetry.recorder import Recorder
    from tallgrass.worker import Worker
    from tests.support.backends import Backend

FIRST = datetime(2026, 6, 1, 12, tzinfo=UTC)
VISIBILITY_S = 300.0
#: What the stored rows of a run must be, whoever ran it how often: no times, no attempt numbers.
STORED = {
    "items": "SELECT collection_id, item_id, wal_id, body, sha256 FROM stac_items ORDER BY 1, 2",
    "provenance": "SELECT wal_id, activity_id, body, sha256 FROM provenance ORDER BY 1, 2",
    "events": "SELECT subject, event_name, idempotency_key, target, payload, care_label"
    " FROM outbox ORDER BY 1, 2, 3, 4",
    "records": "SELECT wal_id, status, integrity_status, metadata_status, stac_status,"
    " provenance_status,"
    " stac_item_id, stac_collection_id, stac_item_href, last_error_code"
    " FROM wal_records ORDER BY 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One version of one object of the feed."""

    place: FeedPlace
    version: int
    content: bytes

    @property
    def uri(self) -> str:
        """Its address."""
        return self.place.object_uri

    def event(self, **changes: Any) -> S3Event:
        """Return what S3 tells of it."""
        values: dict[str, Any] = {
            "name": CREATED,
            "bucket": self.place.bucket,
            "key": self.place.key,
            "time": self.place.ready + timedelta(seconds=self.version),
            "sequencer": f"{self.version:016X}",
            "size": len(self.content),
            "etag": etag_of(self.content),
        }
        return S3Event(**{**values, **changes})


def thing(number: int = 0, *, dataset: str = "goes-glm", version: int = 1) -> Thing:
    """Return object `number` of a dataset."""
    place = place_of(dataset, number, FIRST, seeded(1, "place", dataset, number))
    content = content_of(place, version, seeded(1, "content", dataset, number, version))
    return Thing(place=place, version=version, content=content)


def things(count: int, first: int = 0) -> list[Thing]:
    """Return objects of all three datasets in turn."""
    names = ("goes-glm", "nexrad-l2", "hrrr")
    return [thing(number, dataset=names[number % 3]) for number in range(first, first + count)]


def message_of(*events: S3Event, number: int = 0) -> bytes:
    """Return the body of a message that tells of the events."""
    chance = random.Random(number)
    topic = "arn:aws:sns:us-east-1:123901341784:NewGOES19Object"
    return sns_envelope(s3_message(events, chance), topic, FIRST, chance)


class Pipeline:
    """Queue, objects and ledger, with as many workers as a test wants."""

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        *,
        batch: int = 100,
        max_attempts: int = 8,
        rules: LedgerRules | None = None,
        max_receive_count: int = 1000,
        stores: Stores | None = None,
        routing: Routing | None = None,
    ) -> None:
        self.backend = backend
        self.folder = folder
        self.objects = folder / "objects"
        self.objects.mkdir(exist_ok=True)
        self.rules = rules or LedgerRules(backoff=NO_BACKOFF, max_attempts=max_attempts)
        self.config = self._config(batch, max_receive_count)
        if routing is not None:
            self.config = replace(self.config, routing=routing)
        #: The queue's own time; the ledger goes by the database's.
        self.clock = ManualClock()
        self.stores = stores or backend.open(self.rules, catalogue=default_catalogue())
        self.queue: EmbeddedQueue = open_embedded_queue(self.config, clock=self.clock)
        backend._opened.append(self.queue)
        self.lease = self.register("w")
        self.worker = self.start(self.lease)

    def _config(self, batch: int, max_receive_count: int) -> Config:
        config = self.backend.config(self.rules)
        values: dict[str, str | int | float] = {
            "queue.url": f"sqlite:///{self.folder / 'queue.db'}",
            "queue.visibility_s": VISIBILITY_S,
            "queue.max_receive_count": max_receive_count,
            "objects.url": f"file:{self.objects}",
            "worker.batch": batch,
        }
        return replace(config, values={**config.values, **values})

    # --- workers ----------------------------------------------------------------------------------

    def register(self, worker_id: str = "w", *, lease_s: float = 60) -> WorkerLease:
        """Add a process."""
        return self.stores.leases.register(
            worker_id, ingest_run_id=f"run-{worker_id}", lease_s=lease_s
        )

    def start(
        self,
        lease: WorkerLease | None = None,
        *,
        stores: Stores | None = None,
        queue: Any = None,
        reader: EvidenceReader | None = None,
        catalogue: Catalogue | None = None,
        **changes: Any,
    ) -> Worker:
        """Wire a worker; with its own stores it has a connection of its own."""
        return open_worker(
            self.config,
            stores or self.stores,
            lease or self.register("w"),
            queue=self.queue if queue is None else queue,
            reader=reader,
            catalogue=catalogue,
            **changes,
        )

    def drain(self, worker: Worker | None = None, *, rounds: int = 60) -> None:
        """Run rounds until neither queue nor ledger has anything left, now or later."""
        worker = worker or self.worker
        for _ in range(rounds):
            messages, due = worker.run_messages(), worker.run_due()
            if not (messages.is_empty and due.is_empty):
                continue
            status = self.queue.status()
            if not status.in_flight and not status.visible:
                return
            self.clock.advance(VISIBILITY_S + 1)
        raise AssertionError(f"not drained after {rounds} rounds: {self.queue.status()}")

    def loop(
        self,
        *,
        sleep: Callable[[float], None] = lambda _: None,
        monotonic: Callable[[], float] = lambda: 0.0,
        recorder: Recorder = NOBODY,
        require_open: Callable[[], None] = lambda: None,
        maintain: Callable[[], object] = lambda: None,
    ) -> IngestLoop:
        """Wire the loop of the pipeline's worker."""
        return IngestLoop(
            self.worker,
            self.lease,
            self.stores.leases,
            switched_off=lambda: self.stores.switches.switched_off(SwitchScope.INGEST),
            recorder=recorder,
            sleep=sleep,
            random=lambda: 0.5,
            monotonic=monotonic,
            recover_every_s=self.lease.lease_s / 2,
            require_open=require_open,
            maintain=maintain,
        )

    def replace_worker(self) -> None:
        """Let the worker vanish; another one frees what it held and goes on."""
        self.backend.expire(self.lease)
        self.new_worker()
        self.stores.leases.recover()
        self.clock.advance(VISIBILITY_S + 1)

    def new_worker(self, worker_id: str = "w2", **changes: Any) -> None:
        """Go on with another worker."""
        self.lease = self.register(worker_id)
        self.worker = self.start(self.lease, **changes)

    def switch(self, *, is_on: bool, dataset: str = "*") -> None:
        """Turn the kill switch of ingest."""
        self.stores.switches.set(
            SwitchScope.INGEST, dataset, is_on=is_on, actor="ann", reason="test"
        )

    # --- feeding ----------------------------------------------------------------------------------

    def put(self, *given: Thing, content: bytes | None = None) -> None:
        """Write objects."""
        for each in given:
            FeedObject(
                bucket=each.place.bucket,
                key=each.place.key,
                content=each.content if content is None else content,
            ).write(self.objects)

    def path(self, given: Thing) -> Path:
        """Return the file of an object."""
        return self.objects / given.place.bucket / given.place.key

    def announce(self, *given: Thing, **changes: Any) -> None:
        """Send one message for each."""
        self.queue.send([message_of(each.event(**changes)) for each in given])

    def feed(self, *given: Thing) -> None:
        """Write objects and announce them."""
        self.put(*given)
        self.announce(*given)

    # --- looking ----------------------------------------------------------------------------------

    def row(self, given: Thing) -> dict[str, Any]:
        """Return a unit's record as the table holds it."""
        (row,) = self.backend.rows("SELECT * FROM wal_records WHERE object_uri = ?", given.uri)
        return row

    def attempts(self, given: Thing) -> list[dict[str, Any]]:
        """Return a unit's attempts as the table holds them."""
        return self.backend.rows(
            "SELECT * FROM wal_attempts WHERE wal_id = ? ORDER BY attempt_no",
            self.row(given)["wal_id"],
        )

    def item(self, given: Thing) -> dict[str, Any] | None:
        """Return a unit's stored item, if there is one."""
        rows = self.backend.rows(
            "SELECT i.* FROM stac_items AS i JOIN wal_records AS r ON r.wal_id = i.wal_id"
            " WHERE r.object_uri = ?",
            given.uri,
        )
        return rows[0] if rows else None

    def statuses(self) -> dict[str, int]:
        """Count records by status."""
        return dict(self.backend.sql("SELECT status, count(*) FROM wal_records GROUP BY status"))

    def stored(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return everything that must be the same however the work was done."""
        return stored(self.backend)

    def left(self) -> tuple[int, int, int | None]:
        """Count messages: visible, in flight, dead."""
        status = self.queue.status()
        return status.visible, status.in_flight, status.dead


def stored(backend: Backend) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything that must be the same however the work was done."""
    found = {name: backend.sql(statement) for name, statement in STORED.items()}
    return {**found, "events": [_without_its_attempt(event) for event in found["events"]]}


def _without_its_attempt(event: tuple[Any, ...]) -> tuple[Any, ...]:
    """Blank out the key of a change: it tells the attempt, of which a crash needs one more."""
    subject, name, key, target, payload, label = event
    if name != "nodd.item.updated":
        return event
    return subject, name, "", target, bytes(payload).replace(key.encode(), b""), label


def assert_effects_follow_the_ledger(backend: Backend) -> None:
    """Every item, document and event belongs to an applied attempt of a succeeded unit."""
    broken = {
        "items without success": (
            "SELECT i.wal_id FROM stac_items AS i LEFT JOIN wal_records AS r"
            " ON r.wal_id = i.wal_id WHERE r.status IS NULL OR r.status <> 'succeeded'"
        ),
        "items without an applied attempt": (
            "SELECT i.wal_id FROM stac_items AS i LEFT JOIN wal_attempts AS a"
            " ON a.wal_id = i.wal_id AND a.attempt_no = i.attempt_no"
            " WHERE a.status IS NULL OR a.status <> 'applied' OR a.item_sha256 <> i.sha256"
        ),
        "documents without an applied attempt": (
            "SELECT p.wal_id FROM provenance AS p LEFT JOIN wal_attempts AS a"
            " ON a.wal_id = p.wal_id AND a.attempt_no = p.attempt_no"
            " WHERE a.status IS NULL OR a.status <> 'applied'"
            " OR a.prov_activity_id <> p.activity_id"
        ),
        "successes without an item": (
            "SELECT r.wal_id FROM wal_records AS r LEFT JOIN stac_items AS i"
            " ON i.wal_id = r.wal_id WHERE r.status = 'succeeded' AND i.wal_id IS NULL"
        ),
        "successes without a document": (
            "SELECT r.wal_id FROM wal_records AS r LEFT JOIN provenance AS p"
            " ON p.wal_id = r.wal_id WHERE r.status = 'succeeded' AND p.wal_id IS NULL"
        ),
        "events without success": (
            "SELECT o.subject FROM outbox AS o LEFT JOIN wal_records AS r"
            " ON o.subject = CAST(r.wal_id AS text)"
            " WHERE r.status IS NULL OR r.status <> 'succeeded'"
        ),
    }
    found = {name: backend.sql(statement) for name, statement in broken.items()}
    assert found == {name: [] for name in broken}
