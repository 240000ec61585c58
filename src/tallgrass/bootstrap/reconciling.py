"""Reconciliation over the configured buckets and database: nothing here writes."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.inventory import (
    ListingPace,
    buckets_of,
    listed_pages,
    open_listing,
    pages_of_file,
)
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.definition import Dataset
from tallgrass.evidence.listing import Page
from tallgrass.evidence.read_ahead import read_ahead
from tallgrass.governance.switches import SwitchScope
from tallgrass.inventory.backfill import (
    OUTSIDE_PREFIX,
    OUTSIDE_TIME,
    FormerBuckets,
    Wanted,
    unit_of,
)
from tallgrass.inventory.cadence import Cadence, instant_of
from tallgrass.inventory.listed import ListedObject
from tallgrass.inventory.reconcile import (
    Finding,
    Judging,
    Kind,
    changed_since,
    is_recent,
    judge,
    with_listed,
)
from tallgrass.ledger.identity import first_wal_id_of, start_of_wal_id
from tallgrass.ledger.object_uri import bucket_and_key
from tallgrass.storage.reconcile_reader import ReconcileReader, RecordRow, entry_of
from tallgrass.storage.sorted_ids import SortedIds

#: How long a notification, a worker or a message may take before anybody worries.
GRACE = timedelta(minutes=15)

_NOT_ASKED_FOR = (OUTSIDE_PREFIX, OUTSIDE_TIME)

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRequest:
    """What somebody wants compared."""

    dataset: str
    #: Data that start from here on and before `until`; both tell whole milliseconds.
    since: datetime
    until: datetime
    #: Only objects whose key begins so.
    prefix: str = ""
    #: Only these buckets of the dataset; none: all of its provider.
    buckets: tuple[str, ...] = ()
    #: A file that lists the objects, in place of the bucket.
    listing: Path | None = None
    #: Ledger and catalog alone: no bucket is asked.
    catalog_only: bool = False
    grace: timedelta = GRACE
    #: Listed objects compared in a second, at most.
    rate: float | None = None


@dataclass(slots=True)
class ReconcileReport:
    """What was compared, and what came of it; whole once all findings were taken."""

    counts: Counter[Kind] = field(default_factory=Counter)
    #: Objects of the window in the bucket; those that are no units are not among them.
    listed: int = 0
    #: Listed objects that are no units, by reason.
    ignored: Counter[str] = field(default_factory=Counter)
    #: Listed objects that are too young to be missed.
    recent: int = 0
    records: int = 0
    #: Failed units by the code of their last error.
    failed_codes: Counter[str] = field(default_factory=Counter)
    #: Whether the window is too long for its cadence.
    gaps_unjudged: bool = False


class Reconciliation:
    """Compares bucket, ledger and catalog for one dataset and one window of data time."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        request: ReconcileRequest,
        *,
        catalogue: Catalogue | None = None,
        progress: Progress = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], object] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = ReconcileReport()
        self._config = config
        self._request = request
        self._catalogue = catalogue or open_catalogue(config)
        self._dataset = self._catalogue.named(request.dataset)
        self._wanted = Wanted(
            dataset=request.dataset,
            since=request.since,
            until=request.until,
            prefix=request.prefix,
        )
        #: Ids begin with the time of the data: those of the window, and the first behind it.
        self._first_id = first_wal_id_of(request.since)
        self._end_id = first_wal_id_of(request.until)
        self._former = FormerBuckets(self._catalogue)
        self._reader = ReconcileReader(stores.database)
        self._progress = progress
        self._stop = stop
        self._pace = ListingPace(request.rate, sleep=sleep, monotonic=monotonic)
        now = self._reader.now()
        self._judging = Judging(
            dataset=request.dataset,
            now=now,
            grace=request.grace,
            ingest_off=stores.switches.switched_off(SwitchScope.INGEST).stops(request.dataset),
            replay_off=stores.switches.switched_off(SwitchScope.REPLAY).stops(request.dataset),
        )
        self._cadence = _cadence(self._dataset, request, now)
        #: When the newest object of a file was written.
        self._newest = datetime.min.replace(tzinfo=UTC)
        #: Buckets that were listed, as `scheme://name`, by their names of today.
        self._buckets: set[str] = set()
        #: Those that somebody chose: on all sides nothing else is looked at. None: all.
        self._chosen: frozenset[str] | None = None
        if request.buckets:
            self._chosen = frozenset(buckets_of(self._dataset, request.buckets))

    def findings(self) -> Iterator[Finding]:
        """Yield everything that is not as it should be; once."""
        for finding in self._found():
            self.report.counts[finding.kind] += 1
            if finding.kind is Kind.FAILED and finding.error_code is not None:
                self.report.failed_codes[finding.error_code] += 1
            yield finding

    def _found(self) -> Iterator[Finding]:
        with SortedIds() as ids:
            if not self._request.catalog_only:
                for part in self._parts():
                    yield from self._compared(part, ids)
                    self._pace.rest(len(part))
                if self._stop():
                    return
                self._judging = replace(self._judging, listed_at=self._listed_at())
            for record, listed in with_listed(self._entries(), ids):
                yield from self._judged(record, listed=listed)
        yield from self._orphans()
        yield from self._gaps()

    # --- the bucket -------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Page]:
        """Yield what is listed, as much at once as the rate allows, until it is told to stop."""
        for page in self._pages():
            for part in self._pace.parts(page):
                if self._stop():
                    return
                yield part

    def _pages(self) -> Iterator[Page]:
        request, dataset = self._request, self._dataset
        buckets = buckets_of(dataset, request.buckets)
        if request.listing is not None:
            return pages_of_file(request.listing, buckets)
        self._buckets.update(buckets)
        listing = open_listing(self._config)
        return read_ahead(listed_pages(listing, dataset, self._wanted, buckets))

    def _listed_at(self) -> datetime:
        """Return when the listing began: of a file no more is known than its newest object."""
        return self._judging.now if self._request.listing is None else self._newest

    def _compared(self, page: Page, ids: SortedIds) -> Iterator[Finding]:
        """Look a page of listed objects up in the ledger."""
        objects = [self._former.present(listed) for listed in page]
        if self._request.listing is not None:
            self._take_note(objects)
        # What may not stand in a query is no name of an object, or rare.
        asked = [each for each in objects if each.uri.isprintable()]
        unknown = {each.uri: each for each in objects}
        changed: list[tuple[ListedObject, str]] = []
        for known in self._reader.known(asked):
            listed = asked[known.place]
            unknown.pop(listed.uri, None)
            if known.dataset == self._dataset.id and self._is_asked_for(listed.uri, known.wal_id):
                ids.add(known.wal_id)
                self.report.listed += 1
                self._see(listed.uri, known.wal_id)
                if known.differs:
                    changed.append((listed, known.wal_id))
        yield from self._changed(changed)
        for listed in unknown.values():
            yield from self._unknown(listed)
        self._progress(self.report.listed)

    def _take_note(self, objects: Sequence[ListedObject]) -> None:
        """Remember which buckets a file names, and how new it is by the newest object in it."""
        self._buckets.update(_bucket_uri(listed.uri) for listed in objects)
        times = [listed.modified for listed in objects if listed.modified is not None]
        self._newest = max([self._newest, *times])

    def _changed(self, objects: list[tuple[ListedObject, str]]) -> Iterator[Finding]:
        """Judge objects that the ledger knows with another etag or size."""
        references = self._reader.references([each.uri for each, _ in objects]) if objects else {}
        for listed, wal_id in objects:
            known = references.get(listed.uri)
            difference = None if known is None else changed_since(listed, known)
            if difference is not None and is_recent(listed, self._judging):
                self.report.recent += 1
            elif difference is not None:
                yield Finding(
                    kind=Kind.OBJECT_CHANGED,
                    dataset=self._dataset.id,
                    detail=difference,
                    wal_id=wal_id,
                    object_uri=listed.uri,
                    start=start_of_wal_id(wal_id),
                    listed=listed,
                )

    def _unknown(self, listed: ListedObject) -> Iterator[Finding]:
        """Judge an object that the ledger does not know."""
        now = self._judging.now
        providers = self._config.rules.providers
        unit = unit_of(listed, self._wanted, self._catalogue, now=now, providers=providers)
        if isinstance(unit, str):
            if unit not in _NOT_ASKED_FOR:
                self.report.ignored[unit] += 1
            return
        if not self._is_chosen(unit.object_uri):
            return
        self.report.listed += 1
        self._see(unit.object_uri, unit.wal_id)
        if is_recent(listed, self._judging):
            self.report.recent += 1
            return
        yield Finding(
            kind=Kind.NEVER_NOTIFIED,
            dataset=self._dataset.id,
            detail="listed, but the ledger does not know it",
            object_uri=unit.object_uri,
            start=unit.time_range_start,
            listed=listed,
        )

    # --- ledger and catalog -----------------------------------------------------------------------

    def _entries(self) -> Iterator[RecordRow]:
        request = self._request
        for record in self._reader.entries(request.dataset, request.since, request.until):
            if self._is_asked_for(record.object_uri, record.wal_id):
                self.report.records += 1
                if request.catalog_only:
                    self._see(record.object_uri, record.wal_id)
                yield record

    def _judged(self, record: RecordRow, *, listed: bool) -> Iterator[Finding]:
        # Of a bucket that nobody listed, such as another provider's copy, nothing is known.
        asked = listed or _bucket_uri(record.object_uri) in self._buckets
        if not (record.fine and (listed or not asked)):
            yield from judge(entry_of(record), self._judging, listed=listed if asked else None)

    def _orphans(self) -> Iterator[Finding]:
        request = self._request
        if request.prefix or request.buckets:
            return  # an item without a record does not tell its object
        collection = self._dataset.item.collection
        for item in self._reader.orphans(collection, request.since, request.until):
            record = "no record" if item.status is None else f"a record that is {item.status}"
            yield Finding(
                kind=Kind.ITEM_WITHOUT_LEDGER,
                dataset=request.dataset,
                detail=f"item {item.item_id} of {item.collection_id} has {record}",
                wal_id=item.wal_id,
                start=item.start,
            )

    # --- the cadence ------------------------------------------------------------------------------

    def _see(self, uri: str, wal_id: str) -> None:
        if self._cadence is not None:
            bucket, key = bucket_and_key(uri)
            instant = instant_of(self._dataset, key, start_of_wal_id(wal_id))
            self._cadence.see(bucket, instant)

    def _gaps(self) -> Iterator[Finding]:
        cadence = self._cadence
        if cadence is None:
            return
        for gap in cadence.gaps(self._dataset.id):
            every = f"every {self._dataset.cadence_s:g} s"
            yield Finding(
                kind=Kind.GAP,
                dataset=self._dataset.id,
                detail=f"{gap.series}: {gap.missing:,} missing up to {gap.end:%Y-%m-%dT%H:%M:%SZ}, "
                f"one is expected {every}",
                start=gap.start,
            )
        self.report.gaps_unjudged = cadence.too_long

    def _is_asked_for(self, uri: str, wal_id: str) -> bool:
        prefix = self._wanted.prefix
        return (
            self._first_id <= wal_id < self._end_id
            and (not prefix or bucket_and_key(uri)[1].startswith(prefix))
            and self._is_chosen(uri)
        )

    def _is_chosen(self, uri: str) -> bool:
        return self._chosen is None or _bucket_uri(uri) in self._chosen


def _bucket_uri(uri: str) -> str:
    """Return the `scheme://bucket` of an object; a text that names none is no bucket's."""
    return "/".join(uri.split("/", 3)[:3])


def _cadence(dataset: Dataset, request: ReconcileRequest, now: datetime) -> Cadence | None:
    """Return what judges gaps; a part of the keys, and a file of them, tell nothing of the rest."""
    if dataset.cadence_s is None or request.prefix or request.listing is not None:
        return None
    until = min(request.until, now - request.grace)
    return Cadence(request.since, until, dataset.cadence_s) if request.since < until else None
