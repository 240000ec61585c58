"""Wake-ups on PostgreSQL: the driver is an optional extra, so they stand apart."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import psycopg

#: What the trigger of the outbox notifies.
_CHANNEL = "tallgrass_outbox"
#: Before a connection that broke is tried again.
_AGAIN_AFTER_S = 1.0


class PostgresWake:
    """Listens for the notification that each transaction with new events sends."""

    def __init__(self, url: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._url = url
        self._sleep = sleep
        self._connection: psycopg.Connection[Any] | None = None

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification; several that wait count as one."""
        try:
            connection = self._listening()
            heard = False
            for _ in connection.notifies(timeout=timeout_s, stop_after=1):
                heard = True
        except psycopg.Error:
            self.close()
            self._sleep(min(timeout_s, _AGAIN_AFTER_S))
            return False
        return heard

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _listening(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
            self._connection.execute(f"LISTEN {_CHANNEL}".encode())
        return self._connection
