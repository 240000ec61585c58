"""Following a bucket: list what is new, record it, work on what is due, and again."""

import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tallgrass.bootstrap.backfilling import open_inventory
from tallgrass.bootstrap.inventory import buckets_of, listed_pages, open_listing
from tallgrass.bootstrap.replaying import OwnWorker, own_worker
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import InvalidInput, TransientError
from tallgrass.evidence.listing import Listing
from tallgrass.inventory.backfill import Backfill, BackfillReport, Wanted
from tallgrass.ledger.vocabulary import Intent
from tallgrass.retry import Backoff
from tallgrass.telemetry.recorder import NOBODY, Recorder

#: Objects that come later than this after their data are a backfill's.
LOOK_BACK = timedelta(hours=1)
#: Data of a clock that is ahead of ours.
_AHEAD = timedelta(hours=1)
#: Rest between tries of something that is down.
_WAITING = Backoff(base_s=1.0, cap_s=60.0)


class FollowUntil(StrEnum):
    """When following ends by itself."""

    STOPPED = "stopped"  # never: it is told to
    ONCE = "once"  # after one listing, and the work that is due then
    IDLE = "idle"  # after a listing that brought nothing new, and no work


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """What is to be followed."""

    dataset: str
    #: The first listing begins here; the later ones look back `look_back`.
    since: datetime
    look_back: timedelta = LOOK_BACK
    prefix: str = ""
    buckets: tuple[str, ...] = ()
    every_s: float = 30.0
    until: FollowUntil = FollowUntil.STOPPED


@dataclass(slots=True)
class FollowReport:
    """What following came to, added up."""

    rounds: int = 0
    listed: int = 0
    recorded: int = 0
    changed: int = 0
    worked_on: int = 0

    def add(self, round_of: BackfillReport) -> None:
        """Count a listing."""
        self.rounds += 1
        self.listed += round_of.listed
        self.recorded += round_of.recorded
        self.changed += round_of.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What following meets outside."""

    stop: Callable[[], bool] = lambda: False
    #: After each listing and its work.
    progress: Callable[[FollowReport], None] = lambda _report: None
    #: Something is down and is waited for.
    waiting: Callable[[TransientError], None] = lambda _error: None
    sleep: Callable[[float], object] = time.sleep
    random: Callable[[], float] = lambda: 1.0
    clock: Clock = system_clock
    monotonic: Callable[[], float] = time.monotonic


def follow(
    config: Config,
    catalogue: Catalogue,
    request: FollowRequest,
    outside: Following,
    *,
    recorder: Recorder = NOBODY,
) -> FollowReport:
    """Keep the catalog up to date until it is told to stop, or until its work is done."""
    dataset = catalogue.named(request.dataset)
    _require_times(dataset, request)
    # Before the stores: settings that cannot be used leave no lease behind.
    listing = open_listing(config, sleep=outside.sleep)
    buckets = buckets_of(dataset, request.buckets)
    with (
        closing(open_current_stores(config, catalogue=catalogue, recorder=recorder)) as stores,
        own_worker(config, stores, catalogue, recorder=recorder) as worker,
    ):
        rounds = _Rounds(config, stores, catalogue, request, outside, recorder)
        return rounds.run(listing, dataset, buckets, worker)


class _Rounds:
    def __init__(
        self,
        config: Config,
        stores: Stores,
        catalogue: Catalogue,
        request: FollowRequest,
        outside: Following,
        recorder: Recorder,
    ) -> None:
        self._config = config
        self._stores = stores
        self._catalogue = catalogue
        self._request = request
        self._outside = outside
        self._recorder = recorder
        self._run_id = str(uuid.uuid4())
        self.report = FollowReport()

    def run(
        self, listing: Listing, dataset: Dataset, buckets: tuple[str, ...], worker: OwnWorker
    ) -> FollowReport:
        """List, work and rest by turns."""
        outside, request, failures, since = self._outside, self._request, 0, self._request.since
        while not outside.stop():
            began, now = outside.monotonic(), outside.clock()
            try:
                brought = self._listed(listing, dataset, buckets, since)
                worked = self._work(worker)
            except TransientError as error:
                if request.until is FollowUntil.ONCE:
                    raise
                failures += 1
                outside.waiting(error)
                outside.sleep(_WAITING.delay_s(failures, outside.random))
                continue
            failures = 0
            # What was listed is recorded: later rounds look for what came in late.
            since = max(since, now - request.look_back)
            outside.progress(self.report)
            idle = request.until is FollowUntil.IDLE and not (brought or worked)
            if idle or request.until is FollowUntil.ONCE:
                break
            outside.sleep(max(0.0, request.every_s - (outside.monotonic() - began)))
        return self.report

    def _listed(
        self, listing: Listing, dataset: Dataset, buckets: tuple[str, ...], since: datetime
    ) -> int:
        """Record what is new; return how much."""
        forecast = 0 if dataset.folders is None else dataset.folders.ahead_hours
        wanted = Wanted(
            dataset=dataset.id,
            since=since,
            until=self._outside.clock() + _AHEAD + timedelta(hours=forecast),
            prefix=self._request.prefix,
        )
        backfill = Backfill(
            open_inventory(
                self._config,
                self._stores,
                self._catalogue,
                self._run_id,
                Intent.INGEST,
                recorder=self._recorder,
            ),
            self._catalogue,
            wanted,
            clock=self._outside.clock,
            providers=self._config.rules.providers,
        )
        try:
            for page in listed_pages(listing, dataset, wanted, buckets):
                if self._outside.stop():
                    break
                backfill.take(page)
        finally:
            self.report.add(backfill.report)
        return backfill.report.due

    def _work(self, worker: OwnWorker) -> int:
        """Work on what is due now; return how much that was."""
        worked = 0
        while not self._outside.stop():
            worker.recover()
            units = worker.run_due()
            if not units:
                break
            worked += units
            self.report.worked_on += units
        return worked


def _require_times(dataset: Dataset, request: FollowRequest) -> None:
    """Refuse to list whole buckets again and again."""
    if dataset.folders is None and not request.prefix:
        raise InvalidInput(
            f"keys of {dataset.id} do not begin with a time, so each listing would be of the"
            " whole bucket: say which part with --prefix"
        )
