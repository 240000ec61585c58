"""An outbox in memory and a clock that is set: dispatchers and their loops without a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tallgrass.outbox.breaker import Breaker
from tallgrass.outbox.dispatch_rules import ClaimedEvent, Claims, DispatchRules, Settled, Settlement
from tallgrass.outbox.event import OutboxEvent
from tests.support.events import MemorySink, event_id, payload_of
from tests.support.outbox_roles import open_dispatcher, open_loop
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.outbox.dispatch_loop import DispatchLoop
    from tallgrass.outbox.dispatcher import Dispatcher
    from tallgrass.sinks.protocol import Delivery

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
#: More calls than any test needs: whoever makes them does not rest.
CALLS_MAX = 200


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


class Shelf:
    """Gives what waits, in order, and keeps what is written of it; it fails as it is told."""

    def __init__(self) -> None:
        self.waiting: list[ClaimedEvent] = []
        self.calls: list[str] = []
        #: How many events each claim asked for.
        self.limits: list[int] = []
        self.written: list[Settlement] = []
        #: By verb: what the next calls raise.
        self.failures: dict[str, list[Exception]] = {}

    def put(self, *numbers: int, dataset: str = "d") -> None:
        """Let events wait, each at its first try."""
        self.waiting += [ClaimedEvent(event=_event(number, dataset), tries=1) for number in numbers]

    def is_due(self, _target: str) -> bool:
        """Tell whether any waits."""
        self._called("is_due")
        return bool(self.waiting)

    def claim(
        self, _target: str, *, dispatcher: str, limit: int, rules: DispatchRules, ordered: bool
    ) -> Claims:
        """Give the first ones."""
        del dispatcher, rules, ordered
        self._called("claim")
        self.limits.append(limit)
        given, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return Claims(events=given)

    def settle(self, _dispatcher: str, settlements: Sequence[Settlement]) -> Settled:
        """Keep what became of events."""
        self._called("settle")
        self.written += settlements
        return Settled(at=NOON, lost=frozenset())

    def abandon(self, _target: str, _dispatcher: str) -> int:
        """Nothing is kept of claims."""
        self._called("abandon")
        return 0

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        assert len(self.calls) < CALLS_MAX, "it does not rest"
        if self.failures.get(verb):
            raise self.failures[verb].pop(0)


def _event(number: int, dataset: str) -> OutboxEvent:
    return OutboxEvent(
        outbox_id=event_id(number),
        subject=f"subject-{number}",
        pipeline_id="pipeline",
        event_name="made",
        dataset_id=dataset,
        version="1.0.0",
        idempotency_key=f"key-{number}",
        target="t",
        payload=payload_of(number),
        care_label="public",
        governance_ref=None,
        created_at=NOON,
        attempt=1,
    )


@dataclass
class SlowSink(MemorySink):
    """A target whose sends take their time."""

    time: Time = field(default_factory=Time)
    takes_s: float = 0.0

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Take events, and so long."""
        self.time.seconds += self.takes_s
        return super().send(events)


class Scene:
    """One dispatcher over a shelf; chance draws the shortest wait of a delivery and of a target."""

    def __init__(self, count: int = 0, *, watched: bool = False, **changes: Any) -> None:
        self.time = Time()
        self.shelf = Shelf()
        self.shelf.put(*range(1, count + 1))
        self.sink = SlowSink(
            batch_max=changes.pop("batch_max", 100),
            time=self.time,
            takes_s=changes.pop("takes_s", 0.0),
        )
        self.recorder = MemoryRecorder()
        #: A target that is watched is left alone while it is down: for 0.5 s, 1 s, 2 s …
        self.breaker = Breaker(
            pause_s_max=300.0, probe_s_max=60.0, monotonic=self.time, random=lambda: 0.0
        )
        self._changes: dict[str, Any] = {
            "rules": DispatchRules(lease_s=60.0),
            "recorder": self.recorder,
            "random": lambda: 0.0,
            "monotonic": self.time,
            "breaker": self.breaker if watched else None,
            **changes,
        }
        self.dispatcher = self.another()

    def another(self) -> Dispatcher:
        """Wire one more dispatcher of the target."""
        stores: Any = SimpleNamespace(outbox=self.shelf)
        return open_dispatcher(stores, self.sink, **self._changes)

    def loop(self, rate: float | None = None) -> DispatchLoop:
        """Wire the loop of the dispatcher; chance draws half of each wait for a database."""
        return open_loop(
            self.dispatcher,
            recorder=self.recorder,
            random=lambda: 0.5,
            monotonic=self.time,
            rate=rate,
        )

    def fail(self, verb: str, *errors: Exception) -> None:
        """Let the next calls of a verb fail."""
        self.shelf.failures.setdefault(verb, []).extend(errors)

    def told(self, *wanted: str) -> list[str]:
        """Return which of some things were told, in order."""
        return [name for name, _ in self.recorder.events if name in wanted]
