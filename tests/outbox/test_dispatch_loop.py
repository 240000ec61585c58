"""Rounds of a dispatcher: it rests, is woken, drains, and outlives a database that is away."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from tallgrass.errors import CommitUnknown, DatabaseUnreachable, DatabaseUnusable
from tallgrass.outbox.dispatch_loop import POLL_S, DispatchReport, DispatchUntil, Rest
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.outbox.dispatch_threads import DispatchThreads, Lane
from tallgrass.sinks.protocol import Delivered
from tallgrass.storage.outbox_listen import PostgresWake
from tallgrass.storage.outbox_wake import SqliteWake
from tallgrass.telemetry import names
from tests.support.events import MemorySink, down, event_id, write
from tests.support.outbox_roles import open_dispatcher, open_loop
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallgrass.outbox.dispatch_loop import DispatchLoop
    from tests.plugins.postgres_server import PostgresServer
    from tests.support.backends import Backend

#: Longer than any busy machine needs; only a test that fails waits for it.
SOON_S = 60


class FailingStore:
    """An outbox that fails as it is told, then works again."""

    def __init__(self, store: Any) -> None:
        self._store = store
        #: By verb: what the next calls raise, and whether before or after the work is done.
        self.failures: dict[str, list[tuple[Exception, bool]]] = {}
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(verb)
            waiting = self.failures.get(verb, [])
            error, done = waiting.pop(0) if waiting else (None, True)
            result = getattr(self._store, verb)(*arguments, **options) if done else None
            if error is not None:
                raise error
            return result

        return call


class Scene:
    """A loop over an outbox that can fail."""

    def __init__(self, backend: Backend, **changes: Any) -> None:
        self.stores = backend.open()
        self.store = FailingStore(self.stores.outbox)
        self.sink = MemorySink()
        self.recorder = MemoryRecorder()
        rate = changes.pop("rate", None)
        dispatcher = open_dispatcher(self.stores, self.sink, **changes)
        dispatcher._store = self.store
        self.loop: DispatchLoop = open_loop(dispatcher, recorder=self.recorder, rate=rate)

    def fail(self, verb: str, *errors: Exception, done: bool = False) -> None:
        """Let the next calls of a verb fail, before or after their work."""
        self.store.failures.setdefault(verb, []).extend((error, done) for error in errors)

    def drain(self) -> list[float]:
        """Run until nothing is due; return the rests that were asked for."""
        return [rest.s for rest in self.loop.steps(DispatchUntil.DRAINED) if rest.s]


def test_a_loop_ends_as_it_is_told(backend: Backend) -> None:
    """Once: after one batch. Drained: when nothing is due. Stopped: before the next round."""
    scene = Scene(backend, batch_size=2)
    write(backend, *range(1, 8))
    list(scene.loop.steps(DispatchUntil.ONCE))
    assert len(scene.sink.sent) == 2
    list(scene.loop.steps(DispatchUntil.STOPPED, lambda: len(scene.sink.sent) >= 4))
    assert len(scene.sink.sent) == 4
    scene.drain()
    assert scene.sink.sent == [event_id(number) for number in range(1, 8)]
    assert scene.loop.report == DispatchReport(batches=4, dispatched=7)


def test_an_idle_loop_looks_every_second_by_reading_only(backend: Backend) -> None:
    """Nothing to do costs writers nothing; what comes is found at the next look."""
    scene = Scene(backend)
    steps = scene.loop.steps(DispatchUntil.STOPPED)
    assert [next(steps) for _ in range(4)] == [Rest(s=POLL_S, until_woken=True)] * 4
    assert scene.store.calls == ["claim", "is_due", "is_due", "is_due"]
    write(backend, 1)
    assert next(steps) == Rest(s=0.0)
    assert scene.store.calls[4:] == ["is_due", "claim"]


@pytest.mark.conformance("OB-1.1")
def test_results_outlive_a_database_that_is_away(backend: Backend) -> None:
    """What was sent is not sent again: the results are kept until they can be written."""
    scene = Scene(backend)
    write(backend, 1, 2)
    scene.fail("settle", *[DatabaseUnreachable("gone")] * 6)
    rests = scene.drain()
    assert len(rests) == 6
    assert all(0 <= rest <= 5 for rest in rests)
    assert scene.sink.sent == [event_id(1), event_id(2)]
    assert backend.sql("SELECT status, attempt FROM outbox_delivery") == [("dispatched", 1)] * 2
    told = [name for name, _ in scene.recorder.events]
    assert told == [names.STORE_WAITED_FOR]


def test_a_claim_whose_answer_was_lost_is_given_back(backend: Backend) -> None:
    """The events of a claim that nobody knows of are due at once, not after a lease."""
    scene = Scene(backend)
    write(backend, 1)
    scene.fail("claim", CommitUnknown("broke during COMMIT"), done=True)
    scene.drain()
    assert scene.sink.sent == [event_id(1)]
    assert scene.store.calls.count("abandon") == 1
    assert backend.sql("SELECT attempt, outcome FROM outbox_attempts ORDER BY attempt") == [
        (1, "released"),
        (2, "dispatched"),
    ]


def test_a_commit_that_was_lost_on_its_way_back_counts_once(backend: Backend) -> None:
    """If the results are in the database, they are not written a second time, nor told as lost."""
    scene = Scene(backend)
    write(backend, 1, 2)
    scene.sink.answers = [Delivered(), down(permanent=True)]
    scene.fail("settle", CommitUnknown("broke during COMMIT"), done=True)
    scene.drain()
    assert scene.sink.sent == [event_id(1), event_id(2)]
    written = backend.sql("SELECT attempt, outcome FROM outbox_attempts ORDER BY outbox_id")
    assert written == [(1, "dispatched"), (1, "failed")]
    assert scene.loop.report == DispatchReport(batches=1, dispatched=1, failed=1, exhausted=1)
    assert names.DELIVERIES_LOST not in [name for name, _ in scene.recorder.events]


def test_who_is_told_to_stop_while_the_database_is_away_ends(backend: Backend) -> None:
    """After a few tries the lease must do it; the error says why."""
    scene = Scene(backend)
    write(backend, 1)
    scene.fail("settle", *[DatabaseUnreachable("gone")] * 50)
    stop: list[bool] = []
    steps = scene.loop.steps(DispatchUntil.STOPPED, lambda: bool(stop))
    next(steps)
    stop.append(True)
    rests = [rest.s for rest in steps if rest.s]
    assert len(rests) <= 6
    assert backend.sql("SELECT status, attempt FROM outbox_delivery") == [("pending", 1)]


def test_a_rate_is_kept(backend: Backend) -> None:
    """After a batch the loop rests as long as its events may take."""
    now = time.monotonic()
    scene = Scene(backend, batch_size=5, rate=10.0, monotonic=lambda: now)
    scene.loop._monotonic = lambda: now
    write(backend, *range(1, 9))
    assert [rest for rest in scene.drain() if rest] == pytest.approx([0.5, 0.3])


def test_what_fails_is_tried_again_by_the_same_loop(backend: Backend) -> None:
    """A failure without a wait is due in the next round; the report counts each send."""
    rules = DispatchRules(attempts_max=3)
    scene = Scene(backend, rules=rules, random=lambda: 0.0)
    write(backend, 1, 2)
    scene.sink.answers = [down()] * 5
    scene.drain()
    assert scene.loop.report == DispatchReport(batches=3, dispatched=1, failed=5, exhausted=1)


@pytest.mark.parametrize("until", [DispatchUntil.DRAINED, DispatchUntil.ONCE])
def test_a_batch_that_was_only_given_up_ends_no_loop(
    backend: Backend, until: DispatchUntil
) -> None:
    """Events at their limit stand first in the queue: those behind them are still sent."""
    lost = open_dispatcher(backend.open(), MemorySink(), rules=DispatchRules(lease_s=0.0))
    write(backend, 1, 2)
    assert len(lost.claim().claims) == 2
    write(backend, 3)
    scene = Scene(
        backend, rules=DispatchRules(attempts_max=1), batch_size=2, recorder=MemoryRecorder()
    )
    backend.sql(
        "UPDATE outbox_delivery SET due_at = ? WHERE attempt = 1", "2000-01-01T00:00:00.000000Z"
    )
    list(scene.loop.steps(until))
    assert scene.sink.sent == [event_id(3)]
    assert scene.loop.report == DispatchReport(batches=2, dispatched=1, exhausted=2)


def test_what_a_claim_gives_up_is_told(backend: Backend) -> None:
    """An event that is given up without a send is told of like one that failed for good."""
    stores = backend.open()
    rules = DispatchRules(attempts_max=1, lease_s=0.0)
    write(backend, 1)
    open_dispatcher(stores, MemorySink(), rules=rules).claim()
    recorder = MemoryRecorder()
    open_dispatcher(stores, MemorySink(), rules=rules, recorder=recorder).claim()
    ((name, told),) = recorder.events
    assert name == names.EVENT_EXHAUSTED
    assert (told["outbox_id"], told["error_code"]) == (event_id(1), "dispatcher_lost")


# --- threads --------------------------------------------------------------------------------------


class Threads:
    """Lanes on threads, beside the test."""

    def __init__(self, backend: Backend, sink: Any, lanes: int = 1) -> None:
        self._stop = threading.Event()
        self.report: DispatchReport | None = None
        wake = SqliteWake(backend.path) if backend.name == "sqlite" else PostgresWake(backend.url)
        made = [
            Lane(loop=open_loop(open_dispatcher(stores, sink)), close=stores.close)
            for stores in [backend.open() for _ in range(lanes)]
        ]
        self.threads = DispatchThreads(made, wake)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self.report = self.threads.run(DispatchUntil.STOPPED, self._stop.is_set)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    ends_at = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.01)


def test_events_written_while_it_runs_are_delivered(backend: Backend) -> None:
    """Two lanes take what comes, each event once; at the end they report."""
    sink = MemorySink()
    with Threads(backend, sink, lanes=2) as running:
        for number in range(1, 6):
            write(backend, number)
            wait_for(lambda: len(sink.sent) == number)  # noqa: B023 - called within the loop
    assert sorted(sink.sent) == [event_id(number) for number in range(1, 6)]
    assert running.report is not None
    assert running.report.dispatched == 5


def test_a_writer_wakes_a_dispatcher(backend: Backend) -> None:
    """The wake-up comes by the database itself, and only after somebody wrote."""
    wake = SqliteWake(backend.path) if backend.name == "sqlite" else PostgresWake(backend.url)
    try:
        assert not wake.wait(0.3)
        write(backend, 1)
        write(backend, 2)
        wait_for(lambda: wake.wait(0.5))
        wait_for(lambda: not wake.wait(0.2))
    finally:
        wake.close()


def test_a_wake_without_a_database_only_waits(tmp_path: Any) -> None:
    """Whoever polls anyway needs no error for it."""
    light = SqliteWake(tmp_path / "nowhere" / "ledger.db")
    heavy = PostgresWake(f"postgresql://nobody@/nothing?host={tmp_path}", sleep=lambda _s: None)
    for wake in (light, heavy):
        assert not wake.wait(0.1)
        wake.close()


def test_a_lane_that_cannot_go_on_ends_all(backend: Backend) -> None:
    """A fault that will not pass is raised, and nobody is left running."""
    sink = MemorySink()
    loops = [Scene(backend) for _ in range(2)]
    for scene in loops:
        scene.fail("claim", DatabaseUnusable("no rights"))
    lanes = [Lane(loop=scene.loop, close=scene.stores.close) for scene in loops]
    wake = SqliteWake(backend.path) if backend.name == "sqlite" else PostgresWake(backend.url)
    with pytest.raises(DatabaseUnusable):
        DispatchThreads(lanes, wake).run(DispatchUntil.STOPPED, lambda: False)
    assert not sink.sent


def test_a_system_out_of_threads_leaves_no_lane_alone(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the last lane cannot start, those before it end, and whoever asked is told."""
    scenes = [Scene(backend) for _ in range(2)]
    lanes = [Lane(loop=scene.loop, close=scene.stores.close) for scene in scenes]
    wake = SqliteWake(backend.path) if backend.name == "sqlite" else PostgresWake(backend.url)
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "tallgrass-dispatch-1":
            message = "can't start new thread"
            raise RuntimeError(message)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="new thread"):
        DispatchThreads(lanes, wake).run(DispatchUntil.STOPPED, lambda: False)
    ours = ("tallgrass-dispatch-", "tallgrass-wake")
    assert not [each for each in threading.enumerate() if each.name.startswith(ours)]
    scenes[1].stores.close()


class Alarm:
    """A wake that never rests: somebody writes all the time."""

    def __init__(self) -> None:
        self.calls = 0

    def wait(self, timeout_s: float) -> bool:
        """Tell that something was written."""
        self.calls += 1
        time.sleep(min(timeout_s, 0.001))
        return True

    def close(self) -> None:
        """Nothing to close."""


def test_news_does_not_cut_the_pause_of_a_rate(backend: Backend) -> None:
    """However many events are announced, a target gets no more of them a second than it said."""
    scene = Scene(backend, batch_size=1, rate=10.0)
    write(backend, *range(1, 5))
    lanes = [Lane(loop=scene.loop, close=scene.stores.close)]
    began = time.monotonic()
    DispatchThreads(lanes, Alarm()).run(DispatchUntil.STOPPED, lambda: len(scene.sink.sent) == 4)
    assert time.monotonic() - began >= 0.29


def test_news_does_not_cut_the_rest_of_a_database_that_is_down(backend: Backend) -> None:
    """Who writes elsewhere does not make a dispatcher hammer at a database that is coming up."""
    scene = Scene(backend)
    scene.loop._random = lambda: 0.99
    scene.fail("claim", *[DatabaseUnreachable("gone")] * 3)
    write(backend, 1)
    lanes = [Lane(loop=scene.loop, close=scene.stores.close)]
    began = time.monotonic()
    DispatchThreads(lanes, Alarm()).run(DispatchUntil.STOPPED, lambda: len(scene.sink.sent) == 1)
    # 0.2, 0.4 and 0.8 s, each almost whole.
    assert time.monotonic() - began >= 1.38


def test_a_stop_cuts_every_rest(backend: Backend) -> None:
    """A pause of hours keeps nobody from ending."""
    scene = Scene(backend, batch_size=1, rate=0.0001)
    write(backend, 1, 2)
    lanes = [Lane(loop=scene.loop, close=scene.stores.close)]
    DispatchThreads(lanes, Alarm()).run(
        DispatchUntil.STOPPED, lambda: scene.loop.report.dispatched == 1
    )
    assert scene.sink.sent == [event_id(1)]


@pytest.fixture
def restarted(own_postgres: PostgresServer) -> Iterator[tuple[Backend, PostgresServer]]:
    """A database on a server that the test may restart."""
    from tests.support.backends import prepare  # noqa: PLC0415

    backend = prepare("postgres", own_postgres.url)
    yield backend, own_postgres
    backend.close()


@pytest.mark.slow
@pytest.mark.conformance("OB-4.2")
def test_a_restart_of_the_database_costs_no_event_and_no_second_send(
    restarted: tuple[Backend, PostgresServer],
) -> None:
    """The server is restarted while events are on their way; each arrives once."""
    backend, server = restarted
    sink = MemorySink()
    gate = threading.Event()
    send = sink.send

    def waiting(events: Any) -> Any:
        gate.wait(SOON_S)
        return send(events)

    sink.send = waiting  # type: ignore[method-assign]
    write(backend, *range(1, 201))
    with Threads(backend, sink, lanes=2) as running:
        wait_for(lambda: backend.sql("SELECT count(claimed_by) FROM outbox_delivery")[0][0] == 200)
        server.restart("immediate")
        gate.set()
        write(backend, *range(201, 251))
        wait_for(lambda: len(sink.sent) >= 250)
    assert sorted(sink.sent) == sorted(map(event_id, range(1, 251)))
    assert running.report is not None
    assert (running.report.dispatched, running.report.lost) == (250, 0)
    assert backend.sql("SELECT status, attempt, count(*) FROM outbox_delivery GROUP BY 1, 2") == [
        ("dispatched", 1, 250)
    ]
