"""One simulated world: a seed decides its feed, its settings and everything that happens in it."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import open_stores
from tallgrass.clock import format_instant, parse_instant
from tallgrass.config import load_config
from tallgrass.errors import TransientError
from tallgrass.governance.switches import SwitchScope
from tallgrass.simulate.feed import Feed, FeedMessage, FeedObject
from tallgrass.simulate.feed_plan import FeedFaults
from tests.oracle.at_any_time import held_too_long, quick_violations
from tests.oracle.deliveries import broken_delivery_promises, quick_delivery_violations
from tests.oracle.promises import broken_promises
from tests.oracle.tables import QueueContents, announced_objects, read_tables
from tests.simulation.actors import Process, no_sleep, seeded_ids
from tests.simulation.backfilling import Lister
from tests.simulation.dispatching import DispatchProcess, SimulatedTarget
from tests.simulation.disturbed import Crashed, EffectOrder, Objects, StoreFaults, disturb
from tests.simulation.draining import Drainer
from tests.simulation.governing import Governor, Reader
from tests.simulation.holding import Warden
from tests.simulation.replaying import Replayer, set_up_people
from tests.simulation.retaining import Retainer
from tests.simulation.running_nodes import NodeUser
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tallgrass.config import Config
    from tests.oracle.tables import Tables
    from tests.simulation.template import Template

FeedStep = FeedObject | FeedMessage

#: Beyond the visibility timeout, until a unit must have left `in_progress`.
SAFETY_WINDOW_S = 60.0
#: Time passes in slices: in each, live workers renew and do not fall asleep over their work.
SLICE_S = 5.0
#: What a feed may suffer from, in larger shares than a real one: worlds are small.
SHARES = {
    "overwritten": 0.3,
    "stale": 0.15,
    "truncated": 0.1,
    "zero_bytes": 0.05,
    "missing": 0.1,
    "late": 0.15,
    "duplicated": 0.2,
    "reordered": 0.2,
    "poison": 0.2,
    "deletions": 0.1,
    "sidecars": 0.1,
    "test_events": 0.05,
    "raw_delivery": 0.3,
    "two_records": 0.3,
}
#: Units of a world: many small ones, where events meet; some larger ones.
SIZES = ((1, 4), (4, 8), (8, 14), (14, 40))
SIZE_WEIGHTS = (60, 30, 8, 2)
#: All promises are worked out again after so many changes; the quick ones after each.
FULL_CHECK_EVERY = 40
_IS_DUE = "SELECT 1 FROM {1} WHERE {0} <= ? LIMIT 1"
_NEXT_DUE = "SELECT min({0}) FROM {1} WHERE {0} > ?"


def overwrites_last(steps: Sequence[FeedStep]) -> list[FeedStep]:
    """Move second writes, and what may announce them, to the end: by then the first are done."""
    written: set[str] = set()
    again: set[str] = set()
    now: list[FeedStep] = []
    later: list[FeedStep] = []
    for step in steps:
        if isinstance(step, FeedObject):
            uri = f"s3://{step.bucket}/{step.key}"
            if uri in written:
                again.add(uri)
            written.add(uri)
            (later if uri in again else now).append(step)
        else:
            (later if announced_objects(step.body) & again else now).append(step)
    return [*now, *later]


class World:
    """Everything there is, on virtual time."""

    def __init__(self, seed: int, template: Template) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.violations: list[str] = []
        self._folder = tempfile.TemporaryDirectory(dir=template.folder)
        self.folder = folder = Path(self._folder.name)
        self.queue_file = folder / "queue.db"
        self._ground = template.ground(seed, folder, self.clock)
        self.ledger, self.messages = self._ground.ledger, self._ground.messages
        self.config = self._settings()
        self.lease_s = 20.0
        self.order = EffectOrder(self.violations)
        self.objects = Objects()
        self.feed = self._feed(seed)
        manifest = self.feed.manifest()
        self.manifest = manifest.to_json()
        self.coming = list(self.feed.steps())
        if self.random.random() < 0.7:
            self.coming = overwrites_last(self.coming)
        self.delayed: list[bytes] = []
        self.sent: list[bytes] = []
        self.uris = [unit.object_uri for unit in manifest.units]
        self.buckets = {uri.split("/")[2] for uri in self.uris}
        self._producer = open_queue(self.config, clock=self.clock, ids=seeded_ids(self.random))
        self._operator = open_stores(
            self.config,
            clock=self.clock,
            ids=seeded_ids(self.random),
            draw=self.random.random,
            sleep=no_sleep,
        )
        self.ann, self.otto = set_up_people(self._operator)
        self.sweep_faults = StoreFaults()
        disturb(self._operator.database, self.sweep_faults)
        self._swept_at = self.clock()
        self._thrown: set[tuple[SwitchScope, str]] = set()
        count = self.random.randint(1, 3)
        self.processes = [Process(self, f"worker-{number + 1}") for number in range(count)]
        self._populate(seed)
        self._seen = 0
        #: The quick promises are judged after so many changes: after each while things go wrong.
        self.check_every = 1
        self.check_every_when_calm = 8
        self._seen_at = self.clock()
        self._changes = 0

    def _populate(self, seed: int) -> None:
        """Let the others in: dispatchers, and operators."""
        # Chance of their own: a world's workers do not depend on who dispatches.
        chance = Random(seed ^ 0xD15)
        self.target = SimulatedTarget(self)
        self.dispatch_batch = chance.choice((1, 3, 10))
        self.ordered = chance.random() < 0.3
        self.dispatchers = [
            DispatchProcess(self, f"dispatcher-{number + 1}", Random(chance.getrandbits(64)))
            for number in range(chance.randint(1, 2))
        ]
        self.replayer = Replayer(self, Random(seed ^ 0x4E9))
        self.retainer = Retainer(self, Random(seed ^ 0x8E7))
        self.lister = Lister(self, Random(seed ^ 0x115))
        self.drainer = Drainer(self, Random(seed ^ 0xD19))
        self.governor = Governor(self, Random(seed ^ 0x60F))
        self.reader = Reader(self, Random(seed ^ 0x4EA))
        self.warden = Warden(self, Random(seed ^ 0x3A2))
        self.nodes = NodeUser(self, Random(seed ^ 0x0DE))

    def _feed(self, seed: int) -> Feed:
        """Choose which faults the feed knows, and how frequent they are."""
        units = self.random.randint(*self.random.choices(SIZES, SIZE_WEIGHTS)[0])
        shares = {
            name: share if self.random.random() < 0.6 else 0.0 for name, share in SHARES.items()
        }
        return Feed(seed, units, FeedFaults(**shares))

    def _settings(self) -> Config:
        receives, attempts = self.random.choice(((5, 8), (5, 8), (3, 5)))
        self.max_attempts = attempts
        self.visibility_s = self.random.choice((40.0, 60.0, 120.0))
        return load_config(
            environment={},
            flags={
                "database.url": self._ground.url,
                "queue.url": f"sqlite:///{self.queue_file}",
                "queue.visibility_s": self.visibility_s,
                "queue.max_receive_count": receives,
                "ledger.max_attempts": attempts,
                "ledger.retry_base_s": 2.0,
                "ledger.retry_cap_s": 20.0,
                "worker.batch": self.random.choice((1, 3, 10, 50)),
                "worker.lease_s": 20.0,
                "replay.batch": self.random.choice((1, 3, 20)),
                "replay.allow_global_scope": True,
            },
        )

    # --- what happens --------------------------------------------------------------------------

    def produce(self, count: int, *, delay: float = 0.0) -> str:
        """Write the next objects and send the next messages; hold some of these back."""
        bodies: list[bytes] = []
        for step in self.coming[:count]:
            match step:
                case FeedObject(bucket=bucket, key=key, content=content):
                    self.objects.put(f"s3://{bucket}/{key}", content)
                case FeedMessage(body=body) if self.random.random() < delay:
                    self.delayed.append(body)
                case FeedMessage(body=body):
                    bodies.append(body)
        del self.coming[:count]
        self.send(bodies)
        return f"sends {len(bodies)} messages"

    def send(self, bodies: list[bytes]) -> None:
        """Send messages."""
        self._producer.send(bodies)
        self.sent += bodies

    def send_delayed(self) -> str:
        """Send what was held back, in any order."""
        self.random.shuffle(self.delayed)
        bodies, self.delayed = self.delayed, []
        self.send(bodies)
        return f"sends {len(bodies)} late messages"

    def send_again(self) -> str:
        """Send a message a second time."""
        if self.sent:
            self.send([self.random.choice(self.sent)])
        return "sends a message again"

    def pass_time(self, seconds: float) -> str:
        """Let time pass; who lives renews, works on, and somebody sweeps."""
        left = seconds
        while left > 0:
            self.clock.advance(min(left, SLICE_S))
            left -= SLICE_S
            for process in self.processes:
                process.beat()
                idle = self.clock() - (process.stepped_at or self.clock())
                if process.is_up and idle >= timedelta(seconds=SLICE_S) and self.is_awake(process):
                    process.step()
            for dispatcher in self.dispatchers:
                if (
                    dispatcher.is_up
                    and dispatcher.wake_at is not None
                    and self.is_awake(dispatcher)
                ):
                    dispatcher.step()
            if self.clock() - self._swept_at >= timedelta(seconds=self.lease_s / 2):
                self.sweep()
        return f"{seconds:.0f} s pass"

    def is_awake(self, process: Process | DispatchProcess) -> bool:
        """Tell whether a process is at work, or wakes and will find some."""
        rests = process.wake_at is not None and process.wake_at > self.clock()
        return not rests and self.would_do_something(process)

    def would_do_something(self, process: Process | DispatchProcess) -> bool:
        """Tell whether a process is at work, or would find some: other looks change nothing."""
        if process.hung:
            return False
        return process.wake_at is None or process.has_to_do or self._has_work(process)

    def _has_work(self, process: Process | DispatchProcess) -> bool:
        now = format_instant(self.clock())
        return any(
            database.execute(query, (now,)).fetchone() is not None
            for database, query in self._schedules(process, _IS_DUE)
        )

    def _schedules(
        self, process: Process | DispatchProcess | None, query: str
    ) -> list[tuple[Any, str]]:
        """Return where something may be due for a process, or for anybody, and how to ask."""
        ours = [
            (self.messages, query.format("visible_at", "deliveries")),
            (self.ledger, query.format("due_at", "wal_records")),
        ]
        theirs = [(self.ledger, query.format("due_at", "outbox_delivery"))]
        if process is None:
            return ours + theirs
        return ours if isinstance(process, Process) else theirs

    def pass_idle_time(self) -> str:
        """Let everybody rest until there may be something to do: nothing happens before."""
        now = self.clock()
        wakes = min(each.wake_at or now for each in self.everybody)
        until = max(wakes, min(self._next_due(), now + timedelta(seconds=SLICE_S)))
        return self.pass_time(max((until - now).total_seconds(), 0.001))

    def _next_due(self) -> datetime:
        """Return when the first thing is due that is not yet; a slice from now if nothing is."""
        now = format_instant(self.clock())
        due = [
            database.execute(query, (now,)).fetchone()[0]
            for database, query in self._schedules(None, _NEXT_DUE)
        ]
        first = min((each for each in due if each is not None), default=None)
        later = self.clock() + timedelta(seconds=SLICE_S)
        return later if first is None else min(parse_instant(first), later)

    def sweep(self) -> str:
        """Recover what lost workers held."""
        try:
            freed = self._operator.leases.recover()
        except (TransientError, Crashed):
            return "fails"
        self._swept_at = self.clock()
        return f"frees {len(freed.units)} units"

    def switch_all_on_again(self) -> None:
        """Turn every switch back that somebody threw."""
        for scope, dataset in sorted(self._thrown):
            self.switch(dataset, on=False, scope=scope)
        self._thrown.clear()

    def switch(self, dataset: str, *, on: bool, scope: SwitchScope = SwitchScope.INGEST) -> str:
        """Throw a kill switch."""
        if on:
            self._thrown.add((scope, dataset))
        try:
            self._operator.switches.set(
                scope, dataset, is_on=on, actor=self.otto, reason="simulated"
            )
        except (TransientError, Crashed):
            return "fails"
        return f"switches {scope.value} of {dataset} {'off' if on else 'on again'}"

    def quarantine(self, wal_id: str) -> None:
        """Hold a unit by an operator's hand."""
        query = "SELECT version FROM wal_records WHERE wal_id = ?"
        version = self.ledger.execute(query, (wal_id,)).fetchone()[0]
        self._operator.interventions.quarantine(
            [(wal_id, version)], reason="simulated", actor=self.otto
        )

    def let_die(self, count: int) -> str:
        """Let messages have been delivered too often: the next receive gives them up."""
        died = self.messages.execute(
            "UPDATE deliveries SET receive_count = 99, delivery_id = coalesce(delivery_id, 'x')"
            " WHERE position IN (SELECT position FROM deliveries ORDER BY position LIMIT ?)",
            (count,),
        ).rowcount
        return f"lets {died} messages die"

    def redrive(self) -> int:
        """Send every dead letter again."""
        bodies = [row[0] for row in self.messages.execute("SELECT body FROM dead_letters")]
        self.messages.execute("DELETE FROM dead_letters")
        self._producer.send(bodies)
        return len(bodies)

    def requeue(self) -> str:
        """Ask for every exhausted event again."""
        pages = self._operator.outbox.requeue_all(
            target=None, error_code=None, actor=self.otto, reason="simulated"
        )
        return f"asks for {sum(len(page) for page in pages)} events again"

    def seal(self) -> None:
        """Chain the audit log."""
        self._operator.audit.seal()

    @property
    def everybody(self) -> list[Process | DispatchProcess]:
        """All processes, workers first."""
        return [*self.processes, *self.dispatchers]

    # --- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        """Judge the world after an event, if anything changed."""
        now = self.clock()
        if now != self._seen_at:
            self._seen_at = now
            oldest = now - timedelta(seconds=self.visibility_s + SAFETY_WINDOW_S)
            self.violations += held_too_long(self.ledger, format_instant(oldest))
        seen = self._ground.changes()
        if seen == self._seen:
            return
        self._seen = seen
        self._changes += 1
        if self._changes % self.check_every:
            return
        self.violations += quick_violations(self.ledger)
        self.violations += quick_delivery_violations(self.ledger)
        if self._changes % FULL_CHECK_EVERY == 0:
            tables = read_tables(self.ledger)
            self.violations += broken_promises(tables)
            self.violations += broken_delivery_promises(tables, self.target.sends)

    def has_runs(self) -> bool:
        """Tell whether anybody replayed or drained."""
        return self.ledger.execute("SELECT 1 FROM replay_runs").fetchone() is not None

    def queue_contents(self) -> QueueContents:
        """Return what the queue holds."""
        return QueueContents(
            waiting=[row[0] for row in self.messages.execute("SELECT body FROM messages")],
            dead=[row[0] for row in self.messages.execute("SELECT body FROM dead_letters")],
        )

    def check_deliveries(self, tables: Tables) -> None:
        """Judge at the end what the target got."""
        self.violations += broken_delivery_promises(tables, self.target.sends, at_the_end=True)

    def due_objects(self) -> list[str]:
        """Return the objects that the ledger itself will run."""
        rows = self.ledger.execute("SELECT object_uri FROM wal_records WHERE due_at IS NOT NULL")
        return sorted(row[0] for row in rows)

    def statuses(self) -> dict[str, str]:
        """Return what state each unit is in, for the history."""
        rows = self.ledger.execute(
            "SELECT object_uri, status, attempts FROM wal_records ORDER BY 1"
        )
        return {uri.rpartition("/")[2]: f"{status} ({attempts})" for uri, status, attempts in rows}

    def is_quiet(self) -> bool:
        """Tell whether nothing waits, is due or is worked on."""
        waiting = self.messages.execute("SELECT count(*) FROM messages").fetchone()[0]
        return (
            not waiting
            and not self.ledger.execute(
                "SELECT (SELECT count(*) FROM wal_records WHERE due_at IS NOT NULL"
                " OR status IN ('pending', 'in_progress'))"
                " + (SELECT count(*) FROM wal_attempts WHERE status = 'pending')"
                " + (SELECT count(*) FROM outbox_delivery WHERE due_at IS NOT NULL AND NOT ?)",
                (self.is_held_back(),),
            ).fetchone()[0]
        )

    def is_held_back(self) -> bool:
        """Tell whether all that is due stands behind an exhausted event, on a target with order."""
        return (
            self.ordered
            and not self.ledger.execute(
                "SELECT count(*) FROM outbox_delivery AS d WHERE d.due_at IS NOT NULL"
                " AND NOT EXISTS (SELECT 1 FROM outbox_delivery AS x"
                " WHERE x.dataset_id = d.dataset_id"
                " AND x.written < d.written AND x.status = 'failed' AND x.due_at IS NULL)"
            ).fetchone()[0]
        )

    def close(self) -> None:
        """Leave nothing behind."""
        for process in self.processes:
            process.close()
        for dispatcher in self.dispatchers:
            dispatcher.close()
        self.replayer.close()
        self.retainer.close()
        self.lister.close()
        self.drainer.close()
        self.governor.close()
        self.reader.close()
        self.warden.close()
        self._producer.close()
        self._operator.close()
        self._ground.leave()
        self._folder.cleanup()
