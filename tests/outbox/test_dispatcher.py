"""The dispatcher on both databases: each event sent, retried, given up or given back as it must."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import Delivered
from tallgrass.sinks.registry import open_sink
from tallgrass.sinks.resources import SinkResources
from tallgrass.telemetry import names
from tests.sinks.receiver import PATIENCE_S, Receiver
from tests.support.backends import Backend, ManualClock
from tests.support.events import MemorySink, down, event_id, payload_of, write
from tests.support.outbox_roles import open_dispatcher
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallgrass.outbox.dispatcher import Dispatcher
    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery

NO_WAIT = DispatchRules(backoff=Backoff(base_s=1e-6, cap_s=1e-6))


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


class Scene:
    """One dispatcher of one target in memory."""

    def __init__(self, backend: Backend, **changes: Any) -> None:
        self.backend = backend
        self.clock = ManualClock()
        self.sink = MemorySink(batch_max=changes.pop("batch_max", 100))
        self.time = Time()
        self.recorder = MemoryRecorder()
        self.stores = backend.open(clock=self.clock)
        values: dict[str, Any] = {
            "rules": NO_WAIT,
            "monotonic": self.time,
            "recorder": self.recorder,
            **changes,
        }
        self.dispatcher: Dispatcher = open_dispatcher(self.stores, self.sink, **values)

    def run(self, times: int = 1) -> None:
        """Take so many batches; a moment passes before each."""
        for _ in range(times):
            self.clock.advance(1)
            self.dispatcher.run()

    def statuses(self) -> list[tuple[Any, ...]]:
        """Return status and attempt of each event, by raw SQL."""
        return self.backend.sql("SELECT status, attempt FROM outbox_delivery ORDER BY outbox_id")

    def attempts(self) -> list[tuple[Any, ...]]:
        """Return how each attempt ended, by raw SQL."""
        return self.backend.sql(
            "SELECT attempt, outcome, error_code FROM outbox_attempts ORDER BY outbox_id, attempt"
        )


@pytest.mark.conformance("OB-2.4", "OB-4.4")
def test_each_event_is_sent_once_as_it_was_written(backend: Backend) -> None:
    """The sink gets the stored bytes; afterwards nothing is left to send."""
    scene = Scene(backend)
    write(backend, 1, 2, 3)
    scene.run(3)
    assert scene.sink.sent == [event_id(1), event_id(2), event_id(3)]
    assert [event.payload for event in scene.sink.events] == [payload_of(n) for n in (1, 2, 3)]
    assert scene.statuses() == [("dispatched", 1)] * 3


@pytest.mark.conformance("OB-4.7", "OB-4.8", "C-30", "OB-2.6")
def test_a_target_that_is_down_gets_exactly_five_sends_then_silence(backend: Backend) -> None:
    """Failed, retried, failed again; after the fifth send nobody comes any more."""
    scene = Scene(backend)
    write(backend, 1)
    scene.sink.answers = [down()] * 100
    scene.run(20)
    assert scene.sink.sent == [event_id(1)] * 5
    assert [event.attempt for event in scene.sink.events] == [1, 2, 3, 4, 5]
    assert scene.statuses() == [("failed", 5)]
    assert scene.attempts() == [(n, "failed", "sink_unreachable") for n in range(1, 6)]
    assert backend.sql("SELECT due_at FROM outbox_delivery") == [(None,)]


def test_after_a_requeue_there_are_five_sends_more(backend: Backend) -> None:
    """The budget begins anew; the count of attempts goes on."""
    scene = Scene(backend)
    write(backend, 1)
    scene.sink.answers = [down()] * 100
    scene.run(10)
    scene.stores.outbox.requeue([event_id(1)], actor="ann", reason="mended")
    scene.run(10)
    assert [event.attempt for event in scene.sink.events] == list(range(1, 11))


@pytest.mark.conformance("OB-4.11", "OB-1.0")
def test_every_resend_has_the_same_key(backend: Backend) -> None:
    """A consumer that remembers keys ends in one state after one to five deliveries of each."""
    scene = Scene(backend)
    write(backend, *range(1, 6))
    # The target takes each event and its answer is lost: event n comes n times.
    by_id: dict[str, int] = {}

    class Forgetful(MemorySink):
        def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
            super().send(events)
            given: list[Delivery] = []
            for event in events:
                by_id[event.outbox_id] = by_id.get(event.outbox_id, 0) + 1
                number = json.loads(event.payload)["number"]
                given.append(Delivered() if by_id[event.outbox_id] == number else down())
            return given

    sink = Forgetful()
    scene.dispatcher = open_dispatcher(scene.stores, sink, rules=NO_WAIT)
    scene.run(10)
    assert by_id == {event_id(number): number for number in range(1, 6)}
    handled: set[str] = set()
    total = 0
    for event in sink.events:
        if event.idempotency_key not in handled:
            handled.add(event.idempotency_key)
            total += json.loads(event.payload)["number"]
    assert (len(sink.events), total) == (15, 15)
    assert scene.statuses() == [("dispatched", number) for number in range(1, 6)]


@pytest.mark.conformance("OB-4.5")
def test_a_sink_that_raises_has_delivered_nothing(backend: Backend) -> None:
    """Whatever it raises, its events are tried again, and those of other pieces go on."""
    scene = Scene(backend, batch_max=2)
    write(backend, 1, 2, 3, 4)
    scene.sink.answers = [Delivered(), RuntimeError("token=abc123456789 broke")]
    scene.run()
    assert scene.statuses() == [("failed", 1), ("failed", 1), ("dispatched", 1), ("dispatched", 1)]
    (error,) = set(backend.sql("SELECT last_error FROM outbox_delivery WHERE status = 'failed'"))
    assert "RuntimeError" in error[0]
    assert "abc123456789" not in error[0]
    scene.run()
    assert scene.statuses()[:2] == [("dispatched", 2)] * 2


def test_a_sink_that_answers_for_too_few_has_delivered_nothing(backend: Backend) -> None:
    """Nobody can tell which events the answers are of."""
    scene = Scene(backend)
    write(backend, 1, 2)

    class Short(MemorySink):
        def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
            return super().send(events)[:1]

    scene.dispatcher = open_dispatcher(scene.stores, Short(), rules=NO_WAIT)
    scene.run()
    assert scene.attempts() == [(1, "failed", "sink_error")] * 2


class Wild:
    """A sink that answers as nobody should."""

    batch_max = 100

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self._answer = answer

    def send(self, events: Sequence[OutboxEvent]) -> Any:
        """Answer, or not."""
        return self._answer(len(events))

    def close(self) -> None:
        """Nothing is open."""


def _leave(_: int) -> None:
    raise SystemExit(3)


class SpeechlessError(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("closed")


def _raise_speechless(_: int) -> None:
    raise SpeechlessError


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: None, "answered NoneType"),
        (lambda _: 7, "answered int"),
        (lambda count: ["ok"] * count, "but str"),
        (lambda count: "o" * count, "but str"),
        (lambda _: itertools.repeat(Delivered()), "more than 2 times for 2 events"),
        (lambda count: (1 // 0 for _ in range(count)), "ZeroDivisionError"),
        (lambda count: [down(retry_after_s="soon")] * count, "but Undelivered"),
        (lambda count: [down(message=None)] * count, "but Undelivered"),
        (lambda count: [Delivered(duplicate=None)] * count, "but Delivered"),  # type: ignore[arg-type]
        (_leave, "SystemExit: 3"),
        (_raise_speechless, "SpeechlessError"),
    ],
)
def test_a_sink_that_answers_nonsense_has_delivered_nothing(
    backend: Backend, answer: Callable[[int], Any], said: str
) -> None:
    """It fails like a target that is down, and the dispatcher of no other target with it."""
    scene = Scene(backend)
    write(backend, 1, 2)
    scene.dispatcher = open_dispatcher(scene.stores, Wild(answer), rules=NO_WAIT)
    scene.run()
    assert scene.attempts() == [(1, "failed", "sink_error")] * 2
    assert said in backend.sql("SELECT last_error FROM outbox_delivery")[0][0]


def test_answers_may_come_one_by_one(backend: Backend) -> None:
    """A generator is a list that is not made yet; one answer of the wrong type spoils no other."""
    scene = Scene(backend)
    write(backend, 1, 2)
    wild = Wild(lambda _: (each for each in (Delivered(), 200)))
    scene.dispatcher = open_dispatcher(scene.stores, wild, rules=NO_WAIT)
    scene.run()
    assert scene.statuses() == [("dispatched", 1), ("failed", 1)]


@pytest.mark.conformance("OB-4.5")
@pytest.mark.parametrize("status", [429, 503])
def test_a_target_that_asks_for_a_pause_gets_it(backend: Backend, status: int) -> None:
    """From the header of a real answer to the time at which the event is due again."""
    with Receiver((status, {"Retry-After": "120"}, b"")) as receiver:
        scene = Scene(backend)
        write(backend, 1)
        sink = open_sink(
            "webhook",
            {
                "url": receiver.url,
                "secret_env": "SECRET",
                "allow_addresses": ["127.0.0.0/8"],
                "timeout_s": PATIENCE_S,
            },
            SinkResources(environment={"SECRET": "whsec_" + "QUJD" * 10}),
        )
        scene.dispatcher = open_dispatcher(scene.stores, sink, rules=NO_WAIT)
        scene.run()
        (ended,) = backend.sql("SELECT ended_at FROM outbox_attempts")[0]
        (due,) = backend.sql("SELECT due_at FROM outbox_delivery")[0]
        assert scene.statuses() == [("failed", 1)]
        # The jitter of these rules is a millionth of a second.
        assert _seconds(due, ended) == pytest.approx(120, abs=1e-3)
        scene.run()
        assert len(receiver.requests) == 1
        sink.close()


def test_a_permanent_refusal_is_sent_once(backend: Backend) -> None:
    """Its neighbours in the batch are delivered."""
    scene = Scene(backend)
    write(backend, 1, 2)
    scene.sink.answers = [down(code="sink_refused", permanent=True)]
    scene.run(5)
    assert scene.sink.sent == [event_id(1), event_id(2)]
    assert scene.statuses() == [("failed", 1), ("dispatched", 1)]


def test_no_send_is_larger_than_the_sink_takes(backend: Backend) -> None:
    """A batch is cut into pieces, in order."""
    scene = Scene(backend, batch_max=3)
    write(backend, *range(1, 9))
    scene.run()
    assert scene.sink.sizes == [3, 3, 2]
    assert scene.statuses() == [("dispatched", 1)] * 8


def test_what_there_is_no_time_for_is_given_back(backend: Backend) -> None:
    """A slow sink must not hold events past their lease; next time fewer are claimed."""
    scene = Scene(backend, batch_max=1, batch_size=4, rules=DispatchRules(lease_s=60.0))
    write(backend, *range(1, 9))
    send = scene.sink.send

    def slowly(events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        scene.time.seconds += 10
        return send(events)

    scene.sink.send = slowly  # type: ignore[method-assign]
    scene.run()
    # 10 and 20 of 60 seconds are gone: a third send would begin after a quarter of the lease.
    assert scene.sink.sent == [event_id(1), event_id(2)]
    assert scene.attempts()[2:] == [(1, "released", None)] * 2
    scene.run()
    assert len(scene.sink.sent) == 4
    assert backend.sql("SELECT count(*) FROM outbox_attempts WHERE outcome = 'released'") == [(2,)]
    scene.sink.send = send  # type: ignore[method-assign]
    scene.run(9)
    assert sorted(scene.sink.sent) == sorted(map(event_id, range(1, 9)))


def test_a_wish_to_stop_is_heard_between_two_sends(backend: Backend) -> None:
    """What is under way is finished; the rest goes back at once and costs no try."""
    asked: list[bool] = []
    scene = Scene(backend, batch_max=1, stop=lambda: bool(asked))
    write(backend, 1, 2, 3)
    send = scene.sink.send

    def last(events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        asked.append(True)
        return send(events)

    scene.sink.send = last  # type: ignore[method-assign]
    scene.run()
    assert scene.sink.sent == [event_id(1)]
    assert scene.attempts() == [
        (1, "dispatched", None),
        (1, "released", None),
        (1, "released", None),
    ]
    other = Scene(backend)
    other.clock.advance(5)
    other.run()
    assert other.sink.sent == [event_id(2), event_id(3)]


def test_who_was_away_past_its_lease_sends_nothing(backend: Backend) -> None:
    """A process that stood still between claim and send gives back instead: others have them."""
    scene = Scene(backend, rules=DispatchRules(lease_s=60.0))
    write(backend, 1)
    batch = scene.dispatcher.claim()
    scene.time.seconds += 100
    scene.dispatcher.send(batch)
    assert scene.sink.sent == []
    scene.dispatcher.settle(batch)
    assert scene.attempts() == [(1, "released", None)]


@pytest.mark.conformance("OB-4.9")
def test_a_second_look_at_the_same_events_sends_nothing_twice(backend: Backend) -> None:
    """Two dispatchers that look at one outbox in turn, at any phase, send each event once."""
    first = Scene(backend)
    second = Scene(backend)
    write(backend, *range(1, 7))
    first.dispatcher._batch_size = first.dispatcher._limit = 3
    one = first.dispatcher.claim()
    two = second.dispatcher.claim()
    assert second.dispatcher.claim().is_empty
    first.dispatcher.send(one)
    assert first.dispatcher.claim().is_empty
    second.dispatcher.send(two)
    first.dispatcher.settle(one)
    second.dispatcher.settle(two)
    assert first.dispatcher.claim().is_empty
    assert sorted(first.sink.sent + second.sink.sent) == [event_id(n) for n in range(1, 7)]


@pytest.mark.conformance("OB-7.1")
def test_deliveries_are_reported(backend: Backend) -> None:
    """Counts by target, event and outcome, the latency by the database's clock, and each error."""
    scene = Scene(backend)
    write(backend, 1, 2, 3)
    scene.sink.answers = [
        Delivered(duplicate=True),
        down(message="secret=abcdefgh1234"),
        down(permanent=True, code="sink_refused"),
    ]
    scene.run()
    counted = scene.recorder.by_labels(names.OUTBOX_DISPATCHES)
    assert counted == {("t", "made", "success"): 1, ("t", "made", "failure"): 2}
    assert scene.recorder.total(names.OUTBOX_DUPLICATES, target="t") == 1
    (latency,) = scene.recorder.observed(names.OUTBOX_LATENCY)
    ended = backend.sql(
        "SELECT a.ended_at, e.created_at FROM outbox_attempts AS a JOIN outbox AS e"
        " ON e.outbox_id = a.outbox_id WHERE a.outcome = 'dispatched'"
    )[0]
    assert latency == pytest.approx(_seconds(*ended), abs=1e-3)
    told = [(name, fields["outbox_id"]) for name, fields in scene.recorder.events]
    assert told == [(names.EVENT_UNDELIVERED, event_id(2)), (names.EVENT_EXHAUSTED, event_id(3))]
    assert "abcdefgh1234" not in str(scene.recorder.events)


def test_late_results_are_counted(backend: Backend) -> None:
    """They are told apart from deliveries: the event is another's by then."""
    scene = Scene(backend)
    write(backend, 1)
    batch = scene.dispatcher.claim()
    scene.dispatcher.send(batch)
    backend.sql("UPDATE outbox_delivery SET due_at = ?", "2000-01-01T00:00:00.000000Z")
    Scene(backend).dispatcher.claim()
    scene.dispatcher.settle(batch)
    assert scene.recorder.total(names.OUTBOX_FENCED, target="t") == 1
    assert scene.recorder.total(names.OUTBOX_DISPATCHES) == 0
    assert scene.recorder.events == [(names.DELIVERIES_LOST, {"target": "t", "count": 1})]


def _seconds(later: str, earlier: str) -> float:
    from datetime import datetime  # noqa: PLC0415

    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
