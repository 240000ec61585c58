"""What sinks need of the program that they run in; bootstrap fills it in, tests as they like."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tallgrass.clock import Clock, system_clock
from tallgrass.errors import ConfigError
from tallgrass.sinks.http_client import Connect, Lookup, look_up

#: A send must be over before another dispatcher may take the event.
_SHARE_OF_LEASE = 0.5


def _no_catalog(*_: object) -> bytes | None:
    raise ConfigError("this kind of target needs the catalog, which is not at hand here")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkResources:
    """Injected parts. The readers may be called by several threads at a time."""

    #: (collection, item) → the item's stored bytes.
    items: Callable[[str, str], bytes | None] = _no_catalog
    #: wal_id → ids that the unit's item had before and no item has now: (collection, item).
    former_items: Callable[[str], Sequence[tuple[str, str]]] = lambda _: ()
    #: collection → its stored bytes.
    collections: Callable[[str], bytes | None] = _no_catalog
    #: (wal_id, activity) → the PROV-O document's stored bytes.
    provenance: Callable[[str, str], bytes | None] = _no_catalog
    #: Sends texts on a channel of PostgreSQL, in one transaction; raises TallgrassError. None where
    #: the database is another.
    notify: Callable[[str, Sequence[str]], None] | None = None
    #: Of relative paths: that of the database.
    folder: Path = Path()
    #: Of a claim.
    lease_s: float = 60.0
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Clock = system_clock
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    look_up: Lookup = look_up
    connect: Connect = socket.create_connection

    @property
    def send_s_max(self) -> float:
        """Longest time that a send may take."""
        return self.lease_s * _SHARE_OF_LEASE
