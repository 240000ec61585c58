"""Following the buckets of a dataset: what may be followed, and all that it works with."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.follow_rounds import Following, FollowRounds
from tallgrass.bootstrap.inventory import buckets_of, open_listing
from tallgrass.bootstrap.replaying import own_worker
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.clock import format_instant
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.errors import GuardRefused, InvalidInput
from tallgrass.evidence.listing import Persistence
from tallgrass.governance.audit import AuditEntry
from tallgrass.governance.gate import Action, GateRequest, Rule, require_admitted
from tallgrass.governance.policy import Policy
from tallgrass.governance.switches import SwitchedOff
from tallgrass.inventory.following import LOOK_BACK, FollowReport, FollowRequest
from tallgrass.telemetry.recorder import NOBODY, Recorder

_CADENCES = 3
#: What passes between asking for a time and looking at the clock.
_MOMENT = timedelta(minutes=1)
#: A bucket that hangs keeps the others waiting for as long as it is tried.
_BRIEFLY = Persistence(tries=2)


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
    listing = open_listing(config, sleep=outside.sleep, persistence=_BRIEFLY)
    buckets = buckets_of(dataset, request.buckets)
    look_back = max(request.look_back, look_back_of(dataset))
    since = request.since or outside.clock() - look_back
    request = replace(request, since=since, look_back=look_back)
    stores = open_current_stores(
        config, read_only=request.dry_run, catalogue=catalogue, recorder=recorder
    )
    with closing(stores):
        _admit(config, stores, catalogue, request, outside.clock())
        rounds = FollowRounds(
            config,
            stores,
            catalogue,
            request,
            outside,
            listing=listing,
            buckets=buckets,
            since=since,
        )
        if request.dry_run:
            return rounds.run(None)
        with own_worker(config, stores, catalogue, recorder=recorder) as worker:
            _note_start(config, stores, request, buckets, rounds.run_id)
            return rounds.run(worker)


def look_back_of(dataset: Dataset) -> timedelta:
    """Return how long after their data, or their run, objects of a dataset may come."""
    cadences = timedelta(seconds=_CADENCES * (dataset.cadence_s or 0.0))
    behind = 0 if dataset.folders is None else dataset.folders.behind_hours
    return max(LOOK_BACK, cadences, timedelta(hours=behind))


def _note_start(
    config: Config, stores: Stores, request: FollowRequest, buckets: tuple[str, ...], run_id: str
) -> None:
    """Tell the log who follows what."""
    detail = {
        "since": None if request.since is None else format_instant(request.since),
        "look_back_s": request.look_back.total_seconds(),
        "prefix": request.prefix,
        "buckets": list(buckets),
        "max_events": request.max_events,
        "run_id": run_id,
    }
    stores.audit.append([_entry(config, "follow_start", request.dataset, detail)])


def _require_times(dataset: Dataset, request: FollowRequest) -> None:
    """Refuse to list whole buckets again and again."""
    if dataset.folders is None and not request.prefix:
        raise InvalidInput(
            f"keys of {dataset.id} do not begin with a time, so each listing would be of the"
            " whole bucket: say which part with --prefix"
        )


def _admit(
    config: Config, stores: Stores, catalogue: Catalogue, request: FollowRequest, now: datetime
) -> None:
    """Refuse what policy does, and keep that in the log; of a dry run nothing is kept."""
    dataset = catalogue.named(request.dataset)
    policy = open_policies(config, catalogue).of(dataset.id)
    try:
        _require_allowed(dataset, policy, request.since or now, now)
    except GuardRefused as error:
        if not request.dry_run:
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
