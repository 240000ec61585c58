"""The heartbeat: renews a worker's lease on a thread of its own, while the worker makes progress.

With the lease it extends the time for which the messages in hand are hidden. A lease renewed by a
thread would outlive a hung main loop. So the loop reports its progress, and the heartbeat stops
when none came for the job deadline: then others take the units over, and the messages come again.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from tallgrass.errors import DatabaseFull, TallgrassError, WorkerFenced


class Beside:
    """Calls something on a thread of its own, unless the call before still runs.

    What comes of it is not told. For what may hang while a beat must not: a queue that does not
    answer would else cost the lease, which it has nothing to do with.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tallgrass-beside")
        self._doing: Future[object] | None = None

    def __call__(self) -> None:
        """Begin a call and return at once."""
        if self._doing is None or self._doing.done():
            self._doing = self._thread.submit(self._call)

    def close(self) -> None:
        """Wait for the call under way."""
        self._thread.shutdown()


class Heartbeat:
    """Calls `renew`, then `extend`, at a third of the lease; `lost` is set once it is fenced."""

    def __init__(
        self,
        renew: Callable[[], object],
        *,
        interval_s: float,
        deadline_s: float,
        extend: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renew = renew
        self._extend = extend
        self._interval_s = interval_s
        self._deadline_s = deadline_s
        self._monotonic = monotonic
        self._progress_at = monotonic()
        self._ended = threading.Event()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tallgrass-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def progress(self) -> None:
        """Tell that the main loop is alive."""
        self._progress_at = self._monotonic()

    def stop(self) -> None:
        """End the thread; the lease itself is ended by whoever holds it."""
        self._ended.set()
        self._thread.join()

    def beat(self) -> None:
        """Renew once, unless the main loop hangs; what is not renewed is not extended either.

        But a store that is full is full for all: nobody else could do more with the messages.
        """
        if self._monotonic() - self._progress_at > self._deadline_s:
            return
        try:
            self._renew()
        except WorkerFenced:
            self.lost.set()
            return
        except DatabaseFull:
            pass
        except TallgrassError:
            return  # the lease still runs, and the next beat tries again; the loop says it
        with suppress(TallgrassError):  # the loop says it; at worst the messages come again
            self._extend()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s) and not self.lost.is_set():
            self.beat()
