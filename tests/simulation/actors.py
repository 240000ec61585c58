"""Who acts in a simulated world: workers with a sweep of their own, and what they stand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tallgrass.bootstrap.queues import open_embedded_queue
from tallgrass.bootstrap.stores import open_stores
from tallgrass.bootstrap.workers import open_worker
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import TransientError, WorkerFenced
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.governance.switches import SwitchScope
from tallgrass.ingest_loop import IngestLoop, Until
from tallgrass.telemetry.recorder import NOBODY
from tests.simulation.disturbed import (
    Crashed,
    RefusingLedger,
    StoreFaults,
    WatchedQueue,
    disturb,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from random import Random

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.datasets.definition import FileFormat
    from tallgrass.ledger.claim import WorkerLease
    from tallgrass.ledger.unit import IngestUnit
    from tests.simulation.world import World


def seeded_ids(random: Random) -> Any:
    """Return a maker of ids that one seed always makes alike."""
    return lambda: UUID(int=random.getrandbits(128), version=4)


def format_of(unit: IngestUnit) -> FileFormat | None:
    """Return the format of a unit's object."""
    dataset = default_catalogue().dataset(unit.dataset)
    return None if dataset is None else dataset.format


def no_sleep(_seconds: float) -> None:
    """Let no time pass: within a step the world stands still."""


def operators_stores(world: World, random: Random, faults: StoreFaults) -> Stores:
    """Open the database for somebody who acts by chance of his own, and is met by its faults."""
    stores = open_stores(
        world.config,
        clock=world.clock,
        ids=seeded_ids(random),
        draw=random.random,
        sleep=no_sleep,
        catalogue=default_catalogue(),
    )
    disturb(stores.database, faults)
    return stores


@dataclass
class Operator:
    """Somebody who acts by chance of his own, and whom the database may fail."""

    world: World
    random: Random
    store_faults: StoreFaults = field(default_factory=StoreFaults)

    @cached_property
    def stores(self) -> Stores:
        """The database, opened when it is first needed."""
        return operators_stores(self.world, self.random, self.store_faults)

    def close(self) -> None:
        """Close the connection."""
        if "stores" in self.__dict__:
            self.stores.close()


@dataclass
class Process:
    """A worker process: the real loop over the real worker, one phase a step."""

    world: World
    name: str
    #: How far its clock is off.
    skew_s: float = 0.0
    store_faults: StoreFaults = field(default_factory=StoreFaults)
    queue_faults: StoreFaults = field(default_factory=StoreFaults)
    hung: bool = False
    asked_to_stop: bool = False
    #: Until when it rests.
    wake_at: datetime | None = None
    stepped_at: datetime | None = None
    _steps: Iterator[float] | None = None
    _lease: WorkerLease | None = None
    _loop: IngestLoop | None = None

    def __post_init__(self) -> None:
        world = self.world
        self.stores: Stores = open_stores(
            world.config,
            clock=self.clock,
            ids=seeded_ids(world.random),
            draw=world.random.random,
            sleep=no_sleep,
        )
        self.ledger = RefusingLedger(self.stores.ledger)
        disturb(self.stores.database, self.store_faults, world.order)
        queue = open_embedded_queue(world.config, clock=world.clock, ids=seeded_ids(world.random))
        disturb(queue._store._database, self.queue_faults)  # type: ignore[attr-defined]
        self._close_queue = queue.close
        self.queue = WatchedQueue(
            queue,
            ledger=world.ledger,
            messages=world.messages,
            buckets=world.buckets,
            violations=world.violations,
        )

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self._steps is not None

    @property
    def is_up(self) -> bool:
        """Whether there is a process that goes on."""
        return self._steps is not None and not self.hung

    @property
    def has_to_do(self) -> bool:
        """Whether its next round does something though nothing is due: it ends, or hands back."""
        cut_off = self._loop is not None and self._loop._unsettled._cut_off_by is not None
        return self.asked_to_stop or cut_off

    def clock(self) -> datetime:
        """Tell the time as this process sees it."""
        return self.world.clock() + timedelta(seconds=self.skew_s)

    def start(self) -> str:
        """Start a process with a lease of its own."""
        self.hung = self.asked_to_stop = False
        self.wake_at = None
        try:
            lease = self.stores.leases.register(
                self.name, ingest_run_id=f"run-{self.name}", lease_s=self.world.lease_s
            )
        except (TransientError, Crashed):
            return "could not start"
        worker = open_worker(
            self.world.config,
            self.stores,
            lease,
            queue=self.queue,
            reader=ObjectEvidenceReader(self.world.objects, format_of, threads=1),
            clock=self.clock,
        )
        worker._ledger = self.ledger
        loop = IngestLoop(
            worker,
            lease,
            self.stores.leases,
            switched_off=lambda: self.stores.switches.switched_off(SwitchScope.INGEST),
            recorder=NOBODY,
            sleep=no_sleep,
            random=self.world.random.random,
            monotonic=lambda: self.clock().timestamp(),
            recover_every_s=lease.lease_s / 2,
        )
        self._lease = lease
        self._loop = loop
        self.stepped_at = self.world.clock()
        self._steps = loop.steps(Until.STOPPED, lambda: self.asked_to_stop)
        return "started"

    def step(self) -> str:
        """Run to the end of the next phase."""
        if self._steps is None:
            return "is not there"
        self.stepped_at = self.world.clock()
        self.wake_at = None
        try:
            rest_s = next(self._steps)
        except StopIteration:
            return self._end("stopped in good order")
        except Crashed:
            return self._end("crashed")
        except WorkerFenced:
            return self._end("found itself fenced, and ended")
        except TransientError as error:
            return self._end(f"ended: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - whatever ends a worker is a finding
            self.world.violations.append(f"{self.name} died of {type(error).__name__}: {error}")
            return self._end("died")
        if rest_s:
            self.wake_at = self.world.clock() + timedelta(seconds=rest_s)
            return f"rests for {rest_s:.1f} s"
        return "did a phase"

    def crash(self) -> str:
        """End it between two phases."""
        return self._end("was killed")

    def beat(self) -> None:
        """Renew the lease, as its thread does."""
        if self._steps is None or self._lease is None or self.hung:
            return
        try:
            self.stores.leases.renew(self._lease)
        except WorkerFenced:
            self.asked_to_stop = True
        except TransientError:
            return
        except Crashed:
            self._end("crashed")

    def close(self) -> None:
        """Close its connections."""
        self._end("closed")
        self._close_queue()
        self.stores.close()

    def _end(self, how: str) -> str:
        if self._steps is not None:
            self._steps.close()  # type: ignore[attr-defined]
        self._steps = self._lease = self._loop = self.wake_at = None
        return how
