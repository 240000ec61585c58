"""The whole pipeline at work on a simulated feed, embedded, from the first message to the proof.

Objects, queue, ledger and catalog are real files in one folder; only the feed is made up, and time:
a clock follows the feed and jumps over every wait, so that a retry in ten minutes costs nothing.
Chance is seeded: one seed, one story.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from random import Random
from typing import TYPE_CHECKING

from tallgrass.bootstrap.catalog import widen_collections
from tallgrass.bootstrap.metering import metered
from tallgrass.bootstrap.proofs import count_for_proof, stored_items
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import migrate_database, open_stores, record_collections
from tallgrass.bootstrap.workers import open_worker
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.switches import SwitchScope
from tallgrass.ingest_loop import IngestLoop, Until
from tallgrass.simulate.demo_folder import OBJECTS_NAME, written_config
from tallgrass.simulate.demo_telling import DemoResult, Watcher
from tallgrass.simulate.feed import Feed, FeedMessage, FeedObject
from tallgrass.simulate.feed_plan import FEED_START
from tallgrass.simulate.pipeline_proof import Findings, prove
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NoopRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.config import Config
    from tallgrass.ledger.claim import WorkerLease

RUN = "demo"
OPERATOR = "demo-operator"
PARKED_DATASET = "nexrad-l2"
#: Messages that arrive before the worker looks again; fewer in a short feed.
_CHUNK_MAX = 100
_CHUNKS_MIN = 5
#: Messages that the dying worker takes with it.
_LOST_BATCH = 20
#: The clock's jump when nothing is left to do now; below every lease and back-off's cap.
_JUMP_S = 30.0
#: Far more jumps than the longest chain of retries needs.
_JUMPS_MAX = 2000

Steps = Iterator[FeedObject | FeedMessage]


class DemoClock:
    """Time as the feed tells it; it never goes back."""

    def __init__(self, start: datetime) -> None:
        self.instant = start

    def __call__(self) -> datetime:
        """Return the time."""
        return self.instant

    def monotonic(self) -> float:
        """Return the seconds since some fixed instant."""
        return self.instant.timestamp()

    def reach(self, instant: datetime) -> None:
        """Let time pass until then."""
        self.instant = max(self.instant, instant)


class _Tally(NoopRecorder):
    """Counts the messages that left the queue answered."""

    enabled = True

    def __init__(self) -> None:
        self.deleted = 0

    def count(self, name: str, value: float, **labels: str) -> None:  # noqa: ARG002
        """Add up deletions."""
        if name == names.MESSAGES_DELETED:
            self.deleted += int(value)


def play(folder: Path, *, units: int, seed: int, watcher: Watcher) -> DemoResult:
    """Play a demo in a folder that holds none yet."""
    config = written_config(folder)
    migrate_database(config)
    (folder / OBJECTS_NAME).mkdir()
    demo = PipelineDemo(config, folder, Feed(seed, units), watcher)
    try:
        demo.run()
        return demo.result()
    finally:
        demo.close()


class PipelineDemo:
    """Plays the feed to one worker after the other; each method is a part of the story."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        feed: Feed,
        watcher: Watcher,
        *,
        start: datetime = FEED_START,
        chunk_max: int = _CHUNK_MAX,
    ) -> None:
        self._config = config
        self._folder = folder
        self._feed = feed
        self._watcher = watcher
        self._chunk_max = chunk_max
        random = Random(f"{feed.seed}/demo")  # noqa: S311 - repeatable, and no secret

        def ids() -> uuid.UUID:
            return uuid.UUID(int=random.getrandbits(128), version=4)

        self.clock = DemoClock(start)
        self._catalogue = catalogue = default_catalogue()
        self.stores = open_stores(
            config,
            clock=self.clock,
            ids=ids,
            draw=random.random,
            sleep=lambda _seconds: None,
            catalogue=catalogue,
        )
        record_collections(self.stores, catalogue)
        self.queue = open_queue(config, clock=self.clock, ids=ids)
        self.manifest = feed.manifest()
        self._random = random
        self._tally = _Tally()
        # Time is made up here, and energy is not: it is measured by the machine's own clocks.
        self._closes = ExitStack()
        self._recorder = self._closes.enter_context(metered(config, self._tally, exported=False))
        self._lease = self._registered("worker-a")
        self._loop = self._looping(self._lease)
        self._is_over = False
        self._rounds = self._loop.steps(Until.STOPPED, lambda: self._is_over)
        self._told = _Told()

    def close(self) -> None:
        """Close ledger and queue, and note the energy."""
        self._closes.close()
        self.queue.close()
        self.stores.close()

    def run(self) -> None:
        """Let the feed come in, in four parts, then wait until everything is settled."""
        chunks = list(self._chunk_sizes())
        steps = self._feed.steps()
        for part, (title, number) in enumerate(
            zip(
                ("Notifications come in", "A worker dies", "A dataset is switched off"),
                _cuts(len(chunks)),
                strict=True,
            )
        ):
            sizes, chunks = chunks[:number], chunks[number:]
            self._watcher.begin(title, sum(sizes))
            told = (self._plain, self._death, self._switched)[part](steps, sizes)
            self._watcher.end(title, told)
        self._write_rest(steps)
        self._settle()

    def run_plainly(self, until: datetime) -> None:
        """Let come in what arrives before an instant; no worker dies, nothing is switched off."""

        def steps() -> Steps:
            return takewhile(
                lambda step: isinstance(step, FeedObject) or step.at < until, self._feed.steps()
            )

        left, arriving = sum(isinstance(step, FeedMessage) for step in steps()), steps()
        while left > 0:
            self._work_through(arriving, [min(left, self._chunk_max)])
            left -= self._chunk_max
        self._write_rest(arriving)
        self._settle()

    def result(self) -> DemoResult:
        """Seal the audit log, read the catalog, check the promises."""
        self._is_over = True
        self._drain()
        head = self.stores.audit.seal()
        digest = hashlib.sha256()
        items = wrong = 0
        for body, sha256 in stored_items(self.stores.database):
            digest.update(body)
            items += 1
            wrong += hashlib.sha256(body).hexdigest() != sha256
        queue = self.queue.status()
        findings = Findings(
            manifest=self.manifest,
            wrong_hashes=wrong,
            answered=self._tally.deleted,
            waiting=queue.visible + queue.in_flight,
            dead=queue.dead or 0,
            ignored=sum(self._loop.report.ignored.values()),
            poison_seen_twice=self._told.poison_seen_twice,
            workers_lost=1,
        )
        return DemoResult(
            folder=self._folder,
            manifest=self.manifest,
            stats=self.stores.reader.stats(),
            queue=queue,
            ignored=dict(sorted(self._loop.report.ignored.items())),
            poison=self._loop.report.poison,
            items=items,
            catalog_sha256=digest.hexdigest(),
            seconds=self._told.seconds,
            parked=self._told.parked,
            taken_over=self._told.taken_over,
            head=head,
            proofs=prove(self.stores, findings),
        )

    # --- the parts of the story -------------------------------------------------------------------

    def _plain(self, steps: Steps, sizes: list[int]) -> str:
        self._work_through(steps, sizes)
        return "Each is recorded, its object is read, item and provenance are committed together."

    def _death(self, steps: Steps, sizes: list[int]) -> str:
        """Let a worker die with a batch in its hands: everything done, nothing committed."""
        self._receive(steps, sizes[0])
        dying = open_worker(
            replace(self._config, values={**self._config.values, "worker.batch": _LOST_BATCH}),
            self.stores,
            self._registered("worker-b"),
            queue=self.queue,
            clock=self.clock,
        )
        batch = dying.receive()
        for phase in (dying.parse, dying.record_and_claim, dying.read_evidence, dying.operate):
            phase(batch)
        self._told.taken_over = tuple(claim.unit.object_uri for claim in batch.claims)
        self._told.poison_seen_twice = sum(each.poison is not None for each in batch.parsed)
        self._drain()
        self._watcher.advance(sizes[0])
        self._work_through(steps, sizes[1:])
        return (
            f"It held {len(batch.claims)} units. Its lease ends, it is fenced, and another worker "
            "finishes them."
        )

    def _switched(self, steps: Steps, sizes: list[int]) -> str:
        """Switch a dataset off for the rest of the feed: its units are parked, not lost."""
        self._switch(is_on=True, reason="to show that parked units are not lost")
        self._work_through(steps, sizes)
        counts = self.stores.reader.stats().by_dataset.get(PARKED_DATASET, {})
        self._told.parked = counts.get("pending", 0)
        self._switch(is_on=False, reason="shown")
        return f"{self._told.parked} units of {PARKED_DATASET} wait in the ledger until it is on."

    def _settle(self) -> None:
        """Jump from wait to wait until nothing is left: retries, dead letters, parked units."""
        title = "Retries and dead letters"
        before = self.queue.status()
        left = before.visible + before.in_flight
        self._watcher.begin(title, left)
        # The lease of the worker that died ends in any case.
        seconds = 2 * self._lease.lease_s
        for _ in range(_JUMPS_MAX):
            self.clock.reach(self.clock.instant + timedelta(seconds=seconds))
            self._drain()
            status = self.queue.status()
            now = status.visible + status.in_flight
            self._watcher.advance(left - now)
            left, seconds = now, _JUMP_S
            if not left and not self._count("count_unfinished"):
                break
        self._watcher.end(
            title,
            "What may yet succeed is tried again, later and later; the messages of what cannot "
            "succeed end in the dead-letter queue.",
        )

    # --- how it is done ---------------------------------------------------------------------------

    def _chunk_sizes(self) -> Iterator[int]:
        left = self.manifest.messages
        chunk = min(self._chunk_max, max(1, left // _CHUNKS_MIN))
        while left > 0:
            yield min(left, chunk)
            left -= chunk

    def _work_through(self, steps: Steps, sizes: list[int]) -> None:
        for size in sizes:
            self._receive(steps, size)
            self._drain()
            self._watcher.advance(size)

    def _receive(self, steps: Steps, size: int) -> None:
        """Let so many messages arrive, and the objects that are written meanwhile."""
        bodies: list[bytes] = []
        for step in steps:
            if isinstance(step, FeedObject):
                step.write(self._folder / OBJECTS_NAME)
                continue
            self.clock.reach(step.at)
            bodies.append(step.body)
            if len(bodies) == size:
                break
        self.queue.send(bodies)

    def _write_rest(self, steps: Steps) -> None:
        """Write the objects that nobody announced before the end."""
        for step in steps:
            if isinstance(step, FeedObject):
                step.write(self._folder / OBJECTS_NAME)

    def _drain(self) -> None:
        """Work until there is nothing to do now; the living worker's lease goes with the time."""
        started = time.perf_counter()
        self.stores.leases.renew(self._lease)
        for rest_s in self._rounds:
            if rest_s:
                break
        self._told.seconds += time.perf_counter() - started

    def _registered(self, worker_id: str) -> WorkerLease:
        return self.stores.leases.register(
            worker_id, ingest_run_id=RUN, lease_s=self._config.number("worker.lease_s")
        )

    def _looping(self, lease: WorkerLease) -> IngestLoop:
        return IngestLoop(
            open_worker(
                self._config,
                self.stores,
                lease,
                queue=self.queue,
                recorder=self._recorder,
                clock=self.clock,
            ),
            lease,
            self.stores.leases,
            switched_off=lambda: self.stores.switches.switched_off(SwitchScope.INGEST),
            recorder=self._recorder,
            sleep=lambda _seconds: None,
            random=self._random.random,
            monotonic=self.clock.monotonic,
            recover_every_s=lease.lease_s / 2,
            maintain=lambda: widen_collections(self.stores, self._catalogue),
        )

    def _switch(self, *, is_on: bool, reason: str) -> None:
        self.stores.switches.set(
            SwitchScope.INGEST, PARKED_DATASET, is_on=is_on, actor=OPERATOR, reason=reason
        )

    def _count(self, name: str) -> int:
        return count_for_proof(self.stores.database)(name)


@dataclass(slots=True)
class _Told:
    """What the demo remembers for its summary."""

    seconds: float = 0.0
    parked: int = 0
    taken_over: tuple[str, ...] = ()
    #: Messages that the dying worker had stored as poison before they came again.
    poison_seen_twice: int = 0


def _cuts(chunks: int) -> tuple[int, int, int]:
    """Divide the chunks: most come in plainly, some with a death, some while switched off."""
    tail = max(1, chunks // 5)
    return max(0, chunks - 2 * tail), min(tail, chunks), tail
