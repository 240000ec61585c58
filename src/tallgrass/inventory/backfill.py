"""Backfill: of the objects that a listing tells, those that the ledger lacks become due.

Page by page, so that memory stays flat and whatever breaks off is taken up by running it again:
what was recorded is known then.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.clock import format_instant
from tallgrass.datasets.catalogue import Catalogue, IgnoredKey
from tallgrass.errors import InvalidInput
from tallgrass.governance.plan_lines import read_plan_line
from tallgrass.inventory.listed import ListedObject
from tallgrass.ledger.object_uri import SCHEMES, bucket_and_key, canonical_object_uri
from tallgrass.ledger.receipt import Action, Decision
from tallgrass.ledger.replay_reasons import CustomReason, require_reason
from tallgrass.ledger.unit import PROVIDERS, EventMetadata, IngestUnit, ObjectReference

#: Of approvals.
PURPOSE = "backfill"
#: The queue that units name which no message brought.
LISTING = "listing"


class PassedOver(StrEnum):
    """Why a listed object is passed over, beside its dataset's reasons and codes of bad keys."""

    OTHER_DATASET = "other_dataset"
    OUTSIDE_TIME = "outside_time"
    OUTSIDE_PREFIX = "outside_prefix"
    UNROUTABLE = "unroutable"


OUTSIDE_TIME = PassedOver.OUTSIDE_TIME.value
OUTSIDE_PREFIX = PassedOver.OUTSIDE_PREFIX.value

_PROVIDERS = {scheme: provider for provider, scheme in SCHEMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which listed objects are meant: data that start from `since` on and before `until`."""

    dataset: str
    since: datetime | None = None
    until: datetime | None = None
    #: How their keys begin.
    prefix: str = ""
    #: Of model output the time of the run counts, and not that which it forecasts.
    by_run: bool = False

    def has(self, start: datetime) -> bool:
        """Tell whether data that start then are meant."""
        after = self.since is None or start >= self.since
        return after and (self.until is None or start < self.until)


class FormerBuckets:
    """Buckets whose objects moved: they are known under the present name alone."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._present = {
            f"{scheme}://{former}/": f"{scheme}://{present}/"
            for dataset in catalogue.datasets
            for scheme in (SCHEMES.get(dataset.provider, dataset.provider),)
            for former, present in dataset.aliases.items()
        }
        self._former = tuple(self._present)

    def present(self, listed: ListedObject) -> ListedObject:
        """Return the object under its bucket's present name."""
        uri = listed.uri
        if not uri.startswith(self._former):
            return listed
        key = uri.find("/", uri.find("://") + 3) + 1
        return listed._replace(uri=self._present[uri[:key]] + uri[key:])


def unit_of(
    listed: ListedObject,
    wanted: Wanted,
    catalogue: Catalogue,
    *,
    now: datetime,
    providers: Collection[str] = PROVIDERS,
) -> IngestUnit | str:
    """Return the unit that a listed object is, or why it is passed over.

    The listing's time of the object stands for that of its event, which nobody heard of; where the
    listing tells none, it is now.
    """
    try:
        uri = canonical_object_uri(listed.uri)
        scheme = uri.partition(":")[0]
        provider = _PROVIDERS.get(scheme, scheme)
        bucket, key = bucket_and_key(uri)
        if not key.startswith(wanted.prefix):
            return OUTSIDE_PREFIX
        found = catalogue.route(provider, bucket, key)
        if found is None:
            return PassedOver.UNROUTABLE.value
        if found.dataset.id != wanted.dataset:
            return PassedOver.OTHER_DATASET.value
        if isinstance(found, IgnoredKey):
            return found.reason
        if not wanted.has((wanted.by_run and found.reference) or found.start):
            return OUTSIDE_TIME
        return IngestUnit.of(
            dataset=found.dataset.id,
            object_uri=uri,
            provider=provider,
            queue=LISTING,
            time_range_start=found.start,
            time_range_end=found.end,
            event=EventMetadata(event_time=listed.modified or now),
            object_ref=ObjectReference(etag=listed.etag, size=listed.size),
            providers=providers,
        )
    except InvalidInput as exc:
        return exc.code


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOrder:
    """A backfill that somebody asks for, as the log keeps it."""

    run_id: str
    wanted: Wanted
    buckets: tuple[str, ...]
    #: SHA-256 of the file that lists the objects, where one does.
    listing_sha256: str | None = None
    reason: str = "backfill"
    change_ref: str | None = None
    incident_ref: str | None = None
    due_max: int | None = None
    #: Approvers that policy wants for it.
    approvals_needed: int = 0

    @property
    def subject(self) -> str:
        """Its name in the log."""
        return f"backfill:{self.run_id}"

    def told(self) -> dict[str, Any]:
        """Return what it asks for, as a JSON value."""
        since, until = self.wanted.since, self.wanted.until
        return {
            "dataset": self.wanted.dataset,
            "since": None if since is None else format_instant(since),
            "until": None if until is None else format_instant(until),
            "prefix": self.wanted.prefix,
            "buckets": list(self.buckets),
            "listing_sha256": self.listing_sha256,
            "change_ref": self.change_ref,
            "incident_ref": self.incident_ref,
            "max_events": self.due_max,
        }

    def plan(self) -> bytes:
        """Return what an approval is bound to: the order without its run, as one line of JSON."""
        told = {"purpose": PURPOSE, "approvals_needed": self.approvals_needed, **self.told()}
        return canonical_bytes({**told, "reason": self.reason}) + b"\n"


def require_backfill_reason(reason: str, custom: Mapping[str, CustomReason]) -> None:
    """Refuse a reason that is none, or that nobody knows."""
    if reason == "none":
        message = "a backfill needs a reason other than 'none'"
        raise InvalidInput(message, code="unknown_replay_reason")
    require_reason(reason, dict(custom))


def backfill_plan(data: bytes) -> tuple[dict[str, Any], str] | None:
    """Return what the bytes of an order's plan say, and their SHA-256; None for another plan."""
    said = read_plan_line(data, PURPOSE)
    return None if said is None else (said, sha256_hex(data))


class InventoryLedger(Protocol):
    """The ledger as a backfill needs it; each verb is one transaction."""

    def unsettled(self, listed: Sequence[ListedObject]) -> Sequence[int]:
        """Return the places of those that it lacks, or knows with another etag or size."""

    def record_due(self, units: Sequence[IngestUnit]) -> Sequence[Decision]:
        """Make units due that are new, or whose object is; one decision each, in order."""


@dataclass(slots=True)
class BackfillReport:
    """What a backfill came to.

    listed = known + recorded + changed + waited_for_message + left + passed over
    """

    listed: int = 0
    #: In the ledger as they are listed.
    known: int = 0
    #: New to the ledger, and due.
    recorded: int = 0
    #: Overwritten since the ledger saw them, and due again.
    changed: int = 0
    #: Waited for their message with the same object: the listing makes them due in its place.
    waited_for_message: int = 0
    #: Overwritten, but left as they are, by what the ledger decided.
    left: Counter[str] = field(default_factory=Counter)
    #: No unit of this backfill, by reason.
    passed: Counter[str] = field(default_factory=Counter)
    #: Whether it stopped at its cap, with more to do.
    capped: bool = False

    @property
    def due(self) -> int:
        """How many units it made due."""
        return self.recorded + self.changed + self.waited_for_message

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON value."""
        return {
            "listed": self.listed,
            "known": self.known,
            "recorded": self.recorded,
            "changed": self.changed,
            "waited_for_message": self.waited_for_message,
            "left": dict(sorted(self.left.items())),
            "passed_over": dict(sorted(self.passed.items())),
            "capped": self.capped,
        }


class Backfill:
    """Takes pages of a listing; everything is passed in."""

    def __init__(
        self,
        ledger: InventoryLedger,
        catalogue: Catalogue,
        wanted: Wanted,
        *,
        clock: Callable[[], datetime],
        providers: Collection[str] = PROVIDERS,
        due_max: int | None = None,
        report: BackfillReport | None = None,
    ) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._former = FormerBuckets(catalogue)
        self._wanted = wanted
        self._clock = clock
        self._providers = providers
        self._due_max = due_max
        #: Another one's, where several add up.
        self.report = BackfillReport() if report is None else report

    def take(self, page: Sequence[ListedObject]) -> int:
        """Make due what the ledger lacks of a page; return how much that was.

        At the cap the rest of the page is left, and `report.capped` says so.
        """
        report, before = self.report, self.report.due
        objects = [self._former.present(each) for each in page]
        # First what the ledger knows: reading a key costs three times as much as asking for it.
        # What may not stand in a query is no name of an object, or rare.
        odd = [each for each in objects if not each.uri.isprintable()]
        asked = [each for each in objects if each.uri.isprintable()] if odd else objects
        unsettled = [asked[place] for place in self._ledger.unsettled(asked)] + odd
        report.listed += len(page)
        report.known += len(page) - len(unsettled)
        now = self._clock()
        units: list[IngestUnit] = []
        for each in unsettled:
            unit = unit_of(each, self._wanted, self._catalogue, now=now, providers=self._providers)
            if isinstance(unit, str):
                report.passed[unit] += 1
            else:
                units.append(unit)
        self._record(units)
        return report.due - before

    def _record(self, units: list[IngestUnit]) -> None:
        report = self.report
        # The oldest first: ids sort by data time.
        units.sort(key=lambda unit: unit.wal_id)
        while units:
            room = len(units) if self._due_max is None else self._due_max - report.due
            if room <= 0:
                report.listed -= len(units)
                report.capped = True
                return
            # The ledger leaves some as they are: those take no room from the ones behind them.
            for decision in self._ledger.record_due(units[:room]):
                _count(report, decision)
            del units[:room]


def _count(report: BackfillReport, decision: Decision) -> None:
    if decision.action is Action.CLAIM:
        report.recorded += 1
    elif decision.action is Action.PARK:
        if decision.adopts_object:
            report.changed += 1
        else:
            report.waited_for_message += 1
    elif decision.action is Action.DUPLICATE:
        report.known += 1
    else:
        report.left[decision.action.value] += 1
