"""One run of retention, by the command line and by the API alike."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tallgrass.bootstrap.retaining import Step, mark_expired, open_retention, paced, writing_pace
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Acting
from tallgrass.inventory.retention import Archive, ArchiveKind, ArchiveSearch
from tallgrass.views.times import time_or_date

#: Rows a second. Ingest at full speed beside it lost less than a tenth.
RATE = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRequest:
    """What may leave."""

    kinds: Sequence[ArchiveKind]
    #: Whether items that a policy lets expire are marked, too.
    with_items: bool
    rows_max: int | None = None
    #: Rows removed in a second, at most.
    rate: float = RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionAround:
    """What a run needs from outside: a way to stop it, and a callback for progress."""

    stop: Callable[[], bool] = lambda: False
    sleep: Callable[[float], object] = time.sleep
    tell: Callable[[Step], None] = lambda _step: None


class _Stopped(Exception):
    """Raised when somebody stops the run while a file is written; the half file is removed."""


def apply_retention(
    config: Config,
    stores: Stores,
    request: RetentionRequest,
    around: RetentionAround,
    *,
    by: Acting,
) -> tuple[list[Archive], dict[str, int]]:
    """Write what is old to archives and remove it; return them, and the items marked."""

    def rest(seconds: float) -> None:
        around.sleep(seconds)
        if around.stop():
            raise _Stopped

    pace = writing_pace(request.rate, sleep=rest, monotonic=time.monotonic)
    retention = open_retention(config, stores, rest=pace)
    steps = retention.steps(tuple(request.kinds), actor=by, rows_max=request.rows_max)
    touched: dict[int, None] = {}
    paces = paced(steps, rows_per_s=request.rate, sleep=around.sleep, monotonic=time.monotonic)
    with contextlib.suppress(_Stopped):
        for step in paces:
            touched[step.archive.archive_id] = None
            around.tell(step)
            if around.stop():
                break
    items = mark_expired(config, stores, actor=by) if request.with_items else {}
    return [retention.archive(archive_id) for archive_id in touched], items


def archive_search(
    *,
    wal_id: str | None = None,
    event: str | None = None,
    since: str | None = None,
    until: str | None = None,
    kind: ArchiveKind | None = None,
) -> ArchiveSearch:
    """Return what to look for in archives, by conditions as people write them."""
    if wal_id and event:
        raise InvalidInput("--wal-id and --event are of different kinds: give one")
    if not (wal_id or event or since or until):
        raise InvalidInput("say what to look for: --wal-id, --event, --since or --until")
    of_key = ArchiveKind.ATTEMPTS if wal_id else ArchiveKind.EVENTS if event else None
    if of_key is not None and kind is not None and kind is not of_key:
        raise InvalidInput(f"--kind {kind.value} has no such id")
    first, last = time_or_date(since), time_or_date(until)
    if first is not None and last is not None and first >= last:
        raise InvalidInput("--since must be before --until")
    return ArchiveSearch(
        kind=of_key or kind, key=(wal_id or event or "").lower() or None, since=first, until=last
    )
