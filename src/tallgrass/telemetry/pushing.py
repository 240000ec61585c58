"""Sending now and then on a thread of its own, so that a slow collector delays nobody."""

import threading
from collections.abc import Callable


class Pushing:
    """Calls `push` every so often, when it is woken, and once more at the end."""

    def __init__(self, name: str, push: Callable[[], None], every_s: float) -> None:
        self._push = push
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
            self._push()
