"""Reading where the ledger stands. Each answer comes from a range of an index, of bounded size."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.ledger.vocabulary import Status
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Row

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
    #: When the newest object was announced: of all that are known, of those in the catalog, and
    #: of those whose last attempt failed.
    heard_at: datetime | None
    done_at: datetime | None
    failed_at: datetime | None
    data_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorkers:
    """Workers that ended without a word."""

    lapsed: int
    fenced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """When a unit was announced, claimed and done."""

    event_time: datetime
    claimed_at: datetime
    #: None where it is not in the catalog: it failed, or is still worked on.
    done_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What happened to the units whose data are of a window."""

    #: Dataset → its newest units that a worker has taken up.
    taken: dict[str, list[Taken]]
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
            stands = tx.select("dataset_stands", newest=_NEWEST)
            spent = tx.select("attempts_spent")
        near = Counter[str]()
        for row in spent:
            if row["spent"] >= max_attempts_of(row["dataset"]) - _ATTEMPTS_LEFT:
                near[row["dataset"]] += row["records"]
        by_dataset: dict[str, dict[str, Row]] = {}
        for row in stands:
            by_dataset.setdefault(row["dataset"], {})[row["status"]] = row
        return {name: _stand(rows, near[name]) for name, rows in by_dataset.items()}

    def dead_since(self) -> datetime | None:
        """Return when the unit was tried last whose message is longest among the dead letters.

        A message dies soon after its unit's last attempt; a queue such as SQS does not say when.
        """
        with self._database.reading() as tx:
            return instant_or_none(tx.select("oldest_dead")[0]["since"])

    def lost_workers(self) -> LostWorkers:
        """Count workers whose lease ended, and those that were shut out lately."""
        with self._database.reading() as tx:
            now = tx.now()
            since = now - _FENCED_WITHIN
            row = tx.select("count_lost_workers", now=now, fenced_since=since)[0]
        return LostWorkers(lapsed=row["lapsed"], fenced=row["fenced"])

    def window(self, since: datetime, size: int, most: int | None = None) -> Window:
        """Return what happened since, with up to `size` of the newest units a dataset.

        With `most`, so many of all datasets together: each has the same share.
        """
        after = first_wal_id_of(since)
        with self._database.reading() as tx:
            counted = tx.select("count_since", after=after)
            found: dict[str, list[Row]] = {row["dataset"]: [] for row in counted}
            if most is not None:
                size = min(size, max(1, most // max(1, len(found))))
            for query in ("newest_successes", "newest_missing"):
                for row in tx.select(query, after=after, size=size):
                    found[row["dataset"]].append(row)
            replays = tx.select("count_mismatches", since=since)[0]
        counts = Counter[str]()
        for row in counted:
            counts[row["status"]] += row["records"]
        return Window(
            taken={name: _newest(rows, size) for name, rows in found.items()},
            units=counts.total(),
            failed=counts[Status.FAILED],
            replayed=replays["records"],
            mismatches=replays["mismatches"],
        )


def _newest(rows: Iterable[Row], size: int) -> list[Taken]:
    """Return the newest of them all: each kind was asked for as if it were the only one."""
    # An id is a text on one database and a number of 128 bits on the other; both sort by time.
    newest = sorted(rows, key=lambda row: str(row["wal_id"]), reverse=True)[:size]
    return [
        Taken(
            event_time=instant(row["event_time"]),
            claimed_at=instant(row["claimed_at"]),
            done_at=instant_or_none(row["closed_at"]),
        )
        for row in newest
    ]


def _stand(rows: Mapping[str, Row], near_limit: int) -> DatasetStand:
    done = rows[Status.SUCCEEDED]
    done_at = instant_or_none(done["done_at"])
    failed_at = _latest(
        [row["failed_at"] for row in rows.values()]
        + [rows[status]["heard_at"] for status in (Status.FAILED, Status.QUARANTINED)]
    )
    return DatasetStand(
        pending_since=instant_or_none(rows[Status.PENDING]["unfinished_since"]),
        in_progress_since=instant_or_none(rows[Status.IN_PROGRESS]["unfinished_since"]),
        near_limit=near_limit,
        heard_at=_latest([done_at, failed_at, *(row["heard_at"] for row in rows.values())]),
        done_at=done_at,
        failed_at=failed_at,
        data_until=instant_or_none(done["data_until"]),
    )


def _latest(times: Iterable[str | datetime | None]) -> datetime | None:
    """Return the latest of these times; None where there is none."""
    return max((instant(each) for each in times if each is not None), default=None)
