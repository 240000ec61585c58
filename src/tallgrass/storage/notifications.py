"""Notifications of PostgreSQL, sent for the sink of that kind."""

import threading
from collections.abc import Sequence

from tallgrass.storage.postgres import PostgresDatabase

# PostgreSQL's alone, so no named query of both.
_NOTIFY = "SELECT pg_notify(%(channel)s, text) FROM unnest(%(texts)s::text[]) AS text"


class Notifications:
    """Sends over one connection, for several threads."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()

    def send(self, channel: str, texts: Sequence[str]) -> None:
        """Notify of all texts in one transaction."""
        with self._lock, self._database.transaction() as tx:
            tx.connection.execute(_NOTIFY, {"channel": channel, "texts": list(texts)})

    def close(self) -> None:
        """Close the connection."""
        self._database.close()
