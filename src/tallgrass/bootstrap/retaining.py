"""Retention: old rows go to archives, step by step, and archives are searched and read back.

The order of the steps is what loses nothing: a whole file is written, its record and hash are
committed together, the file is read back, and only then do rows leave. If a call is killed
anywhere, the next one goes on from there.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, BinaryIO

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.errors import ArchiveDamaged, Refused
from tallgrass.governance.actors import Acting
from tallgrass.inventory.retention import (
    ARCHIVE_ROWS_MAX,
    AUDIT_ROWS_MAX,
    KEY_OF,
    TIME_OF,
    Archive,
    ArchiveFile,
    ArchiveFormat,
    ArchiveKind,
    ArchiveSearch,
    Planned,
    RetentionRules,
    pause_s,
)
from tallgrass.outbox.deliveries import LedgerEntry
from tallgrass.storage.archive_formats import ENDINGS, reading, rows_written, writing
from tallgrass.storage.archive_records import archive_from
from tallgrass.storage.archives import ArchivePlace, digest_of, open_place
from tallgrass.storage.expiry_store import ExpiryStore
from tallgrass.storage.retention_store import (
    STALE,
    ArchivedRow,
    ChainStart,
    RetentionStore,
    key_of,
)
from tallgrass.storage.unit_of_work import Row

#: Rows that leave in one transaction: a worker's commit waits for no more than that.
REMOVE_ROWS = 500
#: A row is written with this part of the work that its removal is: a file may grow so much faster.
WRITTEN_FOR_REMOVED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What retention has just done; `rows` of it in this step."""

    kind: ArchiveKind
    #: `recorded`, `verified` or `removed`.
    what: str
    archive: Archive
    rows: int = 0


@dataclass(slots=True)
class _Gathered:
    """What is noted of rows while they are written."""

    kind: ArchiveKind
    keys: list[tuple[str, int]]
    first: ArchivedRow | None = None
    last: ArchivedRow | None = None
    rows: int = 0
    first_at: str = ""
    last_at: str = ""

    def take(self, row: ArchivedRow) -> None:
        at = row[TIME_OF[self.kind]]
        self.first = self.first or row
        self.first_at = min(self.first_at or at, at)
        self.last_at = max(self.last_at, at)
        self.last = row
        self.rows += 1
        if self.kind is not ArchiveKind.AUDIT:
            self.keys.append(key_of(self.kind, row))


class Retention:
    """Plans and applies retention; finds and reads archives."""

    def __init__(
        self,
        store: RetentionStore,
        place: ArchivePlace,
        rules: RetentionRules,
        format: ArchiveFormat,  # noqa: A002 - the setting's own word
        *,
        archive_rows_max: int = ARCHIVE_ROWS_MAX,
        now: Callable[[], datetime] | None = None,
        rest: Callable[[int], object] = lambda _rows: None,
    ) -> None:
        self._store = store
        self._place = place
        self._rules = rules
        self._format = format
        self._archive_rows_max = archive_rows_max
        self._now = now or store.now
        #: Called while a file is written, each time with so many rows.
        self._rest = rest

    def plan(self, kinds: Sequence[ArchiveKind]) -> list[Planned]:
        """Count what may leave now, by reading alone."""
        now = self._now()
        return [self._planned(kind, now) for kind in kinds]

    def steps(
        self, kinds: Sequence[ArchiveKind], *, actor: Acting, rows_max: int | None = None
    ) -> Generator[Step, None, None]:
        """Archive and remove what is old, one committed step at a time.

        What was begun is finished first; `rows_max` bounds what is newly archived.
        """
        self._store.authorize(actor)
        left = rows_max
        for kind in kinds:
            if (begun := self._store.open_archive(kind)) is not None:
                yield from self._finish(begun, actor)
            older_than = self._rules.older_than(kind, self._now())
            while older_than is not None and left != 0:
                try:
                    archive = self._record(kind, older_than, self._size(kind, left), actor)
                except Refused as error:
                    if error.code != STALE:
                        raise
                    continue  # with what others left
                if archive is None:
                    break
                left = None if left is None else left - archive.file.rows
                yield Step(kind=kind, what="recorded", archive=archive, rows=archive.file.rows)
                yield from self._finish(archive, actor)
        if ArchiveKind.EVENTS in kinds and self._rules.older_than(ArchiveKind.EVENTS, self._now()):
            self._store.keep_partitions(self._now())

    def archives(self) -> Iterator[Archive]:
        """Yield all archives, oldest first."""
        after = 0
        while page := self._store.archives(after=after):
            yield from page
            after = page[-1].archive_id

    def archive(self, archive_id: int) -> Archive:
        """Return one archive."""
        return self._store.archive(archive_id)

    def rows(self, archive: Archive) -> Iterator[dict[str, Any]]:
        """Yield the rows of an archive, once its file has proved to be what was written."""
        self._require_whole(archive)
        with self._at(archive).open(archive.file.name) as file:
            yield from reading(file, archive.file.format)

    def rows_of(self, row: Row) -> Iterator[dict[str, Any]]:
        """Yield the rows of an archive, given by its row of `archives`."""
        return self.rows(archive_from(row))

    def search(self, wanted: ArchiveSearch) -> Iterator[tuple[Archive, dict[str, Any]]]:
        """Yield the archived rows that are looked for; files that cannot hold any are not read."""
        for archive in self.archives():
            if archive.may_hold(wanted):
                for row in self.rows(archive):
                    if wanted.fits(archive.file.kind, row):
                        yield archive, row

    def _planned(self, kind: ArchiveKind, now: datetime) -> Planned:
        older_than = self._rules.older_than(kind, now)
        begun = self._store.open_archive(kind)
        open_rows = 0 if begun is None else begun.file.rows - begun.removed
        noted, size = _Gathered(kind, []), 0
        for row in self._rows(kind, older_than):
            noted.take(row)
            noted.keys.clear()
            size += rows_written([row])
        # What was begun is among the old rows as long as it is here.
        return Planned(
            kind=kind,
            older_than=older_than,
            rows=noted.rows,
            bytes=size,
            first_at=_instant(noted.first_at),
            last_at=_instant(noted.last_at),
            open_archive=None if begun is None else begun.archive_id,
            open_rows=open_rows,
        )

    def _size(self, kind: ArchiveKind, left: int | None) -> int:
        most = AUDIT_ROWS_MAX if kind is ArchiveKind.AUDIT else ARCHIVE_ROWS_MAX
        return min(most, self._archive_rows_max, most if left is None else left)

    def _rows(
        self, kind: ArchiveKind, older_than: datetime | None, start: ChainStart | None = None
    ) -> Iterable[ArchivedRow]:
        if older_than is None:
            return ()
        if kind is ArchiveKind.ATTEMPTS:
            return self._store.attempts(older_than)
        if kind is ArchiveKind.EVENTS:
            return self._store.events(older_than)
        return self._store.audit(older_than, start or self._store.chain_start())

    def _record(
        self, kind: ArchiveKind, older_than: datetime, size: int, actor: Acting
    ) -> Archive | None:
        start = self._store.chain_start() if kind is ArchiveKind.AUDIT else None
        rows = iter(self._rows(kind, older_than, start))
        first = next(rows, None)
        if first is None:
            return None
        noted = _Gathered(kind, [])

        def write(file: BinaryIO) -> None:
            with writing(file, self._format, kind) as writer:
                for row in chain([first], islice(rows, size - 1)):
                    writer.write(row)
                    noted.take(row)
                    if noted.rows % REMOVE_ROWS == 0:
                        self._rest(REMOVE_ROWS)

        name, sha256, length = self._place.put(
            write, lambda digest: f"{kind.value}-{digest[:32]}.{ENDINGS[self._format]}"
        )
        file = ArchiveFile(
            kind=kind,
            format=self._format,
            place=self._place.place,
            name=name,
            sha256=sha256,
            bytes=length,
            rows=noted.rows,
            older_than=older_than,
            **_range(noted, start),
        )
        try:
            return self._store.record(file, noted.keys, actor=actor)
        except Refused:
            self._store.discard(file, lambda: self._place.remove(name))
            raise

    def _finish(self, archive: Archive, actor: Acting) -> Iterator[Step]:
        """Read an archive back, also one that was read before, then let its rows leave."""
        kind = archive.file.kind
        try:
            self._require_whole(archive)
        except ArchiveDamaged as error:
            self._store.abandon(archive, actor=actor)
            loss = _loss_of(self._store.archive(archive.archive_id))
            raise ArchiveDamaged(f"{error}{loss}") from error
        if archive.verified_at is None:
            self._store.verified(archive)
            yield Step(kind=kind, what="verified", archive=archive)
        while removed := self._store.remove(archive, REMOVE_ROWS):
            yield Step(kind=kind, what="removed", archive=archive, rows=removed)
            if removed < REMOVE_ROWS or kind is ArchiveKind.AUDIT:
                return

    def _at(self, archive: Archive) -> ArchivePlace:
        same = archive.file.place == self._place.place
        return self._place if same else open_place(archive.file.place)

    def _require_whole(self, archive: Archive) -> None:
        with self._at(archive).open(archive.file.name) as file:
            found = digest_of(file)
        if found != (archive.file.sha256, archive.file.bytes):
            raise ArchiveDamaged(
                f"{archive.file.name} in {archive.file.place} is not what was written to it"
            )


def open_retention(config: Config, stores: Stores, **injected: Any) -> Retention:
    """Wire retention as it is configured."""
    days = {kind: int(config.number(f"retention.{kind.value}_days")) for kind in ArchiveKind}
    return Retention(
        RetentionStore(stores.runner),
        open_place(config.text("retention.archive")),
        RetentionRules(days=days),
        ArchiveFormat(config.text("retention.format")),
        **injected,
    )


def delivery_ledger(config: Config, stores: Stores) -> Generator[LedgerEntry, None, None]:
    """Yield every attempt of a delivery that ended, also of events that left for an archive."""
    return stores.deliveries.ledger(open_retention(config, stores).rows_of)


def expiring(config: Config) -> dict[str, tuple[str, int]]:
    """Return collection and days of each dataset whose policy lets its items expire."""
    return {
        each.id: (each.item.collection, each.governance.expires_after_days)
        for each in open_catalogue(config).datasets
        if each.governance.expires_after_days is not None
    }


def count_expirable(config: Config, stores: Stores) -> dict[str, int]:
    """Count by dataset the items to mark, and marks to correct, by reading alone."""
    store, now = ExpiryStore(stores.runner), RetentionStore(stores.runner).now()
    return {
        dataset: sum(len(page) for page in store.expirable(dataset, collection, days, now))
        for dataset, (collection, days) in expiring(config).items()
    }


def mark_expired(config: Config, stores: Stores, *, actor: Acting) -> dict[str, int]:
    """Mark items that are past their time, and correct marks; return how many, by dataset."""
    store, now = ExpiryStore(stores.runner), RetentionStore(stores.runner).now()
    return {
        dataset: sum(
            store.mark(collection, page, actor=actor)
            for page in store.expirable(dataset, collection, days, now)
        )
        for dataset, (collection, days) in expiring(config).items()
    }


def writing_pace(
    rows_per_s: float, *, sleep: Callable[[float], object], monotonic: Callable[[], float]
) -> Callable[[int], None]:
    """Return what rests while a file is written, so that reading and packing leave room too."""
    began = monotonic()

    def rest(rows: int) -> None:
        nonlocal began
        sleep(pause_s(rows, WRITTEN_FOR_REMOVED * rows_per_s, monotonic() - began))
        began = monotonic()

    return rest


def paced(
    steps: Iterable[Step],
    *,
    rows_per_s: float | None,
    sleep: Callable[[float], object],
    monotonic: Callable[[], float],
) -> Iterator[Step]:
    """Pass steps on, and rest after those that removed rows so that the rate is kept."""
    began = monotonic()
    for step in steps:
        yield step
        if step.what == "removed":
            sleep(pause_s(step.rows, rows_per_s, monotonic() - began))
            began = monotonic()


def _loss_of(archive: Archive) -> str:
    """Say what only the damaged file held."""
    if archive.removed == 0:
        return ""
    return (
        f"; {archive.removed} of the {archive.file.rows} rows of archive"
        f" {archive.archive_id} have left the database for it already, the others stay: restore"
        f" {archive.file.name} (SHA-256 {archive.file.sha256}) to {archive.file.place}"
    )


def _range(noted: _Gathered, start: ChainStart | None) -> dict[str, Any]:
    first, last = noted.first or {}, noted.last or {}
    found: dict[str, Any] = {
        "first_at": _instant(noted.first_at),
        "last_at": _instant(noted.last_at),
    }
    if start is None:
        key = KEY_OF[noted.kind]
        return {**found, "first_key": first[key], "last_key": last[key]}
    return {
        **found,
        # Ids are numbers, whose text has another order.
        "first_key": f"{first['position']:020}",
        "last_key": f"{last['position']:020}",
        "first_position": first["position"],
        "last_position": last["position"],
        "before_hash": start.before_hash,
        "head_hash": last["chain_hash"],
    }


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
