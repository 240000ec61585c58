"""A target that is down is left alone: its events keep their tries and arrive when it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.outbox.breaker import Admission, Breaker, is_down
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import Delivered
from tallgrass.telemetry import names
from tests.support.backends import Backend, ManualClock, prepare
from tests.support.events import MemorySink, down, event_id, write
from tests.support.outbox_roles import open_dispatcher, open_loop
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.outbox.dispatch_loop import Rest
    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery

LONG_AGO = "2000-01-01T00:00:00.000000Z"
NO_WAIT = DispatchRules(backoff=Backoff(base_s=1e-6, cap_s=1e-6))
PERMANENT = down(code="sink_refused", permanent=True)


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


def open_breaker(time: Time, *, chance: float = 0.0) -> Breaker:
    """Make a breaker whose pauses are the shortest, or as chance says."""
    return Breaker(pause_s_max=300.0, probe_s_max=60.0, monotonic=time, random=lambda: chance)


class TestRule:
    """When a target may be sent to, by time alone."""

    def test_pauses_double_up_to_the_most(self) -> None:
        """At least half of 1, 2, 4 … seconds; never more than the setting says."""
        time = Time()
        breaker = open_breaker(time)
        pauses = [breaker.learn([down()], probe=False).pause_s]
        for _ in range(11):
            time.seconds += 300
            assert breaker.admit() is Admission.ONE
            pauses.append(breaker.learn([down()], probe=True).pause_s)
        assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 150, 150, 150]
        assert open_breaker(time, chance=0.5).learn([down()], probe=False).pause_s == 0.75

    def test_after_a_pause_one_caller_tries_one_event(self) -> None:
        """The others wait for what comes of it; when it arrives, all may go on."""
        time = Time()
        breaker = open_breaker(time)
        assert (breaker.admit(), breaker.is_paused()) == (Admission.ALL, False)
        breaker.learn([down(), down()], probe=False)
        assert (breaker.admit(), breaker.is_paused()) == (Admission.NONE, True)
        time.seconds += 0.5
        assert not breaker.is_paused()
        assert [breaker.admit() for _ in range(3)] == [
            Admission.ONE, Admission.NONE, Admission.NONE,
        ]  # fmt: skip
        assert breaker.learn([Delivered()], probe=True).closed_after_s == 0.5
        assert breaker.admit() is Admission.ALL

    def test_who_tried_and_was_not_heard_of_is_not_waited_for(self) -> None:
        """Another tries after a lease; one that found nothing to try gives way at once."""
        time = Time()
        breaker = open_breaker(time)
        breaker.learn([down()], probe=False)
        time.seconds += 0.5
        assert breaker.admit() is Admission.ONE
        time.seconds += 59
        assert breaker.admit() is Admission.NONE
        time.seconds += 1
        assert breaker.admit() is Admission.ONE
        breaker.learn([], probe=True)
        assert breaker.admit() is Admission.ONE

    @pytest.mark.parametrize(
        "answers",
        [
            [down(), Delivered()],
            [down(), PERMANENT],
            [down(code="sink_misconfigured")],
            [down(code="sink_refused")],
            [down(), down(code="sink_error")],
            [],
        ],
    )
    def test_what_is_not_the_targets_fault_pauses_nothing(self, answers: list[Delivery]) -> None:
        """It answered one, or an event or a setting is wrong: that needs tries, or a person."""
        breaker = open_breaker(Time())
        assert not is_down(answers)
        assert not breaker.learn(answers, probe=False).opened
        assert breaker.admit() is Admission.ALL

    @pytest.mark.parametrize("code", ["sink_unreachable", "sink_timeout", "sink_throttled"])
    def test_what_every_event_would_meet_pauses_the_target(self, code: str) -> None:
        """No connection, no answer in time, too many at once."""
        breaker = open_breaker(Time())
        assert breaker.learn([down(code=code)] * 2, probe=False).opened
        assert breaker.admit() is Admission.NONE

    def test_a_target_that_fails_otherwise_is_not_back(self) -> None:
        """The page of a proxy in maintenance is no delivery: the pauses go on."""
        time = Time()
        breaker = open_breaker(time)
        breaker.learn([down()], probe=False)
        time.seconds += 0.5
        assert breaker.admit() is Admission.ONE
        lesson = breaker.learn([down(code="sink_misconfigured")], probe=True)
        assert lesson.closed_after_s is None
        assert breaker.admit() is Admission.NONE
        time.seconds += 1
        assert breaker.admit() is Admission.ONE
        assert breaker.learn([PERMANENT], probe=True).closed_after_s == 1.5

    def test_a_failure_of_before_prolongs_no_pause(self) -> None:
        """Four senders that fail together are one outage, told once."""
        breaker = open_breaker(Time())
        lessons = [breaker.learn([down()], probe=False) for _ in range(4)]
        assert [each.opened for each in lessons] == [True, False, False, False]
        assert [each.pause_s for each in lessons] == [0.5, 0, 0, 0]

    @pytest.mark.parametrize(
        ("asked", "pause_s"), [(20.0, 20.0), (1e9, 300.0), (0.1, 0.5), (float("nan"), 0.5)]
    )
    def test_a_target_that_asks_for_time_gets_it(self, asked: float, pause_s: float) -> None:
        """Up to the longest pause; one that asks for less gets no less than others."""
        answers = [down(), down(code="sink_throttled", retry_after_s=asked)]
        assert open_breaker(Time()).learn(answers, probe=False).pause_s == pause_s


class Scene:
    """A dispatcher with a breaker over an outbox, where time passes when told."""

    def __init__(self, backend: Backend, **changes: Any) -> None:
        self.backend = backend
        self.time = Time()
        self.clock = ManualClock()
        self.recorder = MemoryRecorder()
        self.sink = MemorySink(batch_max=changes.pop("batch_max", 100))
        self.breaker = open_breaker(self.time)
        self.changes: dict[str, Any] = {
            "rules": NO_WAIT,
            "monotonic": self.time,
            "recorder": self.recorder,
            "breaker": self.breaker,
            **changes,
        }
        self.dispatcher = self.another()

    def another(self) -> Any:
        """Wire one more dispatcher of the target."""
        stores = self.backend.open(clock=self.clock)
        return open_dispatcher(stores, self.sink, **self.changes)

    def run(self, *, after_s: float = 0.0) -> int:
        """Let time pass, make all due that waits, and take a batch; return how many were sent."""
        self.time.seconds += after_s
        self.clock.advance(1)
        self.backend.sql(
            "UPDATE outbox_delivery SET due_at = ? WHERE due_at IS NOT NULL AND claimed_by IS NULL",
            LONG_AGO,
        )
        before = len(self.sink.sent)
        self.dispatcher.run()
        return len(self.sink.sent) - before

    def tries(self) -> list[tuple[Any, ...]]:
        """Return attempts, and tries that count, of each event."""
        return self.backend.sql(
            "SELECT attempt, attempt - budget_from FROM outbox_delivery ORDER BY outbox_id"
        )

    def told(self) -> list[str]:
        """Return what was told of the target."""
        wanted = {names.TARGET_PAUSED, names.TARGET_RESUMED}
        return [name for name, _ in self.recorder.events if name in wanted]


def test_a_target_that_is_down_gets_one_event_now_and_then(backend: Backend) -> None:
    """A batch fails; then nothing, one event, and all the rest when that has arrived."""
    scene = Scene(backend)
    write(backend, 1, 2, 3)
    scene.sink.answers = [down()] * 4
    assert [scene.run(), scene.run(), scene.run()] == [3, 0, 0]
    assert scene.run(after_s=0.5) == 1  # fails
    assert scene.run(after_s=0.5) == 0
    assert scene.run(after_s=0.5) == 1  # arrives
    assert scene.run() == 2
    assert backend.sql("SELECT status, count(*) FROM outbox_delivery GROUP BY status") == [
        ("dispatched", 3)
    ]


@pytest.mark.conformance("OB-4.7")
def test_each_send_counts_also_while_the_target_is_down(backend: Backend) -> None:
    """Five in all, then silence: pauses make an outage cheap, they raise no limit."""
    scene = Scene(backend)
    write(backend, 1)
    scene.sink.answers = [down()] * 100
    assert [scene.run(after_s=300) for _ in range(8)] == [1, 1, 1, 1, 1, 0, 0, 0]
    assert backend.sql("SELECT status, attempt, due_at FROM outbox_delivery") == [
        ("failed", 5, None)
    ]
    assert (
        backend.sql("SELECT outcome, error_code FROM outbox_attempts")
        == [("failed", "sink_unreachable")] * 5
    )


def test_the_rest_of_a_batch_is_given_back_when_sends_are_in_vain(backend: Backend) -> None:
    """After three sends that met nobody the others keep their tries, and are due at once."""
    scene = Scene(backend, batch_max=1, batch_size=8)
    write(backend, *range(1, 9))
    scene.sink.answers = [down()] * 3
    assert scene.run() == 3
    assert scene.tries() == [(1, 1)] * 3 + [(1, 0)] * 5
    assert backend.sql(
        "SELECT outcome, count(*) FROM outbox_attempts GROUP BY outcome ORDER BY outcome"
    ) == [("failed", 3), ("released", 5)]


def test_sends_that_failed_do_not_end_a_batch_of_which_one_arrived(backend: Backend) -> None:
    """A target that takes one event in three is up."""
    scene = Scene(backend, batch_max=1, batch_size=8)
    write(backend, *range(1, 9))
    scene.sink.answers = [down(), Delivered(), down(), down(), down()]
    assert scene.run() == 8
    assert scene.told() == []


def test_an_event_that_fails_alone_does_not_keep_the_others(backend: Backend) -> None:
    """What makes its target fail goes behind those that came meanwhile; they arrive."""
    scene = Scene(backend)
    write(backend, 1)
    send = scene.sink.send

    def allergic(events: list[OutboxEvent]) -> list[Delivery]:
        send(events)
        return [down() if one.outbox_id == event_id(1) else Delivered() for one in events]

    scene.sink.send = allergic  # type: ignore[method-assign, assignment]
    assert [scene.run(), scene.run(after_s=0.5)] == [1, 1]
    write(backend, 2)
    scene.time.seconds += 1
    scene.clock.advance(1)
    # Of the two it is the second that is due now: the first waits for as long as the target.
    assert backend.sql("SELECT count(*) FROM outbox_delivery WHERE due_at < ?", _soon(scene)) == [
        (1,)
    ]
    scene.dispatcher.run()
    assert scene.sink.sent[-1] == event_id(2)
    assert scene.told() == [names.TARGET_PAUSED, names.TARGET_RESUMED]


def _soon(scene: Scene) -> str:
    """Return a time before the one that a failed try of now waits for."""
    (due,) = scene.backend.sql("SELECT max(due_at) FROM outbox_delivery WHERE status = 'failed'")[0]
    return str(due)


def test_a_sink_of_others_that_cannot_connect_shows_a_target_that_is_down(
    backend: Backend,
) -> None:
    """It may simply raise what Python raises."""
    scene = Scene(backend)
    write(backend, 1, 2)
    scene.sink.answers = [ConnectionRefusedError("nobody listens")]
    scene.run()
    assert scene.told() == [names.TARGET_PAUSED]
    assert set(backend.sql("SELECT error_code FROM outbox_delivery")) == {("sink_unreachable",)}
    scene.sink.answers = [TimeoutError("late")]
    scene.run(after_s=0.5)
    assert backend.sql(
        "SELECT count(*) FROM outbox_delivery WHERE error_code = 'sink_timeout'"
    ) == [(1,)]


def test_who_drains_does_not_wait_for_a_target_that_is_down(backend: Backend) -> None:
    """The loop ends, and what is undelivered is there for the next."""
    scene = Scene(backend, batch_size=2)
    write(backend, 1, 2, 3, 4)
    scene.sink.answers = [down()] * 100
    loop = open_loop(scene.dispatcher, recorder=scene.recorder, monotonic=scene.time)
    assert not [rest for rest in loop.steps(DispatchUntil.DRAINED) if rest.s]
    assert (loop.report.batches, loop.report.failed, loop.report.exhausted) == (1, 2, 0)


@pytest.fixture
def light(tmp_path: Path) -> Iterator[Backend]:
    """A database on SQLite: its time is the test's, so an hour can pass in a moment."""
    made = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    yield made
    made.close()


def test_an_hour_without_a_target_costs_few_events_their_tries(light: Backend) -> None:
    """Two loops, events before and meanwhile: what was not tried in vain arrives at the end."""
    count = 40
    scene = Scene(light, rules=DispatchRules(), batch_size=10)
    loops = [
        open_loop(each, recorder=scene.recorder, monotonic=scene.time)
        for each in (scene.dispatcher, scene.another())
    ]
    lanes: list[Iterator[Rest]] = [loop.steps(DispatchUntil.STOPPED) for loop in loops]
    write(light, *range(1, count + 1), created_at=LONG_AGO)
    is_up: list[bool] = []
    tried: list[float] = []
    send = scene.sink.send

    def answer(events: list[OutboxEvent]) -> list[Delivery]:
        if is_up:
            return list(send(events))
        tried.append(scene.time.seconds)
        return [down()] * len(events)

    scene.sink.send = answer  # type: ignore[method-assign, assignment]

    def pass_time(seconds: int) -> None:
        for _ in range(seconds):
            for lane in lanes:
                for rest in lane:
                    if rest.s:
                        break
            scene.time.seconds += 1
            scene.clock.advance(1)

    pass_time(3600)
    write(light, *range(101, 104), created_at=LONG_AGO)
    ((exhausted,),) = light.sql("SELECT count(*) FROM outbox_delivery WHERE due_at IS NULL")
    # Doubling to five minutes: some ten tries in the first ten minutes, then one in 2.5 at least.
    assert 20 <= len(tried) <= 45
    assert exhausted <= len(tried) / 4
    is_up.append(True)
    pass_time(320)
    assert light.sql(
        "SELECT status, count(*) FROM outbox_delivery GROUP BY status ORDER BY status"
    ) == [("dispatched", count + 3 - exhausted), *([("failed", exhausted)] if exhausted else [])]
    assert len(scene.sink.sent) == len(set(scene.sink.sent)) == count + 3 - exhausted
    assert scene.told() == [names.TARGET_PAUSED, names.TARGET_RESUMED]
    fields: dict[str, Any] = {
        name: told for name, told in scene.recorder.events if name.startswith("target_")
    }
    assert fields[names.TARGET_PAUSED] == {
        "target": "t", "error_code": "sink_unreachable", "message": "connection refused",
    }  # fmt: skip
    assert 3590 <= fields[names.TARGET_RESUMED]["paused_s"] <= 3920
