"""A soak: real processes at a steady rate, broken now and then, watched and judged at the end."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from tallgrass.bootstrap.stores import migrate_database
from tallgrass.config import load_config
from tests.chaos.roles import connect
from tests.soak.cast import Member, cast, cpu_of
from tests.soak.judging import judge_soak
from tests.soak.sampling import Sample, Watch, take_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.soak.place import Place

TICK_S = 0.1
CALM_S_MAX = 1200.0
#: A shorter run is all warming up: it is judged by what it left alone.
FLAT_S_MIN = 180.0
#: Each sample's look at a server that is just restarting fails; the next one succeeds.
_UNREACHABLE = (psycopg.OperationalError, sqlite3.OperationalError)
_BUSY = """SELECT (SELECT count(*) FROM wal_records
    WHERE status IN ('pending', 'in_progress') OR due_at IS NOT NULL)
  + (SELECT count(*) FROM wal_attempts WHERE status = 'pending')
  + (SELECT count(*) FROM outbox_delivery WHERE status <> 'dispatched')"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be done."""

    seed: int
    rate: float
    seconds: float
    #: Whether PostgreSQL's queue is SQS; the emulator takes a third of a core at full rate.
    with_sqs: bool = True

    @property
    def sample_s(self) -> float:
        """Seconds between two looks."""
        return min(5.0, max(0.5, self.seconds / 60))

    @property
    def kill_s(self) -> float:
        """Seconds between two kills of a worker; the other faults go by it."""
        return min(30.0, max(6.0, self.seconds / 8))

    @property
    def lease_s(self) -> float:
        """Seconds after which what a killed worker held is free again."""
        return min(20.0, max(10.0, self.seconds / 6))

    @property
    def is_short(self) -> bool:
        """Whether it is over before it can be told what is flat."""
        return self.seconds < FLAT_S_MIN

    @property
    def retry_s(self) -> tuple[float, float]:
        """Ceilings of back-offs.

        In a long run objects are written again, seconds apart: the first notification then finds
        the second object, and must be tried for longer than the second one is on its way.
        """
        return (0.5, 5.0) if self.is_short else (5.0, 60.0)

    @property
    def kept_s(self) -> float:
        """Age in seconds at which rows may leave."""
        return min(60.0, max(2.0, self.seconds / 6))


@dataclass(kw_only=True)
class Outcome:
    """What was done, seen and found."""

    samples: list[Sample] = field(default_factory=list)
    units: int = 0
    messages: int = 0
    seconds: float = 0.0
    kills: int = 0
    outages: int = 0
    restarts: int = 0
    #: Processes that ended though nobody killed them, with how often; and bad ends at the stop.
    ended: dict[str, int] = field(default_factory=dict)
    #: Process → cores that it took on average.
    cores: dict[str, float] = field(default_factory=dict)
    judgement: dict[str, Any] = field(default_factory=dict)


class Soak:
    """One run in one place."""

    def __init__(self, place: Place, order: Order, tell: Callable[[str], None]) -> None:
        self._place = place
        self._order = order
        self._tell = tell
        self._members = cast(place, order)
        self._watch = Watch()
        self._sent: list[tuple[str, float]] = []
        self._began = 0.0
        #: Seconds of CPU of servers that were restarted.
        self._server_s = 0.0
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Feed and break, let all come to rest, and judge."""
        self._place.set_up()
        feeder = self._members["feeder"]
        try:
            for member in self._members.values():
                member.start()
            hearing = threading.Thread(target=self._hear, args=(feeder,), daemon=True)
            hearing.start()
            self._feed_and_break(feeder)
            hearing.join()
            self._calm()
        finally:
            self._end_all()
        self.outcome.judgement = self._judged()
        return self.outcome

    # --- while it is fed --------------------------------------------------------------------------

    def _feed_and_break(self, feeder: Member) -> None:
        looks_at = broken_from = time.monotonic()
        faults: list[_Fault] = []
        while feeder.lives:
            time.sleep(TICK_S)
            self._keep_alive()
            for fault in faults:
                fault.act()
            if self._began and time.monotonic() >= looks_at:
                looks_at = time.monotonic() + self._order.sample_s
                self._look()
            if self._watch.done and not faults:
                # All have come up: what is broken from now on is in use.
                faults, broken_from = self._faults(), time.monotonic()
            # On a busy machine it takes longer until everything was broken once.
            is_over = time.monotonic() >= broken_from + self._order.seconds
            if is_over and faults and all(fault.times for fault in faults):
                self._place.enough.touch()
        self._place.show_objects(there=True)
        self._look()
        if feeder.process.returncode:
            raise SystemExit(f"the feeder ended with {feeder.process.returncode}")

    def _faults(self) -> list[_Fault]:
        """Return what is broken, each in a rhythm of its own."""
        every = self._order.kill_s
        found = [
            _Fault(every, self._kill_worker),
            _Fault(2 * every, self._take_objects_away),
            # A moment later, so that each outage has its end.
            _Fault(2 * every, self._bring_objects_back, late_s=min(3.0, every / 4)),
        ]
        if self._place.server is not None:
            found.append(_Fault(1.7 * every, self._restart_server))
        return found

    def _kill_worker(self) -> None:
        self._members["killed worker"].kill()
        self.outcome.kills += 1

    def _take_objects_away(self) -> None:
        self._place.show_objects(there=False)
        self.outcome.outages += 1

    def _bring_objects_back(self) -> None:
        self._place.show_objects(there=True)

    def _restart_server(self) -> None:
        assert self._place.server is not None
        self._server_s += cpu_of(self._place.server.pid or 0)
        self._place.server.restart("immediate" if self.outcome.restarts % 2 else "fast")
        self.outcome.restarts += 1

    def _hear(self, feeder: Member) -> None:
        """Note what the feeder tells."""
        assert feeder.process.stdout is not None
        for line in feeder.process.stdout:
            told = json.loads(line)
            self._began = self._began or told["at"]
            self.outcome.seconds = told["at"] - self._began
            self.outcome.units, self.outcome.messages = told["units"], told["messages"]
            if told["watched"]:
                self._sent.append((told["watched"], told["at"]))

    def _look(self) -> None:
        new, self._sent = self._sent, []
        self._watch.under_way.update(new)
        with contextlib.suppress(*_UNREACHABLE):
            sample = take_sample(
                self._place, self._members, self._watch,
                began=self._began, units=self.outcome.units,
            )  # fmt: skip
            self.outcome.samples.append(sample)
            worker = sample.processes.get("worker")
            self._tell(
                f"{sample.at_s:6.0f} s  {sample.units:>9,} units  lag {sample.lag_s:5.1f} s"
                f"  worker {worker.resident / 1e6 if worker else 0:4.0f} MB"
                f"  {sample.waiting:>6,} events wait  {sample.database_bytes / 1e6:6.0f} MB stored"
            )

    # --- afterwards -------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Wait until nothing is left to do."""
        self._note_cores()
        ends_at = time.monotonic() + CALM_S_MAX
        while time.monotonic() < ends_at:
            self._keep_alive()
            with closing(connect(self._place.database_url)) as database:
                busy = database.execute(_BUSY).fetchone()[0]
            if not busy and self._place.queue_is_empty():
                return
            time.sleep(1.0)
        self._tell(f"still busy after {CALM_S_MAX:.0f} s")

    def _judged(self) -> dict[str, Any]:
        folder, model = self._place.folder, self._place.folder / "model.db"
        flags = {"database.url": f"sqlite:///{model}"}
        migrate_database(load_config(environment={}, flags=flags))
        with (
            closing(connect(f"sqlite:///{model}")) as tables,
            closing(sqlite3.connect(folder / "archived.db")) as scratch,
        ):
            return judge_soak(
                self._place.database_url, self._place.queue_contents(),
                folder / "manifests.jsonl", self._place.events, tables, scratch,
            )  # fmt: skip

    def _keep_alive(self) -> None:
        for name, member in self._members.items():
            if name != "feeder":
                member.keep_alive()

    def _note_cores(self) -> None:
        spent = {name: cpu_of(pid) for name, pid in self._place.helpers().items()}
        if "server" in spent:
            spent["server"] += self._server_s
        for sample in self.outcome.samples:
            spent |= {name: each.cpu_s for name, each in sample.processes.items()}
        self.outcome.cores = {
            name: seconds / max(self.outcome.seconds, 1.0) for name, seconds in spent.items()
        }

    def _end_all(self) -> None:
        for name, member in self._members.items():
            code = member.end()
            # What starts while the server is away may end; these were up before that.
            if name in {"worker", "dispatcher"} and (member.ends or code):
                self.outcome.ended[name] = member.ends + bool(code)


class _Fault:
    """Something that is done every so many seconds."""

    def __init__(self, every_s: float, act: Callable[[], None], late_s: float = 0.0) -> None:
        self._every_s = every_s
        self._act = act
        self._due_at = time.monotonic() + every_s + late_s
        self.times = 0

    def act(self) -> None:
        """Do it if its time has come."""
        if time.monotonic() >= self._due_at:
            self._due_at += self._every_s
            self.times += 1
            self._act()
