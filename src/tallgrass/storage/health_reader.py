"""Reading where the ledger stands. Each answer comes from a range of an index, of bounded size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Transaction

#: Of each dataset and status: the last announced object is among them.
_NEWEST = 200
_FENCED_WITHIN = timedelta(hours=1)
#: A unit with so many attempts left is near its limit.
_ATTEMPTS_LEFT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetStand:
    """Where the units of a dataset stand, beside their number."""

    pending_since: datetime | None
    in_progress_since: datetime | None
    near_limit: int
    #: When the newest known object was announced; and of the catalog alone.
    heard_at: datetime | None
    done_at: datetime | None
    data_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorkers:
    """Workers that ended without a word."""

    lapsed: int
    fenced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """When a unit was announced, claimed and done."""

    event_time: datetime
    claimed_at: datetime
    closed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened to the units whose data are of a window."""

    #: Dataset → its newest successes.
    successes: dict[str, list[Success]]
    units: int
    failed: int
    replayed: int
    mismatches: int


class HealthReader:
    """Tells what stands still."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def datasets(self, max_attempts_of: Callable[[str], int]) -> dict[str, DatasetStand]:
        """Return where each dataset stands that the ledger knows."""
        with self._database.reading() as tx:
            return {
                name: _stand(tx, name, max_attempts_of(name) - _ATTEMPTS_LEFT)
                for name in _names(tx)
            }

    def lost_workers(self) -> LostWorkers:
        """Count workers whose lease ended, and those that were shut out lately."""
        with self._database.reading() as tx:
            now = tx.now()
            since = now - _FENCED_WITHIN
            row = tx.select("count_lost_workers", now=now, fenced_since=since)[0]
        return LostWorkers(lapsed=row["lapsed"], fenced=row["fenced"])

    def window(self, since: datetime, size: int, most: int | None = None) -> Window:
        """Return what happened since, with up to `size` of the newest successes a dataset.

        With `most`, so many of all datasets together: each has the same share.
        """
        after = first_wal_id_of(since)
        with self._database.reading() as tx:
            names = list(_names(tx))
            if most is not None:
                size = min(size, max(1, most // max(1, len(names))))
            found = {name: _successes(tx, name, after, size) for name in names}
            counts = {
                status: sum(_count(tx, name, status, after) for name in names) for status in Status
            }
            replays = tx.select("count_mismatches", since=since)[0]
        return Window(
            successes=found,
            units=sum(counts.values()),
            failed=counts[Status.FAILED],
            replayed=replays["records"],
            mismatches=replays["mismatches"],
        )


def _names(tx: Transaction) -> Iterator[str]:
    return (row["dataset"] for row in tx.select("datasets"))


def _count(tx: Transaction, dataset: str, status: Status, after: str) -> int:
    rows = tx.select("count_since", dataset=dataset, status=status.value, after=after)
    number: int = rows[0]["records"]
    return number


def _successes(tx: Transaction, dataset: str, after: str, size: int) -> list[Success]:
    return [
        Success(
            event_time=instant(row["event_time"]),
            claimed_at=instant(row["claimed_at"]),
            closed_at=instant(row["closed_at"]),
        )
        for row in tx.select("newest_successes", dataset=dataset, after=after, size=size)
    ]


def _stand(tx: Transaction, dataset: str, spent: int) -> DatasetStand:
    def since(status: Status) -> datetime | None:
        rows = tx.select("unfinished_since", dataset=dataset, status=status.value)
        return instant_or_none(rows[0]["oldest"])

    newest = {
        status: tx.select("newest_announced", dataset=dataset, status=status.value, size=_NEWEST)[0]
        for status in Status
    }
    heard = (instant_or_none(row["heard_at"]) for row in newest.values())
    done = newest[Status.SUCCEEDED]
    near = tx.select("count_near_limit", dataset=dataset, spent=spent)[0]
    return DatasetStand(
        pending_since=since(Status.PENDING),
        in_progress_since=since(Status.IN_PROGRESS),
        near_limit=near["records"],
        heard_at=max((each for each in heard if each is not None), default=None),
        done_at=instant_or_none(done["heard_at"]),
        data_until=instant_or_none(done["data_until"]),
    )
