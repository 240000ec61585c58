"""Following a bucket: list what is new, record it, work on what is due, and again."""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tallgrass.bootstrap.backfilling import open_inventory
from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.inventory import buckets_of, listed_pages, open_listing
from tallgrass.bootstrap.replaying import OwnWorker, own_worker
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.clock import Clock, format_instant, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import GuardRefused, InvalidInput, TransientError
from tallgrass.evidence.listing import Listing
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import Action, GateRequest, Rule, require_admitted
from tallgrass.governance.policy import Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.inventory.backfill import OUTSIDE_TIME, Backfill, BackfillReport, Wanted
from tallgrass.ledger.vocabulary import Intent
from tallgrass.retry import Backoff
from tallgrass.telemetry.recorder import NOBODY, Recorder

#: Objects that come later than this after their data, or their run, are a backfill's; of slow
#: datasets so many times their cadence.
LOOK_BACK = timedelta(hours=1)
_CADENCES = 3
#: What passes between asking for a time and looking at the clock.
_MOMENT = timedelta(minutes=1)
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
    #: The first listing begins here, else as far back as the later ones look.
    since: datetime | None = None
    #: How far those look back, at least.
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
    #: Passed over, as their data or runs lie outside the time of their listing.
    outside_time: int = 0

    def add(self, round_of: BackfillReport) -> None:
        """Count a listing."""
        self.rounds += 1
        self.listed += round_of.listed
        self.recorded += round_of.recorded
        self.changed += round_of.changed
        self.outside_time += round_of.passed[OUTSIDE_TIME]


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """One call of `follow`, with what it needs from outside."""

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
    look_back = max(request.look_back, look_back_of(dataset))
    since = request.since or outside.clock() - look_back
    request = replace(request, since=since, look_back=look_back)
    with closing(open_current_stores(config, catalogue=catalogue, recorder=recorder)) as stores:
        _admit(config, stores, catalogue, dataset, since, outside.clock())
        rounds = _Rounds(config, stores, catalogue, request, outside)
        with own_worker(config, stores, catalogue, recorder=recorder) as worker:
            rounds.note_start(buckets)
            return rounds.run(listing, dataset, buckets, worker, since)


def look_back_of(dataset: Dataset) -> timedelta:
    """Return how long after their data, or their run, objects of a dataset may come."""
    cadences = timedelta(seconds=_CADENCES * (dataset.cadence_s or 0.0))
    behind = 0 if dataset.folders is None else dataset.folders.behind_hours
    return max(LOOK_BACK, cadences, timedelta(hours=behind))


class _Rounds:
    def __init__(
        self,
        config: Config,
        stores: Stores,
        catalogue: Catalogue,
        request: FollowRequest,
        outside: Following,
    ) -> None:
        self._config = config
        self._stores = stores
        self._catalogue = catalogue
        self._request = request
        self._outside = outside
        self._run_id = str(uuid.uuid4())
        self.report = FollowReport()

    def note_start(self, buckets: tuple[str, ...]) -> None:
        """Tell the log who follows what."""
        request = self._request
        detail = {
            "since": None if request.since is None else format_instant(request.since),
            "look_back_s": request.look_back.total_seconds(),
            "prefix": request.prefix,
            "buckets": list(buckets),
            "run_id": self._run_id,
        }
        self._stores.audit.append([_entry(self._config, "follow_start", request.dataset, detail)])

    def run(
        self,
        listing: Listing,
        dataset: Dataset,
        buckets: tuple[str, ...],
        worker: OwnWorker,
        since: datetime,
    ) -> FollowReport:
        """List, work and rest by turns."""
        outside, request, failures = self._outside, self._request, 0
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
        by_run = dataset.key.reference is not None
        forecast = 0 if by_run or dataset.folders is None else dataset.folders.ahead_hours
        wanted = Wanted(
            dataset=dataset.id,
            since=since,
            until=self._outside.clock() + _AHEAD + timedelta(hours=forecast),
            prefix=self._request.prefix,
            by_run=True,
        )
        backfill = Backfill(
            open_inventory(
                self._config,
                self._stores,
                self._catalogue,
                self._run_id,
                Intent.INGEST,
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


def _admit(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    dataset: Dataset,
    since: datetime,
    now: datetime,
) -> None:
    """Refuse what policy does, and keep that in the log."""
    policy = open_policies(config, catalogue).of(dataset.id)
    try:
        _require_allowed(dataset, policy, since, now)
    except GuardRefused as error:
        entry = _entry(config, "follow_refused", dataset.id, {"guard": error.guard})
        stores.audit.append([entry])
        raise


def _require_allowed(
    dataset: Dataset, policy: Policy | None, since: datetime, now: datetime
) -> None:
    """Refuse a dataset that policy rejects, and what would go round its approvers.

    A switch stops nothing here: what is recorded waits until it is back.
    """
    nothing_off = SwitchedOff(())
    require_admitted(
        GateRequest(
            action=Action.INGEST, dataset=dataset.id, policy=policy, switched_off=nothing_off
        )
    )
    wanted = 0 if policy is None else policy.approvals_needed
    if wanted and since < now - look_back_of(dataset) - _MOMENT:
        message = (
            f"data from {format_instant(since)} on are a backfill, which needs approvers:"
            " follow without --since, and bring the rest with `tallgrass backfill`"
        )
        raise GuardRefused(message, guard=Rule.APPROVAL_MISSING.value)


def _entry(config: Config, action: str, dataset: str, detail: Mapping[str, object]) -> AuditEntry:
    return AuditEntry(
        actor=config.text("worker.id"),
        action=action,
        subject=f"follow:{dataset}",
        reason="follow",
        detail=detail,
    )
