"""What is looked at while a soak runs: processes, the way of watched units, files, what waits."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.chaos.roles import connect

if TYPE_CHECKING:
    from tests.soak.cast import Measured, Member
    from tests.soak.place import Place

#: Watched units that are asked for at once, oldest first.
ASKED_MAX = 400
#: When a watched unit was received and when what it became was committed.
_DONE = """SELECT r.object_uri, r.created_at, a.closed_at FROM wal_records AS r
  JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
  WHERE r.status = 'succeeded' AND r.object_uri IN ({})"""
_WAITING = "SELECT count(*) FROM outbox_delivery WHERE status <> 'dispatched'"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look."""

    #: Seconds since the first unit was sent.
    at_s: float
    #: Units sent so far.
    units: int
    processes: dict[str, Measured]
    #: Age of the oldest watched unit that was not done: now, or when it was since the last look.
    lag_s: float
    #: Seconds from received to committed, of the watched units done since the last look.
    latencies: list[float]
    database_bytes: int
    log_bytes: int
    #: Events that are not delivered.
    waiting: int


@dataclass
class Watch:
    """Follows single units from their sending to their commit."""

    #: Unit → when it was sent.
    under_way: dict[str, float] = field(default_factory=dict)
    done: int = 0

    def look(self, database: Any, now: float) -> tuple[float, list[float]]:
        """Return lag and latencies since the last look."""
        asked = list(self.under_way)[:ASKED_MAX]
        ages, latencies = [0.0], []
        if asked:
            mark = "?" if type(database).__module__.startswith("sqlite3") else "%s"
            query = _DONE.format(", ".join([mark] * len(asked)))
            for uri, received, committed in database.execute(query, asked).fetchall():
                sent_at, closed_at = self.under_way.pop(uri), _seconds(committed)
                ages.append(closed_at - sent_at)
                latencies.append(closed_at - _seconds(received))
                self.done += 1
        ages += [now - sent_at for sent_at in self.under_way.values()]
        return max(ages), latencies


def take_sample(
    place: Place, members: dict[str, Member], watch: Watch, *, began: float, units: int
) -> Sample:
    """Look at everything once."""
    with closing(connect(place.database_url)) as database:
        now = time.time()
        lag_s, latencies = watch.look(database, now)
        waiting = int(database.execute(_WAITING).fetchone()[0])
    database_bytes, log_bytes = place.sizes()
    found = {name: member.measure() for name, member in members.items()}
    return Sample(
        at_s=now - began,
        units=units,
        processes={name: each for name, each in found.items() if each is not None},
        lag_s=lag_s,
        latencies=latencies,
        database_bytes=database_bytes,
        log_bytes=log_bytes,
        waiting=waiting,
    )


def _seconds(value: str | datetime) -> float:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return at.timestamp()
