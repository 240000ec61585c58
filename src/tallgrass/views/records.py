"""Records and units as documents, and filters for records."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from tallgrass.error_codes import CodeScope, is_unit_code, nearest
from tallgrass.errors import InvalidInput
from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Intent, Status, word
from tallgrass.views.times import time_or_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallgrass.bootstrap.views import Annotation, LedgerStats
    from tallgrass.ledger.record import WalAttempt, WalRecord

_CURSOR = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def record_filter(
    *,
    datasets: Iterable[str] = (),
    statuses: Iterable[str] = (),
    since: str | None = None,
    until: str | None = None,
    error_code: str | None = None,
    intent: str | None = None,
    stale: bool = False,
) -> RecordFilter:
    """Read the conditions as people write them; those that exclude each other are refused."""
    wanted = RecordFilter(
        datasets=_once(datasets),
        statuses=[word(Status, name) for name in _once(statuses)],
        since=time_or_date(since),
        until=time_or_date(until),
        error_code=error_code,
        intent=None if intent is None else word(Intent, intent),
        stale=stale,
    )
    _require_sensible(wanted)
    return wanted


def require_cursor(text: str) -> str:
    """Return the cursor of a page of records; anything else is refused."""
    if not _CURSOR.fullmatch(text):
        raise InvalidInput(f"--after takes the cursor that a page ended with, not {text!r}")
    return text


def unit_document(
    record: WalRecord, attempts: Sequence[WalAttempt], annotations: Sequence[Annotation]
) -> dict[str, object]:
    """Return one unit: its record, its attempts and the notes on them."""
    return {
        "record": record,
        "lineage": lineage(record, attempts),
        "attempts": attempts,
        "annotations": annotations,
    }


def lineage(record: WalRecord, attempts: Sequence[WalAttempt]) -> dict[str, str | None]:
    """Return the ids that provenance and lineage have for the unit's present item."""
    applied = next((a for a in attempts if a.attempt_no == record.applied_attempt), None)
    return {
        "prov_activity_id": None if applied is None else applied.prov_activity_id,
        "openlineage_run_id": None if applied is None else applied.openlineage_run_id,
    }


def stats_document(found: LedgerStats) -> dict[str, object]:
    """Return the number of records in each status, also where it is zero."""
    by_dataset = {
        dataset: {status.value: counts.get(status.value, 0) for status in Status}
        for dataset, counts in sorted(found.by_dataset.items())
    }
    return {
        "total": sum(sum(counts.values()) for counts in by_dataset.values()),
        **asdict(found),
        "by_dataset": by_dataset,
    }


def facets(found: LedgerStats, wanted: RecordFilter) -> dict[str, dict[str, int]]:
    """Count records by status and by dataset; each count obeys the filter on the other.

    Filters on times and codes are ignored here: no index could count them.
    """
    statuses, datasets = set(wanted.statuses), set(wanted.datasets)
    by_status = {
        status.value: sum(
            counts.get(status.value, 0)
            for dataset, counts in found.by_dataset.items()
            if not datasets or dataset in datasets
        )
        for status in Status
    }
    by_dataset = {
        dataset: sum(
            number
            for status, number in counts.items()
            if not statuses or Status(status) in statuses
        )
        for dataset, counts in sorted(found.by_dataset.items())
    }
    return {"status": by_status, "dataset": by_dataset}


def _once(names: Iterable[str]) -> list[str]:
    """Return names without repetition: one that is given twice must not list its records twice."""
    return list(dict.fromkeys(names))


def _require_sensible(wanted: RecordFilter) -> None:
    if wanted.since and wanted.until and wanted.since >= wanted.until:
        raise InvalidInput("--since must be before --until")
    if wanted.stale and set(wanted.statuses) - {Status.SUCCEEDED}:
        raise InvalidInput("--stale means succeeded units; leave --status out")
    if wanted.error_code is not None and not is_unit_code(wanted.error_code):
        near = nearest(wanted.error_code, scope=CodeScope.UNIT)
        message = f"no unit can have the code {wanted.error_code!r}{near}"
        raise InvalidInput(message, code="unknown_code")
