"""Stores for many threads: a few connections, opened on demand, lent to one thread at a time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tallgrass.bootstrap.stores import Stores
from tallgrass.errors import PermanentError, TransientError

#: Connections at a time; most answers take milliseconds.
STORES_MAX = 8
#: How long a request waits for one of them before it is told to come again.
WAIT_S = 5.0


class StorePool:
    """Lends stores. Stores whose connection broke are closed; the next request opens new ones."""

    def __init__(
        self,
        opening: Callable[[], Stores],
        *,
        size: int = STORES_MAX,
        wait_s: float = WAIT_S,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self._opening = opening
        #: Called whenever stores come back.
        self._after = after
        self._wait_s = wait_s
        self._places = threading.BoundedSemaphore(size)
        self._idle: list[Stores] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def lent(self) -> Iterator[Stores]:
        """Lend stores until the end of the block."""
        if not self._places.acquire(timeout=self._wait_s):
            raise TransientError("all connections to the database are in use", code="server_busy")
        try:
            stores = self._take() or self._opening()
            try:
                yield stores
            except PermanentError:
                self._put_back(stores)
                raise
            except BaseException:
                stores.close()
                # Where one connection broke, the others that rest are broken too.
                self._close_idle()
                raise
            self._put_back(stores)
        finally:
            self._places.release()
            self._after()

    def close(self) -> None:
        """Close all that rest; those that are lent are closed as they come back."""
        with self._lock:
            self._closed = True
        self._close_idle()

    def _take(self) -> Stores | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, stores: Stores) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(stores)
                return
        stores.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for stores in idle:
            stores.close()
