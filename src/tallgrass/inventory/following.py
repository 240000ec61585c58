"""What is asked of following, how each of its buckets answers, and what it came to. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tallgrass.clock import format_instant
from tallgrass.errors import ListingBroken, ListingRefused
from tallgrass.inventory.backfill import OUTSIDE_TIME, BackfillReport
from tallgrass.retry import Backoff

#: Objects that come later than this after their data, or their run, are a backfill's; of slow
#: datasets so many times their cadence.
LOOK_BACK = timedelta(hours=1)
#: Rest between tries of a bucket that cannot be listed.
BUCKET_REST = Backoff(base_s=5.0, cap_s=300.0)
#: So many tries in a row, and a bucket is not waited for where following ends by itself.
_TRIES = 2

#: What can be wrong with one bucket; any other error is nobody's bucket.
BucketError = ListingBroken | ListingRefused


class FollowUntil(StrEnum):
    """When following ends by itself."""

    STOPPED = "stopped"  # never: it is told to
    ONCE = "once"  # after one listing, and the work that is due then
    IDLE = "idle"  # after a listing that brought nothing new, and no work


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """What is to be followed."""

    dataset: str
    #: The first listing begins here, else as far back as the later ones look.
    since: datetime | None = None
    #: How far those look back, at least.
    look_back: timedelta = LOOK_BACK
    prefix: str = ""
    buckets: tuple[str, ...] = ()
    every_s: float = 30.0
    until: FollowUntil = FollowUntil.STOPPED
    #: Following ends when so many units were made due.
    max_events: int | None = None
    #: Units made due in a second, at most.
    rate: float | None = None
    #: One listing that only tells what it would record.
    dry_run: bool = False


@dataclass(slots=True, kw_only=True)
class FollowedBucket:
    """A bucket: from when on it is listed next, and how it answers."""

    uri: str
    since: datetime
    #: Whole listings.
    listings: int = 0
    #: Listings that failed, in all and since the last whole one.
    failed_listings: int = 0
    failures: int = 0
    #: It is left alone until then.
    ask_at_s: float = -math.inf
    down_since: datetime | None = None
    error: BucketError | None = None

    def answered(self, since: datetime) -> bool:
        """Note a whole listing; tell whether the bucket was down before."""
        was_down = self.error is not None
        self.listings += 1
        self.failures, self.ask_at_s = 0, -math.inf
        self.error = self.down_since = None
        # What was listed is recorded: later rounds look for what came in late.
        self.since = max(self.since, since)
        return was_down

    def refused(
        self, error: BucketError, *, now: datetime, now_s: float, random: Callable[[], float]
    ) -> bool:
        """Note a listing that failed; tell whether the bucket answered before.

        Its time is not moved on: the next whole listing has all that was missed.
        """
        is_news = self.error is None
        if is_news:
            self.down_since = now
        self.error = error
        self.failed_listings += 1
        self.failures += 1
        self.ask_at_s = now_s + BUCKET_REST.delay_s(self.failures, random)
        return is_news

    def document(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "bucket": self.uri,
            "listings": self.listings,
            "failed_listings": self.failed_listings,
            "down_since": None if self.down_since is None else format_instant(self.down_since),
            "code": None if self.error is None else self.error.code,
            "message": None if self.error is None else str(self.error),
        }


@dataclass(slots=True)
class FollowReport(BackfillReport):
    """What following came to, added up over all rounds."""

    rounds: int = 0
    worked_on: int = 0
    buckets: Sequence[FollowedBucket] = field(default_factory=list)

    @property
    def down(self) -> list[FollowedBucket]:
        """The buckets that cannot be listed."""
        return [bucket for bucket in self.buckets if bucket.error is not None]

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON value."""
        return {
            "rounds": self.rounds,
            **BackfillReport.document(self),
            "worked_on": self.worked_on,
            "outside_time": self.passed[OUTSIDE_TIME],
            "buckets": [bucket.document() for bucket in self.buckets],
        }


def is_done(request: FollowRequest, report: FollowReport, *, idle: bool) -> bool:
    """Tell whether following ends by itself after a round."""
    if request.until is FollowUntil.ONCE or request.dry_run or report.capped:
        return True
    # As a queue that is not there: who meets it at the start is told, who runs already waits.
    if report.rounds == 1 and all(isinstance(b.error, ListingRefused) for b in report.buckets):
        return True
    waited_for = any(bucket.failures < _TRIES for bucket in report.down)
    return request.until is FollowUntil.IDLE and idle and not waited_for
