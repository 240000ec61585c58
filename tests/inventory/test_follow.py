"""Following a bucket, round by round: what comes is found, and what is down is waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.follow_rounds import Following
from tallgrass.bootstrap.following import follow, look_back_of
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import (
    DatabaseLocked,
    DatabaseUnreachable,
    ListingBroken,
    ListingRefused,
    TallgrassError,
    TransientError,
)
from tallgrass.evidence.listing import FolderListing
from tallgrass.inventory.following import (
    FollowedBucket,
    FollowReport,
    FollowRequest,
    FollowUntil,
)
from tallgrass.storage.inventory_store import InventoryStore
from tallgrass.worker import Worker
from tests.pipeline.scene import Pipeline, thing
from tests.support.backends import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.evidence.listing import Page
    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Followed:
    """A pipeline whose folder is followed; what happens between listings is a list of steps."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.pipeline = Pipeline(backend, folder)
        self.clock = ManualClock(NOON + timedelta(minutes=10))
        self.between: list[Callable[[], object]] = []
        self.rests: list[float] = []
        self.waited_for: list[str] = []
        self.told: list[tuple[str, str]] = []
        self._stopped = False

    def follow(self, **changes: Any) -> FollowReport:
        """Follow until all steps were taken, and one round more."""
        values: dict[str, Any] = {"dataset": "goes-glm", "since": NOON, "every_s": 30.0}
        config = self.pipeline.config
        outside = Following(
            stop=lambda: self._stopped,
            waiting=lambda error: self.waited_for.append(error.code),
            down=lambda bucket: self.told.append(("down", bucket.uri)),
            back=lambda bucket: self.told.append(("back", bucket.uri)),
            sleep=self._sleep,
            clock=self.clock,
            monotonic=lambda: self.clock().timestamp(),
        )
        return follow(
            config, open_catalogue(config), FollowRequest(**{**values, **changes}), outside
        )

    def items(self) -> int:
        """Count items by plain SQL."""
        ((number,),) = self.pipeline.backend.sql("SELECT count(*) FROM stac_items")
        return int(number)

    def _sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.clock.advance(seconds)
        if self.between:
            self.between.pop(0)()
        else:
            self._stopped = True


@pytest.fixture
def followed(backend: Backend, tmp_path: Path) -> Followed:
    """On either database."""
    return Followed(backend, tmp_path)


def test_what_comes_between_two_listings_is_found_by_the_second(followed: Followed) -> None:
    """New objects, and one that was overwritten; each is worked on before the next rest."""
    pipeline, given = followed.pipeline, [thing(2 * number) for number in range(3)]
    pipeline.put(given[0])
    counts: list[int] = []

    def comes(*coming: Thing) -> None:
        counts.append(followed.items())
        pipeline.put(*coming)

    followed.between = [lambda: comes(*given[1:]), lambda: comes(thing(0, version=2))]
    report = followed.follow()
    assert counts == [1, 3]
    assert (report.rounds, report.recorded, report.changed, report.worked_on) == (3, 3, 1, 4)
    intents = pipeline.backend.sql(
        "SELECT intent, count(*) FROM wal_attempts GROUP BY 1 ORDER BY 1"
    )
    assert intents == [("ingest", 3), ("reingest", 1)]
    assert followed.rests == [30.0, 30.0, 30.0]


@pytest.mark.parametrize(("hours", "found"), [(1, 0), (3, 1)])
def test_later_listings_look_back_as_far_as_they_are_told(
    followed: Followed, hours: int, found: int
) -> None:
    """After a listing at two an object of noon is too late for one hour, and not for three."""
    followed.between = [
        lambda: followed.clock.advance(2 * 3600),
        lambda: followed.pipeline.put(thing(0)),
    ]
    assert followed.follow(look_back=timedelta(hours=hours)).recorded == found


def test_a_machine_that_slept_misses_nothing(followed: Followed) -> None:
    """The next listing begins where the last one ended, however long ago that was."""

    def sleeps() -> None:
        followed.pipeline.put(thing(0))
        followed.clock.advance(5 * 3600)

    followed.between = [sleeps]
    assert followed.follow().recorded == 1


def test_a_forecast_of_what_is_still_to_come_is_found(followed: Followed) -> None:
    """Its data start tomorrow, in the folder of today's run."""
    put_hrrr(followed, "t12z.wrfsfcf18")
    assert followed.follow(dataset="hrrr").recorded == 1


def put_hrrr(followed: Followed, name: str) -> None:
    """Write an object of HRRR into today's folder."""
    key = f"hrrr.20260601/conus/hrrr.{name}.grib2"
    file = followed.pipeline.objects / "noaa-hrrr-bdp-pds" / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"no GRIB")


def test_runs_that_come_late_are_found_by_the_time_of_the_run(followed: Followed) -> None:
    """At 12:10 three cadences reach back to 09:10, whatever hour a run tells of; by hand."""
    for name in ("t10z.wrfsfcf00", "t10z.wrfsfcf18", "t09z.wrfsfcf00", "t09z.wrfsfcf18"):
        put_hrrr(followed, name)
    report = followed.follow(dataset="hrrr", since=None)
    assert (report.recorded, report.rounds, report.passed["outside_time"]) == (2, 1, 2)


@pytest.mark.parametrize(
    ("dataset", "hours"), [("goes-glm", 1), ("hrrr", 3), ("gfs", 18), ("nwm", 48)]
)
def test_listings_look_back_by_the_pace_of_the_dataset(dataset: str, hours: int) -> None:
    """An hour, three cadences, or as far as its folders say; from the datasets' files by hand."""
    assert look_back_of(default_catalogue().named(dataset)) == timedelta(hours=hours)


class Buckets(FolderListing):
    """A folder some of whose buckets break off after their first page, or cannot be listed."""

    broken: ClassVar[dict[str, TallgrassError]] = {}
    asked: ClassVar[list[str]] = []

    def pages(self, bucket: str, prefix: str = "", after: str = "") -> Iterator[Page]:
        """List, and perhaps break."""
        name = bucket.removeprefix("s3://")
        if not self.asked or self.asked[-1] != name:
            self.asked.append(name)
        for page in super().pages(bucket, prefix, after):
            yield page
            if name in self.broken:
                raise self.broken[name]
        if name in self.broken and not isinstance(self.broken[name], ListingBroken):
            raise self.broken[name]


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> dict[str, TallgrassError]:
    """Let a test say which buckets are broken, and how."""
    monkeypatch.setattr("tallgrass.bootstrap.inventory.FolderListing", Buckets)
    monkeypatch.setattr(Buckets, "broken", {})
    monkeypatch.setattr(Buckets, "asked", [])
    return Buckets.broken


#: Objects of two satellites in turn: of goes-18 and goes-19.
SIX = [thing(number) for number in range(6)]
MISSING = ListingRefused("there is no such bucket", code="bucket_missing")


def test_a_listing_that_breaks_off_is_waited_for_and_nothing_is_lost(
    followed: Followed, buckets: dict[str, TallgrassError]
) -> None:
    """What came is recorded; the bucket's time is not moved on, and a later round has the rest."""
    first, other = (each.place.bucket for each in SIX[:2])
    followed.pipeline.put(*SIX[:2])
    buckets[first] = ListingBroken("no answer")

    def mended() -> None:
        followed.pipeline.put(*SIX[2:])
        del buckets[first]

    # Five hours on, noon is too late for the bucket that was listed meanwhile.
    followed.between = [lambda: followed.clock.advance(5 * 3600), mended, lambda: None]
    report = followed.follow()
    assert (followed.told, followed.waited_for) == (
        [("down", f"s3://{first}"), ("back", f"s3://{first}")], []
    )  # fmt: skip
    assert (report.recorded, followed.items()) == (4, 4)
    failed = [each.uri for each in report.buckets if each.failed_listings]
    assert (failed, other in Buckets.asked) == ([f"s3://{first}"], True)


def test_one_bucket_that_cannot_be_listed_keeps_nothing_from_going_on(
    followed: Followed, buckets: dict[str, TallgrassError]
) -> None:
    """The first of four is gone: the others are listed each round, and all that is due is done."""
    followed.pipeline.put(*SIX)
    buckets["noaa-goes16"] = MISSING
    followed.between = [lambda: None] * 9
    report = followed.follow()
    assert (report.recorded, report.worked_on, followed.items()) == (6, 6, 6)
    assert report.rounds == 10
    assert followed.told == [("down", "s3://noaa-goes16")]
    assert [each.listings for each in report.buckets] == [0, 10, 10, 10]
    # By hand, of rounds at 0, 30, 60 … 270 s: waits of 5, 10, 20, 40, 80 and 160 s.
    assert Buckets.asked.count("noaa-goes16") == 6
    (down,) = report.down
    assert (down.failed_listings, down.down_since) == (6, NOON + timedelta(minutes=10))


def test_the_rests_of_a_bucket_grow_to_a_cap_with_full_jitter() -> None:
    """From 5 s to 5 minutes, each times a number that is drawn; a whole listing begins anew."""
    bucket = FollowedBucket(uri="s3://b", since=NOON)
    rests = []
    for _ in range(9):
        bucket.refused(MISSING, now=NOON, now_s=100.0, random=lambda: 0.5)
        rests.append(bucket.ask_at_s - 100)
    assert rests == [2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 150.0, 150.0, 150.0]
    assert bucket.answered(NOON)
    assert not bucket.answered(NOON)
    bucket.refused(MISSING, now=NOON, now_s=0.0, random=lambda: 1.0)
    assert bucket.ask_at_s == 5.0


def test_one_round_works_and_tells_of_the_bucket_that_failed(
    followed: Followed, buckets: dict[str, TallgrassError]
) -> None:
    """Nobody waits where one round was asked for; the lease is handed back."""
    followed.pipeline.put(*SIX)
    buckets[SIX[0].place.bucket] = ListingBroken("no answer")
    report = followed.follow(until=FollowUntil.ONCE)
    assert (report.worked_on, [each.uri for each in report.down]) == (6, [bucket_of(SIX[0])])
    open_leases = followed.pipeline.backend.sql(
        "SELECT count(*) FROM workers WHERE worker_id = 'worker' AND stopped_at IS NULL"
    )
    assert (open_leases, followed.rests) == ([(0,)], [])


def test_it_ends_idle_although_a_bucket_stays_down(
    followed: Followed, buckets: dict[str, TallgrassError]
) -> None:
    """Asked twice in vain, it is not waited for: two rounds, of which the last is idle."""
    followed.pipeline.put(*SIX)
    buckets["noaa-goes16"] = MISSING
    followed.between = [lambda: None] * 9
    report = followed.follow(until=FollowUntil.IDLE)
    assert (report.rounds, report.worked_on, len(report.down)) == (2, 6, 1)
    assert report.down[0].failed_listings == 2


def test_where_no_bucket_can_be_listed_from_the_start_it_ends(
    followed: Followed, buckets: dict[str, TallgrassError]
) -> None:
    """As with a queue that is not there; one that only does not answer is waited for."""
    followed.pipeline.put(*SIX)
    buckets.update({f"noaa-goes{number}": MISSING for number in range(16, 20)})
    followed.between = [lambda: None] * 3
    report = followed.follow()
    assert (report.rounds, len(report.down), followed.rests) == (1, 4, [])
    for name in buckets:
        buckets[name] = ListingBroken("no answer")
    assert followed.follow().rounds == 4


def test_a_database_that_is_down_is_waited_for(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is everybody's: the round is begun anew, and told as what it is."""
    followed.pipeline.put(*SIX)
    broken = [DatabaseLocked("busy"), DatabaseLocked("busy")]
    unsettled = InventoryStore.unsettled

    def failing(store: InventoryStore, listed: Any) -> Any:
        if broken:
            raise broken.pop()
        return unsettled(store, listed)

    monkeypatch.setattr(InventoryStore, "unsettled", failing)
    followed.between = [lambda: None] * 2
    report = followed.follow()
    assert followed.waited_for == ["database_locked", "database_locked"]
    assert (followed.rests[:2], followed.told) == ([1.0, 2.0], [])
    assert (report.recorded, followed.items()) == (6, 6)


def bucket_of(given: Thing) -> str:
    """Return the bucket of an object, with its scheme."""
    return f"s3://{given.place.bucket}"


def cut_off(monkeypatch: pytest.MonkeyPatch, error: TransientError) -> None:
    """Let the store fail once between a claim and its commit."""
    commit, waiting = Worker.commit, [error]

    def once(worker: Worker, batch: Any) -> None:
        if waiting:
            raise waiting.pop()
        commit(worker, batch)

    monkeypatch.setattr(Worker, "commit", once)


@pytest.mark.conformance("WAL-4.2", "SM-2.2a")
@pytest.mark.parametrize("error", [DatabaseUnreachable("gone"), DatabaseLocked("locked")])
def test_what_a_passing_fault_of_the_store_cut_off_is_finished(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, error: TransientError
) -> None:
    """It goes on under the same lease, so it gives back what it held before it claims again."""
    cut_off(monkeypatch, error)
    followed.pipeline.put(*[thing(2 * number) for number in range(3)])
    followed.between = [lambda: None, lambda: None]
    report = followed.follow()
    assert followed.waited_for == [error.code]
    assert (report.worked_on, followed.items()) == (3, 3)
    attempts = followed.pipeline.backend.sql(
        "SELECT status, error_code, count(*) FROM wal_attempts GROUP BY 1, 2 ORDER BY 1"
    )
    assert attempts == [("applied", None, 3), ("failed", "handed_back", 3)]


@pytest.mark.conformance("C-09")
def test_what_was_cut_off_at_the_end_is_claimed_in_small_company(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one round was asked for, the units go back as after any other fault of the store."""
    cut_off(monkeypatch, DatabaseUnreachable("gone"))
    followed.pipeline.put(*[thing(2 * number) for number in range(3)])
    with pytest.raises(DatabaseUnreachable):
        followed.follow(until=FollowUntil.ONCE)
    found = followed.pipeline.backend.sql(
        "SELECT status, lease_expiries, attempts - budget_from FROM wal_records"
    )
    assert found == [("pending", 1, 0)] * 3


def test_while_ingest_is_off_it_records_and_waits(followed: Followed) -> None:
    """The same switch as for a queue; what was recorded runs when it is back."""
    followed.pipeline.switch(is_on=True, dataset="goes-glm")
    followed.pipeline.put(thing())
    followed.between = [lambda: followed.pipeline.switch(is_on=False, dataset="goes-glm")]
    report = followed.follow()
    assert (report.recorded, report.worked_on, followed.items()) == (1, 1, 1)


def test_it_ends_when_a_listing_brings_nothing_and_nothing_is_due(followed: Followed) -> None:
    """Two rounds: one with work, one without."""
    followed.pipeline.put(thing())
    followed.between = [lambda: None] * 9
    report = followed.follow(until=FollowUntil.IDLE)
    assert (report.rounds, report.worked_on) == (2, 1)
