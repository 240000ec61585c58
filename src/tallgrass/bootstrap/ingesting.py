"""One worker process from its first lease to its end."""

import random
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass

from tallgrass.bootstrap.catalog import widen_collections
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.door import open_door, open_held
from tallgrass.bootstrap.governing import record_config
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import (
    Stores,
    open_current_stores,
    open_stores,
    record_collections,
)
from tallgrass.bootstrap.workers import open_reader, open_worker
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import WorkerFenced
from tallgrass.evidence.outage import OutageWatch
from tallgrass.governance.switches import SwitchScope
from tallgrass.heartbeat import Beside, Heartbeat
from tallgrass.ingest_loop import IngestLoop, LoopReport, Until
from tallgrass.ledger.claim import WorkerLease
from tallgrass.queues.door import Door
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.protocol import OpenQueue
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.worker import Worker

#: Enough for SQS to ask all of its servers whether anything is left.
_LAST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What all leases of a process share."""

    config: Config
    catalogue: Catalogue
    stores: Stores
    #: The heartbeat's own connection, and its own queue: it runs on another thread.
    beating: Stores
    beating_queue: OpenQueue
    reader: OutageWatch
    door: Door
    #: What a batch had in hand when its lease was lost is the first one under the next lease.
    held: HeldMessages
    recorder: Recorder
    sleep: Callable[[float], None]


def ingest(
    config: Config,
    *,
    until: Until,
    stop: Callable[[], bool],
    recorder: Recorder = NOBODY,
    sleep: Callable[[float], None] = time.sleep,
    replay_run_id: str | None = None,
) -> LoopReport:
    """Run one worker process until it is told to stop, or until its work is done.

    With `replay_run_id`, units that the queue brings and the ledger does not know yet are counted
    as work of that replay run. A process that slept past its lease is fenced and can write nothing
    more under that lease; since the process is alive, it goes on under a new one.
    """
    # First, as settings that cannot be used must leave no lease behind.
    door = open_door(config, recorder)
    catalogue = open_catalogue(config)
    report = LoopReport()
    with ExitStack() as closes:
        parts = _Parts(
            config=config,
            catalogue=catalogue,
            stores=closes.enter_context(
                closing(
                    open_current_stores(
                        config,
                        catalogue=catalogue,
                        recorder=recorder,
                        replay_run_id=replay_run_id,
                    )
                )
            ),
            beating=closes.enter_context(closing(open_stores(config))),
            beating_queue=closes.enter_context(closing(open_queue(config))),
            reader=OutageWatch(open_reader(config, catalogue), time.monotonic),
            door=door,
            held=open_held(config),
            recorder=recorder,
            sleep=sleep,
        )
        record_collections(parts.stores, catalogue)
        record_config(parts.stores, config, catalogue)
        while True:
            try:
                _work_under_a_lease(parts, until, stop, report)
            except WorkerFenced:
                if until is Until.ONCE or stop():
                    raise
            else:
                return report


def _work_under_a_lease(
    parts: _Parts, until: Until, stop: Callable[[], bool], report: LoopReport
) -> None:
    """Register, work with a heartbeat beside it, and hand back at the end."""
    lease = parts.stores.leases.register(
        parts.config.text("worker.id"),
        ingest_run_id=str(uuid.uuid4()),
        lease_s=parts.config.number("worker.lease_s"),
    )
    extend = Beside(lambda: parts.held.extend(parts.beating_queue))
    heartbeat = Heartbeat(
        lambda: parts.beating.leases.renew(lease),
        extend=extend,
        interval_s=lease.lease_s / 3,
        deadline_s=parts.config.number("worker.job_deadline_s"),
    )

    def ended() -> bool:
        return stop() or heartbeat.lost.is_set()

    def interrupted() -> bool:
        # A unit may become due at any time, by others or by its back-off: it needs no message.
        return ended() or parts.stores.ledger.has_due()

    wait_s = _wait_s(parts.config, until)
    queue = open_queue(parts.config, wait_s=wait_s, interrupted=interrupted)
    with closing(queue), closing(extend):
        worker = open_worker(
            parts.config,
            parts.stores,
            lease,
            queue=queue,
            reader=parts.reader,
            catalogue=parts.catalogue,
            recorder=parts.recorder,
            held=parts.held,
            door=parts.door,
        )
        loop = _looping(parts, worker, lease, heartbeat, report)
        parts.recorder.event(
            names.WORKER_STARTED,
            worker_id=lease.worker_id,
            ingest_run_id=lease.ingest_run_id,
            queue=queue.name,
        )
        heartbeat.start()
        try:
            loop.run(until, ended)
        finally:
            heartbeat.stop()


def _looping(
    parts: _Parts, worker: Worker, lease: WorkerLease, heartbeat: Heartbeat, report: LoopReport
) -> IngestLoop:
    return IngestLoop(
        worker,
        lease,
        parts.stores.leases,
        switched_off=lambda: parts.stores.switches.switched_off(SwitchScope.INGEST),
        recorder=parts.recorder,
        sleep=parts.sleep,
        random=random.random,
        monotonic=time.monotonic,
        recover_every_s=lease.lease_s / 2,
        maintain=lambda: widen_collections(parts.stores, parts.catalogue),
        progress=heartbeat.progress,
        require_open=parts.reader.require_open,
        report=report,
    )


def _wait_s(config: Config, until: Until) -> float:
    """Return how long a receive waits: briefly where the loop ends as soon as nothing is left."""
    wait_s = config.number("queue.wait_s")
    return wait_s if until is Until.STOPPED else min(wait_s, _LAST_WAIT_S)
