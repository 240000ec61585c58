"""Sending now and then on a thread of its own, so that a slow collector delays nobody."""

import threading
from collections.abc import Callable
from typing import Protocol


class Sent(Protocol):
    """Who is told of each send whether it was taken."""

    def __call__(self, *, ok: bool) -> None:
        """Take note."""


class Pushing:
    """Calls `push` every so often, when it is woken, and once more at the end.

    One that raises is followed by `failed`, and ends nothing: what comes later is pushed.
    """

    def __init__(
        self, name: str, push: Callable[[], None], every_s: float, *, failed: Callable[[], None]
    ) -> None:
        self._push = push
        self._failed = failed
        self._every_s = every_s
        self._wake = threading.Event()
        self._closing = False
        # A daemon: one that hangs in a send does not keep the process.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Push soon."""
        self._wake.set()

    def close(self, timeout_s: float) -> None:
        """Push what there is, and wait for that no longer than so."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        ended = False
        while not ended:
            self._wake.wait(self._every_s)
            self._wake.clear()
            ended = self._closing
            try:
                self._push()
            except Exception:  # noqa: BLE001 - telemetry must outlive what nobody expected
                self._failed()
