"""The simulator: one thread, one seed, one history.

First a world in which things go wrong, as its seed decides; every event is followed by the checks
that must hold at any time. Then faults stop, and everything must come to an end within a bound of
events and of virtual time; dead letters are sent again once, and the oracle judges the whole.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tallgrass.governance.switches import SwitchScope
from tests.oracle.replays import runs_are_settled
from tests.oracle.tables import read_tables
from tests.oracle.verdict import Disturbances, verdict
from tests.simulation.dispatching import SINK_FAULTS
from tests.simulation.disturbed import READ_FAULTS, STORE_FAULTS
from tests.simulation.template import Template
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.plugins.postgres import Databases
    from tests.simulation.actors import Process
    from tests.simulation.dispatching import DispatchProcess

#: Faults stop; then everything ends within so many events, and so much virtual time.
CALM_EVENTS_MAX = 4000
CALM_TIME_MAX = timedelta(hours=2)

#: How often, after an event, somebody runs nodes.
NODES_RUN = 0.005

#: So many worlds have a warden, and how often he acts after an event.
WARDED = 0.4
WARDEN_ACTS = 0.04

#: So many worlds begin with messages in the queue.
BUSY_FROM_THE_BEGINNING = 0.7

#: So many worlds are archived as a whole before they are judged.
RETAINED_AT_THE_END = 0.3

#: Codes that a unit may end with though nothing is wrong with it.
SUFFERED = frozenset({*READ_FAULTS, "etag_mismatch", "operator_error"})

#: Where worlds are kept: in memory if the machine has a place for it.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each run makes a folder of its own


@dataclass(kw_only=True)
class History:
    """What happened under one seed."""

    seed: int
    backend: str = "sqlite"
    events: int = 0
    violations: list[str] = field(default_factory=list)
    #: Filled only if it is told.
    lines: list[str] = field(default_factory=list)


class Simulation:
    """One world from its beginning to its end."""

    def __init__(self, seed: int, template: Template, *, tell: bool = False) -> None:
        self.history = History(seed=seed, backend=template.backend)
        self._tell = tell
        self._world = World(seed, template)
        if tell:
            self._world.check_every_when_calm = 1
        self._random = Random(seed ^ 0x5EED)
        #: Nodes share nothing with the others, so their chance is another.
        self._beside = Random(seed ^ 0xBE51)
        #: So is the warden's: worlds that have none go on as they did before there was one.
        self._warding = Random(seed ^ 0x3A2D)
        self._warden_acts = WARDEN_ACTS if self._warding.random() < WARDED else 0.0
        self._before: dict[str, str] = {}

    def run(self) -> History:
        """Play it; stop at the first violation."""
        world = self._world
        try:
            self._play()
            if not world.violations and self._random.random() < RETAINED_AT_THE_END:
                self._event("retainer", world.retainer.finish)
            world.seal()
            if not world.violations:
                tables = read_tables(world.ledger)
                world.violations += verdict(
                    tables,
                    world.queue_contents(),
                    world.manifest,
                    Disturbances(codes=SUFFERED, max_attempts=world.max_attempts, redriven=True),
                )
                world.check_deliveries(tables)
        finally:
            self.history.violations = world.violations
            world.close()
        return self.history

    def _play(self) -> None:
        world = self._world
        for process in world.everybody:
            self._event(process.name, process.start)
        if self._disturbed() and self._calm():
            self._event("drainer", world.drainer.drain)
            redriven = world.redrive()
            self._event("operator", lambda: f"sends {redriven} dead letters again")
            self._event("operator", world.requeue)
            if self._calm():
                self._event("replayer", lambda: world.replayer.finish(settle=True))
                self._event("drainer", world.drainer.settle)
                if world.has_runs():
                    world.violations += runs_are_settled(read_tables(world.ledger))

    # --- while things go wrong -----------------------------------------------------------------

    def _disturbed(self) -> bool:
        """Let things happen; return whether all promises held."""
        events = self._swarm()
        actions, weights = list(events), list(events.values())
        total = 30 + 6 * len(self._world.uris) + self._random.randint(0, 40)
        if self._random.random() < BUSY_FROM_THE_BEGINNING:
            count = self._random.randint(1, len(self._world.coming))
            self._event("producer", lambda: self._world.produce(count))
        for _ in range(total):
            action = self._random.choices(actions, weights)[0]
            action()
            if self._beside.random() < NODES_RUN:
                self._event("nodes", self._world.nodes.run)
            if self._warding.random() < self._warden_acts:
                self._event("warden", self._world.warden.act)
            if self._world.violations:
                return False
        return True

    def _swarm(self) -> dict[Callable[[], None], float]:
        """Choose which kinds of events this world knows, and how frequent they are."""
        always: dict[Callable[[], None], float] = {
            self._work: 40.0,
            self._dispatch: 20.0,
            self._produce: 8.0,
            self._tick: 4.0,
        }
        sometimes: dict[Callable[[], None], float] = {
            self._kill: 1.0,
            self._hang: 2.0,
            self._ask_to_stop: 0.5,
            self._store_fault: 8.0,
            self._queue_fault: 1.5,
            self._lose_acknowledgement: 1.5,
            self._read_fault: 3.0,
            self._refuse_a_batch: 1.0,
            self._switch: 2.0,
            self._long_wait: 0.5,
            self._send_again: 1.0,
            self._sweep: 1.0,
            self._skew: 0.5,
            self._sink_fault: 8.0,
            self._kill_a_dispatcher: 1.0,
            self._hang_a_dispatcher: 1.5,
            self._stop_a_dispatcher: 0.5,
            self._switch_dispatch: 1.0,
            self._replay: 1.5,
            self._run_again: 1.0,
            self._resume: 1.5,
            self._switch_replay: 1.0,
            self._retain: 1.5,
            self._let_messages_die: 3.0,
            self._drain: 3.0,
            self._go_on_draining: 1.0,
            self._backfill: 1.5,
            self._err: 1.0,
            self._read_the_catalog: 1.5,
        }
        chosen = {
            action: weight * self._random.choice((0.3, 1.0, 3.0))
            for action, weight in sometimes.items()
            if self._random.random() < 0.6
        }
        return {**always, **chosen}

    def _work(self) -> None:
        self._go_on(self._world.processes)

    def _dispatch(self) -> None:
        self._go_on(self._world.dispatchers)

    def _go_on(self, processes: Sequence[Process | DispatchProcess]) -> None:
        """Let one of them go on that can; nothing would come of the others."""
        able = [each for each in processes if self._world.would_do_something(each)]
        if not able:
            return
        process = self._random.choice(able)
        self._event(process.name, process.step if process.alive else process.start)

    def _sink_fault(self) -> None:
        fault, times = self._random.choice(SINK_FAULTS), self._random.choice((1, 1, 2, 6))
        self._world.target.faults += [fault] * times
        self._event("fate", lambda: f"lets {times} sends fail: {fault}")

    def _kill_a_dispatcher(self) -> None:
        dispatcher = self._any_dispatcher()
        self._event(dispatcher.name, dispatcher.crash)

    def _hang_a_dispatcher(self) -> None:
        dispatcher = self._any_dispatcher()
        dispatcher.hung = not dispatcher.hung
        self._event(dispatcher.name, lambda: "hangs" if dispatcher.hung else "goes on")

    def _stop_a_dispatcher(self) -> None:
        dispatcher = self._any_dispatcher()
        dispatcher.asked_to_stop = True
        self._event(dispatcher.name, lambda: "is asked to stop")

    def _switch_dispatch(self) -> None:
        dataset = self._random.choice(("goes-glm", "nexrad-l2", "hrrr", "*"))
        on = self._random.random() < 0.5
        scope = SwitchScope.DISPATCH
        self._event("operator", lambda: self._world.switch(dataset, on=on, scope=scope))

    def _replay(self) -> None:
        self._event("replayer", self._world.replayer.replay)

    def _run_again(self) -> None:
        self._event("replayer", self._world.replayer.run_again)

    def _resume(self) -> None:
        self._event("replayer", self._world.replayer.resume)

    def _backfill(self) -> None:
        self._event("lister", self._world.lister.backfill)

    def _err(self) -> None:
        self._event("governor", self._world.governor.err)

    def _read_the_catalog(self) -> None:
        self._event("reader", self._world.reader.look)

    def _let_messages_die(self) -> None:
        count = self._random.choice((1, 2, 5))
        self._event("fate", lambda: self._world.let_die(count))

    def _drain(self) -> None:
        self._event("drainer", self._world.drainer.drain)

    def _go_on_draining(self) -> None:
        self._event("drainer", self._world.drainer.resume)

    def _retain(self) -> None:
        self._event("retainer", self._world.retainer.retain)

    def _switch_replay(self) -> None:
        dataset = self._random.choice(("goes-glm", "nexrad-l2", "hrrr", "*"))
        on = self._random.random() < 0.5
        scope = SwitchScope.REPLAY
        self._event("operator", lambda: self._world.switch(dataset, on=on, scope=scope))

    def _produce(self) -> None:
        count, delay = self._random.choice((1, 1, 2, 3, 10)), self._random.choice((0.0, 0.0, 0.5))
        self._event("producer", lambda: self._world.produce(count, delay=delay))
        if self._random.random() < 0.3:
            self._event("producer", self._world.send_delayed)

    def _tick(self) -> None:
        seconds = self._random.choice((0.01, 1.0, 3.0, 8.0))
        self._event("time", lambda: self._world.pass_time(seconds))

    def _long_wait(self) -> None:
        seconds = self._random.choice((25.0, 45.0, 130.0))
        self._event("time", lambda: self._world.pass_time(seconds))

    def _kill(self) -> None:
        process = self._any_process()
        self._event(process.name, process.crash)

    def _hang(self) -> None:
        process = self._any_process()
        process.hung = not process.hung
        self._event(process.name, lambda: "hangs" if process.hung else "goes on")
        if process.hung:
            return
        # Before its heartbeat learns what happened meanwhile.
        for _ in range(self._random.randint(0, 8)):
            self._event(process.name, process.step)

    def _ask_to_stop(self) -> None:
        process = self._any_process()
        process.asked_to_stop = True
        self._event(process.name, lambda: "is asked to stop")

    def _store_fault(self) -> None:
        # Half of them befall a worker: it has the most to lose.
        workers = [each.store_faults for each in self._world.processes]
        others = [
            *(each.store_faults for each in self._world.dispatchers),
            *(self._world.sweep_faults, self._world.replayer.store_faults),
            *(self._world.drainer.store_faults, self._world.drainer.queue_faults),
            self._world.governor.store_faults,
        ]
        faults = self._random.choice(workers if self._random.random() < 0.5 else others)
        fault = (self._random.choice((0, 0, 1, 1, 2, 4)), self._random.choice(STORE_FAULTS))
        faults.armed.append(fault)
        self._event("fate", lambda: f"lets a ledger transaction fail: {fault[1]}")

    def _queue_fault(self) -> None:
        process = self._any_process()
        fault = (self._random.randint(0, 2), self._random.choice(STORE_FAULTS))
        process.queue_faults.armed.append(fault)
        self._event("fate", lambda: f"lets {process.name}'s queue fail: {fault[1]}")

    def _lose_acknowledgement(self) -> None:
        process = self._any_process()
        process.queue.lose_acknowledgements += 1
        self._event("fate", lambda: f"loses an acknowledgement of {process.name}")

    def _read_fault(self) -> None:
        due = self._world.due_objects() if self._random.random() < 0.5 else []
        uri, code = self._random.choice(due or self._world.uris), self._random.choice(READ_FAULTS)
        times = self._random.choice((1, 1, 2, 8))
        self._world.objects.faults.setdefault(uri, []).extend([code] * times)
        self._event("fate", lambda: f"lets {times} reads of {uri} fail: {code}")

    def _refuse_a_batch(self) -> None:
        process = self._any_process()
        process.ledger.refuse += self._random.randint(1, 3)
        self._event("fate", lambda: f"lets the database refuse a row of {process.name}'s batch")

    def _switch(self) -> None:
        dataset = self._random.choice(("goes-glm", "nexrad-l2", "hrrr", "*"))
        on = self._random.random() < 0.5
        self._event("operator", lambda: self._world.switch(dataset, on=on))

    def _send_again(self) -> None:
        self._event("producer", self._world.send_again)

    def _sweep(self) -> None:
        self._event("sweeper", self._world.sweep)

    def _skew(self) -> None:
        process = self._any_process()
        process.skew_s = self._random.uniform(-3.0, 3.0)
        self._event(process.name, lambda: f"has a clock that is off by {process.skew_s:.1f} s")

    # --- when faults have stopped --------------------------------------------------------------

    def _calm(self) -> bool:
        """Let everything come to its end; return whether it did."""
        world = self._world
        self._stop_faults()
        world.check_every = world.check_every_when_calm
        began, events = world.clock(), self.history.events
        while not world.is_quiet():
            awake = [each for each in world.everybody if world.is_awake(each)]
            for process in awake:
                if not process.alive:
                    self._event(process.name, process.start)
                self._event(process.name, process.step)
            if not awake:
                self._event("time", world.pass_idle_time)
            if world.drainer.is_needed():
                self._event("drainer", world.drainer.finish)
            if world.violations:
                return False
            if self.history.events - events > CALM_EVENTS_MAX:
                world.violations.append(f"not at its end after {CALM_EVENTS_MAX} calm events")
            if world.clock() - began > CALM_TIME_MAX:
                world.violations.append(f"not at its end after {CALM_TIME_MAX} without faults")
        return not world.violations

    def _stop_faults(self) -> None:
        world = self._world
        world.sweep_faults.armed.clear()
        world.replayer.store_faults.armed.clear()
        world.drainer.store_faults.armed.clear()
        world.drainer.queue_faults.armed.clear()
        world.warden.store_faults.armed.clear()
        world.objects.faults.clear()
        for process in world.processes:
            process.store_faults.armed.clear()
            process.queue_faults.armed.clear()
            process.queue.lose_acknowledgements = process.ledger.refuse = 0
            process.hung = False
        world.target.faults.clear()
        for dispatcher in world.dispatchers:
            dispatcher.store_faults.armed.clear()
            dispatcher.hung = False
        world.switch_all_on_again()
        self._event("fate", lambda: "rests: no more faults")
        self._event("replayer", world.replayer.finish)
        self._event("warden", world.warden.finish)
        self._event("producer", lambda: world.produce(len(world.coming)))
        self._event("producer", world.send_delayed)

    # --- the telling ---------------------------------------------------------------------------

    def _any_process(self) -> Process:
        return self._random.choice(self._world.processes)

    def _any_dispatcher(self) -> DispatchProcess:
        return self._random.choice(self._world.dispatchers)

    def _event(self, who: str, action: Callable[[], str]) -> None:
        """Let something happen, then judge the world."""
        try:
            what = action()
        except Exception as error:  # noqa: BLE001 - whatever nobody expects is a finding
            what = f"died of {type(error).__name__}: {error}"
            self._world.violations.append(f"the {who} {what}")
        self.history.events += 1
        self._world.check()
        if self._tell:
            self._write_down(who, what)

    def _write_down(self, who: str, what: str) -> None:
        now = self._world.clock()
        self.history.lines.append(f"{self.history.events:5} {now:%H:%M:%S} {who:9} {what}")
        after = self._world.statuses()
        for unit, status in after.items():
            if self._before.get(unit) != status:
                self.history.lines.append(f"{'':26}{unit}: {self._before.get(unit)} → {status}")
        self._before = after


class Player:
    """Plays one seed after another; a seed that breaks a promise twice, to tell its history."""

    def __init__(self, folder: Path, databases: Databases | None = None) -> None:
        self._template = Template(folder, databases)

    def play(self, seed: int) -> History:
        """Return what happened under a seed."""
        history = Simulation(seed, self._template).run()
        if history.violations:
            told = Simulation(seed, self._template, tell=True).run()
            # Told, a world is judged after every change: it is found as early as can be.
            history = told if told.violations else history
        return history

    def close(self) -> None:
        """Forget what is in memory."""
        self._template.close()


def simulate(seeds: Iterable[int], *, stop_at_first: bool = False) -> list[History]:
    """Play every seed, in order."""
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    histories = []
    with tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-simulation-") as folder:
        player = Player(Path(folder))
        try:
            for seed in seeds:
                histories.append(player.play(seed))
                if stop_at_first and histories[-1].violations:
                    break
        finally:
            player.close()
    return histories


def report(histories: Iterable[History]) -> str:
    """Return the one line that sums it up."""
    told = list(histories)
    events = sum(history.events for history in told)
    violations = sum(len(history.violations) for history in told)
    return f"{len(told):,} seeds, {events:,} events, {violations:,} violations"


def failure(history: History, lines: int = 60) -> str:
    """Return how a seed went wrong and the command that repeats it."""
    backend = "" if history.backend == "sqlite" else f" BACKEND={history.backend}"
    return "\n".join(
        [
            f"seed {history.seed} broke a promise after {history.events} events:",
            *(f"  {text}" for text in history.violations[:10]),
            "history:",
            *history.lines[-lines:],
            f"repeat it: make simulate FROM={history.seed} SEEDS=1{backend}",
        ]
    )
