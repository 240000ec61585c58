"""Dispatchers at work: a thread each, as many as their targets allow, woken by whoever writes."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tallgrass.garbage import rare_collections
from tallgrass.outbox.dispatch_loop import DispatchLoop, DispatchReport, DispatchUntil, Rest

#: How soon a wish to stop is noticed by who waits.
_LOOK_EVERY_S = 0.2


class Wake(Protocol):
    """Waits for writers of events."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until something was written, or for so long; tell whether something was."""

    def close(self) -> None:
        """Let the connection go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One dispatcher with its own connection to the database."""

    loop: DispatchLoop
    close: Callable[[], None]


class DispatchThreads:
    """Runs lanes until they are told to stop, or have nothing left to do."""

    def __init__(self, lanes: Sequence[Lane], wake: Wake) -> None:
        self._lanes = lanes
        self._wake = wake
        self._woken = [threading.Event() for _ in lanes]
        self._ended = threading.Event()
        #: Set for good when the lanes are to end, by whomever.
        self._stopping = threading.Event()
        self._failures: list[BaseException] = []

    def run(self, until: DispatchUntil, stop: Callable[[], bool]) -> DispatchReport:
        """Run all lanes to their end and add up what they did; the first that failed is raised."""
        with rare_collections():
            self._run_all(until, stop)
        if self._failures:
            raise self._failures[0]
        total = DispatchReport()
        for lane in self._lanes:
            total.merge(lane.loop.report)
        return total

    def _run_all(self, until: DispatchUntil, stop: Callable[[], bool]) -> None:
        threads = [
            threading.Thread(
                target=self._run_lane,
                args=(lane, woken, until, stop),
                name=f"tallgrass-dispatch-{number}",
                daemon=True,
            )
            for number, (lane, woken) in enumerate(zip(self._lanes, self._woken, strict=True))
        ]
        waker = threading.Thread(target=self._listen, name="tallgrass-wake", daemon=True)
        started: list[threading.Thread] = []
        try:
            # A system that is out of threads refuses one: those before it must not go on alone.
            for thread in (waker, *threads):
                thread.start()
                started.append(thread)
            self._watch(threads, stop)
        finally:
            self._end()
            for thread in started:
                thread.join()

    def _run_lane(
        self, lane: Lane, woken: threading.Event, until: DispatchUntil, stop: Callable[[], bool]
    ) -> None:
        try:
            for rest in lane.loop.steps(until, lambda: self._ended.is_set() or stop()):
                self._rest(rest, woken)
        except BaseException as error:  # noqa: BLE001 - told by whoever started the threads
            self._failures.append(error)
            self._end()
        finally:
            lane.close()

    def _rest(self, rest: Rest, woken: threading.Event) -> None:
        if rest.until_woken:
            woken.wait(rest.s)
            woken.clear()
        elif self._stopping.is_set():
            # What was sent is still to be written: a database that comes back is given the time.
            time.sleep(rest.s)
        else:
            self._stopping.wait(rest.s)

    def _watch(self, threads: Sequence[threading.Thread], stop: Callable[[], bool]) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_EVERY_S)
                if stop():
                    self._stopping.set()
                    self._rouse()

    def _listen(self) -> None:
        try:
            while not self._ended.is_set():
                if self._wake.wait(_LOOK_EVERY_S):
                    self._rouse()
        finally:
            self._wake.close()

    def _end(self) -> None:
        self._ended.set()
        self._stopping.set()
        self._rouse()

    def _rouse(self) -> None:
        for woken in self._woken:
            woken.set()
