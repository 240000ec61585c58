"""Dispatchers as child processes of tests; `process_roles.py` starts them by name."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
import uuid
from typing import TYPE_CHECKING, Any

from tallgrass.outbox.dispatch_loop import DispatchLoop, DispatchUntil
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.outbox.dispatcher import Dispatcher
from tallgrass.sinks.protocol import Delivered
from tallgrass.telemetry.recorder import NOBODY
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery, Sink


class LogSink:
    """A target that writes down what it gets, a line an event, at once."""

    batch_max = 100

    def __init__(self, path: str, halfway: Callable[[], None] = lambda: None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._halfway = halfway

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Write events; stop to ask in the middle."""
        middle = len(events) // 2
        self._write(events[:middle])
        self._halfway()
        self._write(events[middle:])
        return [Delivered()] * len(events)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, events: Sequence[OutboxEvent]) -> None:
        lines = [
            json.dumps(
                {"id": event.outbox_id, "attempt": event.attempt, "key": event.idempotency_key}
            )
            for event in events
        ]
        if lines:
            os.write(self._file, ("\n".join(lines) + "\n").replace(" ", "").encode())


def open_dispatcher(stores: Stores, sink: Sink, **changes: Any) -> Dispatcher:
    """Wire a dispatcher of the target `t`."""
    values: dict[str, Any] = {
        "target": "t",
        "rules": DispatchRules(),
        "dispatcher_id": str(uuid.uuid4()),
        "recorder": NOBODY,
        "random": random.random,
        "monotonic": time.monotonic,
        "batch_size": 100,
        **changes,
    }
    return Dispatcher(sink=sink, store=stores.outbox, **values)


def open_loop(dispatcher: Dispatcher, **changes: Any) -> DispatchLoop:
    """Wire the loop of a dispatcher."""
    values: dict[str, Any] = {
        "recorder": NOBODY,
        "random": random.random,
        "monotonic": time.monotonic,
        **changes,
    }
    return DispatchLoop(dispatcher, **values)


# --- roles ----------------------------------------------------------------------------------------


def dispatches_by_step(
    *, name: str, url: str, log: str, pause_at: Sequence[str], lease_s: float
) -> None:
    """Deliver one batch, and pause where the test wants to act."""
    from tests.support.process_roles import PausingDatabase, announce, pausing  # noqa: PLC0415

    step = pausing(pause_at)
    stores = Backend(name, url).open()
    sink = LogSink(log, lambda: step("sending"))
    dispatcher = open_dispatcher(stores, sink, rules=DispatchRules(lease_s=lease_s))
    batch = dispatcher.claim()
    step("claimed")
    dispatcher.send(batch)
    step("sent")
    stores.runner.database = PausingDatabase(stores.database, lambda: step("inside_settle"))
    dispatcher.settle(batch)
    step("settled")
    settled = batch.settled
    assert settled is not None
    announce(claimed=len(batch.claims), lost=len(settled.lost))


def dispatch_crowd(*, name: str, url: str, log: str, processes: int, expected: int) -> None:
    """Deliver from several processes until so many events were dispatched."""
    from tests.support.process_roles import _crowd  # noqa: PLC0415

    done = multiprocessing.get_context("fork").Value("i", 0)

    def player(index: int) -> None:
        stores = Backend(name, url).open()
        loop = open_loop(open_dispatcher(stores, LogSink(f"{log}/{index}.jsonl"), batch_size=50))
        counted = 0
        for rest in loop.steps(DispatchUntil.STOPPED, lambda: done.value >= expected):
            if loop.report.dispatched > counted:
                with done.get_lock():
                    done.value += loop.report.dispatched - counted
                counted = loop.report.dispatched
            if rest.s:
                time.sleep(0.02)  # nobody rouses it here

    _crowd(processes, player)


OUTBOX_ROLES: tuple[Callable[..., None], ...] = (dispatch_crowd, dispatches_by_step)
