"""Dispatchers of the configured targets, each with a connection of its own."""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.sinks import open_target, sink_resources
from tallgrass.bootstrap.stores import Stores, open_current_stores, open_stores
from tallgrass.config import Config
from tallgrass.errors import ConfigError, did_you_mean
from tallgrass.governance.policy import Policies
from tallgrass.governance.switches import SwitchScope
from tallgrass.outbox.breaker import Breaker
from tallgrass.outbox.deliveries import TargetCounts
from tallgrass.outbox.dispatch_loop import DispatchLoop, DispatchReport, DispatchUntil
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.outbox.dispatch_threads import DispatchThreads, Lane, Wake
from tallgrass.outbox.dispatcher import Dispatcher
from tallgrass.outbox.routing import Target
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import Sink
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.outbox_wake import SqliteWake
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchResult:
    """What dispatchers delivered, and what is still undelivered."""

    report: DispatchReport
    #: Of the targets that were dispatched to.
    left: dict[str, TargetCounts]
    #: Datasets whose events a switch holds; `*` for all.
    stopped: list[str]

    @property
    def undelivered(self) -> int:
        """Events of these targets that are not delivered yet."""
        return sum(counts.undelivered for counts in self.left.values())


def dispatch_rules(config: Config) -> DispatchRules:
    """Return how often and how fast deliveries are tried."""
    return DispatchRules(
        attempts_max=config.integer("outbox.attempts"),
        backoff=Backoff(base_s=config.number("outbox.base_s"), cap_s=config.number("outbox.cap_s")),
        lease_s=config.number("outbox.lease_s"),
    )


def chosen_targets(config: Config, wanted: Sequence[str] = ()) -> list[Target]:
    """Return the targets of these names, or all; an unknown one is refused with the nearest."""
    known = config.routing.targets
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"there is no target {name!r}{hint}", code="unknown_target")
    return [known[name] for name in (dict.fromkeys(wanted) if wanted else known)]


def stopped_datasets(stores: Stores) -> list[str]:
    """Return the datasets whose events a switch holds; `*` for all."""
    return sorted(
        each.dataset
        for each in stores.switches.switches()
        if each.is_on and each.scope is SwitchScope.DISPATCH
    )


def dispatch(
    config: Config,
    *,
    targets: Sequence[str] = (),
    until: DispatchUntil,
    stop: Callable[[], bool],
    recorder: Recorder = NOBODY,
) -> DispatchResult:
    """Deliver events until told to stop, or until nothing is due; then tell what is left."""
    chosen = chosen_targets(config, targets)
    policies = open_policies(config)
    with ExitStack() as closes:
        stores = closes.enter_context(closing(open_current_stores(config)))
        resources = closes.enter_context(sink_resources(config))
        lanes = []
        for target in chosen:
            sink = closes.enter_context(closing(open_target(target, resources)))
            number = 1 if until is DispatchUntil.ONCE else target.concurrency
            breaker = _open_breaker(config)
            lanes += [
                _open_lane(config, target, sink, number, stop, recorder, policies, breaker)
                for _ in range(number)
            ]
        recorder.event(names.DISPATCH_STARTED, targets=" ".join(each.name for each in chosen))
        report = DispatchThreads(lanes, _open_wake(config)).run(until, stop)
        stopped = stopped_datasets(stores)
        result = DispatchResult(report=report, left=_left(stores, chosen), stopped=stopped)
    recorder.event(
        names.DISPATCH_STOPPED, dispatched=report.dispatched, undelivered=result.undelivered
    )
    return result


def _open_lane(
    config: Config,
    target: Target,
    sink: Sink,
    lanes: int,
    stop: Callable[[], bool],
    recorder: Recorder,
    policies: Policies,
    breaker: Breaker | None,
) -> Lane:
    """Wire one dispatcher; the lanes of a target share its rate and its breaker."""
    stores = open_stores(config)
    rate = None if target.rate is None else target.rate / lanes
    batch = config.integer("outbox.batch")
    dispatcher = Dispatcher(
        target=target.name,
        sink=sink,
        store=stores.outbox,
        rules=dispatch_rules(config),
        dispatcher_id=str(uuid.uuid4()),
        recorder=recorder,
        random=random.random,
        monotonic=time.monotonic,
        # Not more at once than a second may have.
        batch_size=batch if rate is None else max(1, min(batch, int(rate))),
        ordered=target.ordered,
        stop=stop,
        policies=policies,
        breaker=breaker,
    )
    loop = DispatchLoop(
        dispatcher,
        recorder=recorder,
        random=random.random,
        monotonic=time.monotonic,
        rate=rate,
    )
    return Lane(loop=loop, close=stores.close)


def _open_breaker(config: Config) -> Breaker | None:
    pause_s_max = config.number("outbox.pause_s_max")
    if not pause_s_max:
        return None
    return Breaker(
        pause_s_max=pause_s_max,
        probe_s_max=config.number("outbox.lease_s"),
        monotonic=time.monotonic,
        random=random.random,
    )


def _open_wake(config: Config) -> Wake:
    url = config.text("database.url")
    if (file := sqlite_file(url)) is not None:
        return SqliteWake(file)
    from tallgrass.storage.outbox_listen import PostgresWake  # noqa: PLC0415 - optional extra

    return PostgresWake(url)


def _left(stores: Stores, chosen: Sequence[Target]) -> dict[str, TargetCounts]:
    counts = stores.deliveries.counts()
    return {
        target.name: counts.get(target.name, TargetCounts(target=target.name)) for target in chosen
    }
