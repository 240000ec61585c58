"""The rounds of following: each bucket is listed, then what is due is worked on, and again.

A bucket that cannot be listed is left alone for a while. It keeps neither the other buckets nor the
work from going on, and its own time stands still until it answers.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.bootstrap.backfilling import open_inventory
from tallgrass.bootstrap.inventory import ListingPace, listed_pages
from tallgrass.bootstrap.replaying import OwnWorker
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import ListingBroken, ListingRefused, TransientError
from tallgrass.evidence.listing import Listing
from tallgrass.inventory.backfill import Backfill, Wanted
from tallgrass.inventory.following import (
    FollowedBucket,
    FollowReport,
    FollowRequest,
    FollowUntil,
    is_done,
)
from tallgrass.ledger.vocabulary import Intent
from tallgrass.retry import Backoff

#: Data of a clock that is ahead of ours.
_AHEAD = timedelta(hours=1)
#: Rest between tries of a database that is down.
_WAITING = Backoff(base_s=1.0, cap_s=60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """One call of `follow`, with what it needs from outside."""

    stop: Callable[[], bool] = lambda: False
    #: After each listing and its work.
    progress: Callable[[FollowReport], None] = lambda _report: None
    #: Something that all need is down and is waited for.
    waiting: Callable[[TransientError], None] = lambda _error: None
    #: A bucket cannot be listed from now on, and can be again: each is told once.
    down: Callable[[FollowedBucket], None] = lambda _bucket: None
    back: Callable[[FollowedBucket], None] = lambda _bucket: None
    sleep: Callable[[float], object] = time.sleep
    random: Callable[[], float] = lambda: 1.0
    clock: Clock = system_clock
    monotonic: Callable[[], float] = time.monotonic


class FollowRounds:
    """Lists, works and rests by turns; without a worker it lists and only tells."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        catalogue: Catalogue,
        request: FollowRequest,
        outside: Following,
        *,
        listing: Listing,
        buckets: tuple[str, ...],
        since: datetime,
    ) -> None:
        self.run_id = str(uuid.uuid4())
        self._config = config
        self._catalogue = catalogue
        self._dataset = catalogue.named(request.dataset)
        self._request = request
        self._outside = outside
        self._listing = listing
        self._pace = ListingPace(request.rate, sleep=outside.sleep, monotonic=outside.monotonic)
        self._ledger = open_inventory(
            config, stores, catalogue, self.run_id, Intent.INGEST, dry_run=request.dry_run
        )
        self.report = FollowReport(
            buckets=[FollowedBucket(uri=uri, since=since) for uri in buckets]
        )

    def run(self, worker: OwnWorker | None) -> FollowReport:
        """Go on until it is told to stop, or until its work is done."""
        outside, report, failures = self._outside, self.report, 0
        while not outside.stop():
            began, before = outside.monotonic(), report.due + report.worked_on
            try:
                self._list(worker)
                self._work(worker)
            except TransientError as error:
                if self._request.until is FollowUntil.ONCE:
                    raise
                failures += 1
                outside.waiting(error)
                outside.sleep(_WAITING.delay_s(failures, outside.random))
                continue
            failures = 0
            outside.progress(report)
            if is_done(self._request, report, idle=before == report.due + report.worked_on):
                break
            outside.sleep(max(0.0, self._request.every_s - (outside.monotonic() - began)))
        return report

    def _list(self, worker: OwnWorker | None) -> None:
        """Record what is new in each bucket that is not left alone for now."""
        outside = self._outside
        self.report.rounds += 1
        for bucket in self.report.buckets:
            if bucket.ask_at_s > outside.monotonic():
                continue
            now = outside.clock()
            try:
                self._take(bucket, worker)
            except (ListingBroken, ListingRefused) as error:
                if bucket.refused(error, now=now, now_s=outside.monotonic(), random=outside.random):
                    outside.down(bucket)
                continue
            if outside.stop() or self.report.capped:
                return  # in its midst
            if bucket.answered(now - self._request.look_back):
                outside.back(bucket)

    def _take(self, bucket: FollowedBucket, worker: OwnWorker | None) -> None:
        """Record what a bucket lists; with a rate, work on it as it comes."""
        outside, wanted = self._outside, self._wanted(bucket.since)
        backfill = Backfill(
            self._ledger,
            self._catalogue,
            wanted,
            clock=outside.clock,
            providers=self._config.rules.providers,
            due_max=self._request.max_events,
            report=self.report,
        )
        for page in listed_pages(self._listing, self._dataset, wanted, (bucket.uri,)):
            for part in self._pace.parts(page):
                if outside.stop():
                    return
                due = backfill.take(part)
                if self.report.capped:
                    return
                if due and self._request.rate is not None:
                    self._work(worker)
                    outside.progress(self.report)
                self._pace.rest(due)

    def _wanted(self, since: datetime) -> Wanted:
        ahead = _AHEAD + timedelta(hours=_hours_ahead(self._dataset))
        return Wanted(
            dataset=self._dataset.id,
            since=since,
            until=self._outside.clock() + ahead,
            prefix=self._request.prefix,
            by_run=True,
        )

    def _work(self, worker: OwnWorker | None) -> None:
        """Work on what is due now."""
        while worker is not None and not self._outside.stop():
            worker.recover()
            units = worker.run_due()
            if not units:
                return
            self.report.worked_on += units


def _hours_ahead(dataset: Dataset) -> int:
    """Return how far the folders of a dataset lie ahead of time; those of runs do not."""
    by_run = dataset.key.reference is not None
    return 0 if by_run or dataset.folders is None else dataset.folders.ahead_hours
