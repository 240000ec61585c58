"""Dispatchers and their target in a simulated world: the real loop, one phase a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from tallgrass.errors import TransientError
from tallgrass.outbox.dispatch_loop import DispatchLoop, DispatchUntil
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.outbox.dispatcher import Dispatcher
from tallgrass.retry import Backoff
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.telemetry.recorder import NOBODY
from tests.oracle.deliveries import Send
from tests.simulation.actors import operators_stores, seeded_ids
from tests.simulation.disturbed import Crashed, StoreFaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from random import Random

    from tallgrass.outbox.dispatch_loop import Rest
    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery
    from tests.simulation.world import World

#: What may befall a send. `unanswered`: the target has the event, and its answer is lost.
SINK_FAULTS = (
    "down",
    "unanswered",
    "throttled",
    "refused",
    "raises",
    "slow",
    "slower than the lease",
    "crash before",
    "crash in the middle",
    "crash after",
)
TARGET = "file"
RULES = DispatchRules(attempts_max=5, backoff=Backoff(base_s=2.0, cap_s=20.0), lease_s=20.0)

_ANSWERS: dict[str, Delivery] = {
    "down": Undelivered(code="sink_unreachable", message="simulated"),
    "unanswered": Undelivered(code="sink_timeout", message="simulated"),
    "throttled": Undelivered(code="sink_throttled", message="simulated", retry_after_s=7.0),
    "refused": Undelivered(code="sink_refused", message="simulated", permanent=True),
}


class SimulatedTarget:
    """Notes what it gets; fails as its faults say, the next send first."""

    batch_max = 4

    def __init__(self, world: World) -> None:
        self._world = world
        self.sends: list[Send] = []
        self.faults: list[str] = []

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Take events, or fail."""
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "crash before":
            raise Crashed
        if fault.startswith("slow"):
            # The others go on meanwhile.
            self._world.pass_time(4.0 if fault == "slow" else 1.5 * RULES.lease_s)
        middle = len(events) // 2 if fault == "crash in the middle" else len(events)
        self.sends += [
            Send(
                outbox_id=event.outbox_id,
                attempt=event.attempt,
                key=event.idempotency_key,
                payload=event.payload,
            )
            for event in events[:middle]
        ]
        if fault.startswith("crash"):
            raise Crashed
        if fault == "raises":
            raise OSError("simulated")
        return [_ANSWERS.get(fault, Delivered()) for _ in events]

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class DispatchProcess:
    """A dispatcher process: it may crash, hang and come back, and its database may fail."""

    world: World
    name: str
    random: Random
    store_faults: StoreFaults = field(default_factory=StoreFaults)
    hung: bool = False
    asked_to_stop: bool = False
    busy: bool = False
    wake_at: datetime | None = None
    _steps: Iterator[Rest] | None = None

    def __post_init__(self) -> None:
        self.stores = operators_stores(self.world, self.random, self.store_faults)

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self._steps is not None

    @property
    def is_up(self) -> bool:
        """Whether there is a process that goes on."""
        return self._steps is not None and not self.hung

    @property
    def has_to_do(self) -> bool:
        """Whether its next round does something though nothing is due: it ends."""
        return self.asked_to_stop

    def start(self) -> str:
        """Start a process with an id of its own."""
        self.hung = self.asked_to_stop = False
        self.wake_at = None

        def monotonic() -> float:
            return self.world.clock().timestamp()

        dispatcher = Dispatcher(
            target=TARGET,
            sink=self.world.target,
            store=self.stores.outbox,
            rules=RULES,
            dispatcher_id=str(seeded_ids(self.random)()),
            recorder=NOBODY,
            random=self.random.random,
            monotonic=monotonic,
            batch_size=self.world.dispatch_batch,
            ordered=self.world.ordered,
            stop=lambda: self.asked_to_stop,
        )
        loop = DispatchLoop(
            dispatcher, recorder=NOBODY, random=self.random.random, monotonic=monotonic
        )
        self._steps = loop.steps(DispatchUntil.STOPPED, lambda: self.asked_to_stop)
        return "started"

    def step(self) -> str:
        """Run to the end of the next phase."""
        if self._steps is None or self.busy:
            return "is not there"
        self.wake_at = None
        self.busy = True
        try:
            rest_s = next(self._steps).s
        except StopIteration:
            return self._end("stopped in good order")
        except Crashed:
            return self._end("crashed")
        except TransientError as error:
            return self._end(f"ended: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - whatever ends a dispatcher is a finding
            self.world.violations.append(f"{self.name} died of {type(error).__name__}: {error}")
            return self._end("died")
        finally:
            self.busy = False
        if rest_s:
            self.wake_at = self.world.clock() + timedelta(seconds=rest_s)
            return f"rests for {rest_s:.1f} s"
        return "did a phase"

    def crash(self) -> str:
        """End it between two phases."""
        return self._end("was killed")

    def close(self) -> None:
        """Close its connection."""
        self._end("closed")
        self.stores.close()

    def _end(self, how: str) -> str:
        if self._steps is not None:
            self._steps.close()  # type: ignore[attr-defined]
        self._steps = self.wake_at = None
        return how
