"""One replay run from its registration to its report, with a worker of its own."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tallgrass.bootstrap.catalog import widen_collections
from tallgrass.bootstrap.governing import record_config
from tallgrass.bootstrap.planning import ASKED
from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.bootstrap.replay_preparing import Prepared
from tallgrass.bootstrap.stores import Stores, open_stores, record_collections
from tallgrass.bootstrap.workers import open_reader, open_worker
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import TransientError, WorkerFenced
from tallgrass.governance.actors import Acting, Actor, Role
from tallgrass.governance.gate import GateRequest, gate
from tallgrass.governance.policy import Policies, ReplayMode
from tallgrass.governance.switches import SwitchedOff
from tallgrass.heartbeat import Heartbeat
from tallgrass.queues.backlog import front_of
from tallgrass.replay.engine import Engine, Pace, Surroundings, Work
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import Run, RunDenies, RunReport, RunRules
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.telemetry.replay_report import batch_tracing, throttling
from tallgrass.unsettled import Unsettled

if TYPE_CHECKING:
    from datetime import datetime

#: How often the queue is asked for its age; a count of a large queue costs something.
_LAG_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out; nothing here widens what it may do."""

    #: Whether the engine works on due units itself.
    work: bool = True
    #: Can only lower replay.max_records_per_second.
    records_per_s: float | None = None
    mismatches_max: int = 0
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[RunReport], None] = lambda _report: None
    lagging: Callable[[float], None] = lambda _lag_s: None
    sleep: Callable[[float], object] = time.sleep
    #: None: as ledger and queue tell it.
    ingest_lag_s: Callable[[], float] | None = None


def run_replay(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    prepared: Prepared,
    options: RunOptions,
    *,
    by: Acting,
    recorder: Recorder = NOBODY,
) -> RunReport:
    """Register or resume the run, and carry it out."""
    run = begin_replay(stores, prepared, by=by)
    return carry_out_replay(
        config, stores, catalogue, prepared, run, options, by=by, recorder=recorder
    )


def carry_out_replay(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    prepared: Prepared,
    run: Run,
    options: RunOptions,
    *,
    by: Acting,
    recorder: Recorder = NOBODY,
) -> RunReport:
    """Put the records of a run that has begun to work, and see them through."""
    with ExitStack() as closes:
        work: Work | None = None
        if options.work:
            working = own_worker(config, stores, catalogue, recorder=recorder)
            work = closes.enter_context(working)
        engine = Engine(
            stores.replays,
            stores.replay_runs,
            run_rules(config, prepared.policies, run, by),
            _pace(config, prepared, options),
            Surroundings(
                sleep=options.sleep,
                monotonic=time.monotonic,
                ingest_lag_s=options.ingest_lag_s or ingest_lag(config, stores),
                stop=options.stop,
                progress=options.progress,
                lagging=options.lagging,
                throttled=throttling(recorder),
                batched=batch_tracing(recorder, system_clock),
            ),
            work=work,
        )
        return engine.run(run, prepared.rows())


def run_rules(config: Config, policies: Policies, run: Run, by: Acting) -> RunRules:
    """Return what decides about the records of a run: the ledger's rules, and the gate."""
    role = by.role if isinstance(by, Actor) else Role.OPERATOR
    return RunRules(
        ledger=config.rules,
        selection=run.order.selection,
        denies=run_denies(policies, run.order.mode, role, run.approvals),
        code_version=run.order.code_version,
        allow_downgrade=run.order.allow_downgrade,
    )


def ingest_lag(
    config: Config,
    stores: Stores,
    *,
    clock: Clock = system_clock,
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[], float]:
    """Return what tells for how long the oldest work of ingest waits, in ledger or queue.

    A queue that cannot be asked is no reason to wait: the ledger needs none for a replay.
    """
    asked_at = -_LAG_EVERY_S
    front: datetime | None = None

    def lag_s() -> float:
        nonlocal asked_at, front
        if monotonic() - asked_at >= _LAG_EVERY_S:
            asked_at, status = monotonic(), None
            with suppress(TransientError):
                status = read_queue_status(config)
            front = front_of(
                status,
                batch=config.integer("worker.batch"),
                newest_in_hand=stores.replay_runs.newest_in_hand(),
                before=front,
                now=clock(),
            )
        queue_s = 0.0 if front is None else (clock() - front).total_seconds()
        return max(stores.replay_runs.ingest_lag_s(), queue_s)

    return lag_s


def begin_replay(stores: Stores, prepared: Prepared, *, by: Acting) -> Run:
    """Register the run, or take it up again; refuse it without the approval that it needs."""
    order = prepared.order
    if prepared.resumed is None:
        return stores.replays.register(order, by=by, needed=prepared.needed)
    return stores.replays.resume(
        order.replay_run_id, by=by, planned=order.planned, skipped=order.skipped
    )


def _pace(config: Config, prepared: Prepared, options: RunOptions) -> Pace:
    caps = prepared.caps
    rates = [
        caps.max_records_per_second,
        *([options.records_per_s] if options.records_per_s else []),
    ]
    return Pace(
        batch=caps.batch,
        records_per_s=min(rates),
        lag_s_max=config.number("replay.lag_s_max"),
        mismatches_max=options.mismatches_max,
    )


def run_denies(policies: Policies, mode: ReplayMode, role: Role, approvals: int) -> RunDenies:
    """Return what asks the gate about the records of a run."""

    # A batch reads its switches once, and the gate's answer hangs on nothing else: asking it anew
    # for each record took 4 % of a replay.
    @lru_cache(64)
    def denies(dataset: str, action: PlanAction, off: SwitchedOff) -> str | None:
        rule = gate(
            GateRequest(
                action=ASKED[action],
                dataset=dataset,
                policy=policies.of(dataset),
                switched_off=off,
                mode=mode,
                role=role,
                approvals=approvals,
            )
        ).rule
        return None if rule is None else rule.value

    return denies


@contextmanager
def own_worker(
    config: Config, stores: Stores, catalogue: Catalogue, *, recorder: Recorder = NOBODY
) -> Iterator["OwnWorker"]:
    """Give the engine a worker with a lease; what it still holds goes back at the end."""
    record_collections(stores, catalogue)
    record_config(stores, config, catalogue)
    with closing(open_stores(config)) as beating:
        worker = OwnWorker(config, stores, beating, catalogue, recorder)
        try:
            yield worker
        finally:
            worker.close()


class OwnWorker:
    """The worker of ingest, without a queue, under a lease that is renewed beside it."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        beating: Stores,
        catalogue: Catalogue,
        recorder: Recorder,
    ) -> None:
        self._config = config
        self._stores = stores
        self._beating = beating
        self._catalogue = catalogue
        self._recorder = recorder
        self._reader = open_reader(config, catalogue)
        self._recovered_at: float | None = None
        self._begin()

    def run_due(self) -> int:
        """Work on one batch of due units; a lease that was lost is replaced by a new one.

        What a batch that the store cut off still holds goes back before the next one is claimed.
        """
        self._heartbeat.progress()
        try:
            self._unsettled.settle()
            return len(self._worker.run_due(self._heartbeat.progress).claims)
        except TransientError as error:
            self._unsettled.note(error)
            raise
        except WorkerFenced:
            self._heartbeat.stop()
            self._begin()
            return 0

    def recover(self) -> None:
        """Free what lost workers held, and renew collections, now and then."""
        now = time.monotonic()
        if self._recovered_at is None or now - self._recovered_at >= self._lease.lease_s / 2:
            self._recovered_at = now
            self._stores.leases.recover()
            widen_collections(self._stores, self._catalogue)

    def close(self) -> None:
        """Renew collections, and end the lease in good order."""
        with suppress(TransientError):  # the next worker does it
            widen_collections(self._stores, self._catalogue)
        self._heartbeat.stop()
        with suppress(WorkerFenced, TransientError):
            self._unsettled.settle()
            self._stores.leases.stop(self._lease)

    def _begin(self) -> None:
        lease_s = self._config.number("worker.lease_s")
        self._lease = self._stores.leases.register(
            self._config.text("worker.id"), ingest_run_id=str(uuid.uuid4()), lease_s=lease_s
        )
        lease = self._lease
        self._unsettled = Unsettled(self._stores.leases, lease)
        self._heartbeat = Heartbeat(
            lambda: self._beating.leases.renew(lease),
            interval_s=lease_s / 3,
            deadline_s=self._config.number("worker.job_deadline_s"),
        )
        self._worker = open_worker(
            self._config,
            self._stores,
            lease,
            queue=None,
            reader=self._reader,
            catalogue=self._catalogue,
            recorder=self._recorder,
        )
        self._heartbeat.start()
