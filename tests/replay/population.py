"""Units of every kind in a ledger, and which of them a selection means, worked out by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.clock import format_instant
from tallgrass.ledger.unit import EventMetadata
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.selection import Purpose
from tests.contract.scene import Scene
from tests.support.builders import DATA_START, EVENT_TIME, failure, success, unit

if TYPE_CHECKING:
    from datetime import datetime

    from tallgrass.ledger.unit import IngestUnit
    from tallgrass.replay.selection import Selection, Span
    from tests.support.backends import Backend

DATASETS = ("goes-glm", "hrrr", "nexrad-l2")
UNITS = 36


def announced(number: int) -> IngestUnit:
    """Return a unit; two share a message, starts differ by less than a millisecond in places."""
    start = DATA_START + timedelta(seconds=20 * (number // 3), microseconds=300 * (number % 3))
    return unit(
        number,
        dataset=DATASETS[number % 3],
        time_range_start=start,
        time_range_end=start + timedelta(seconds=20),
        event=EventMetadata(
            event_time=EVENT_TIME + timedelta(minutes=number // 2),
            sns_message_id=f"sns-{number // 2}",
            sqs_message_id=f"sqs-{number // 2}",
        ),
    )


def populate(backend: Backend) -> Scene:
    """Write units in each state, some with several attempts."""
    scene = Scene(backend)
    by_kind: dict[int, list[IngestUnit]] = {kind: [] for kind in range(6)}
    for number in range(UNITS):
        by_kind[number * 5 // 3 % 6].append(announced(number))
    scene.commit(*(success(r.claim) for r in scene.announce(*by_kind[0]) if r.claim))
    for _ in range(2):  # the second time it is a retry
        found = [r.claim for r in scene.announce(*by_kind[1]) if r.claim]
        scene.commit(*(failure(claim, "io_error") for claim in found))
    for kind, code in ((2, "size_zero"), (3, "governance_hard_fail")):
        found = [r.claim for r in scene.announce(*by_kind[kind]) if r.claim]
        scene.commit(*(failure(claim, code) for claim in found))
    scene.switch(is_on=True)
    scene.announce(*by_kind[4])
    scene.switch(is_on=False)
    scene.announce(*by_kind[5])
    return scene


def rows_with_messages(backend: Backend) -> list[dict[str, Any]]:
    """Return all records as the tables hold them, each with its messages."""
    messages: dict[str, set[str]] = {}
    for wal_id, sns, sqs in backend.sql(
        "SELECT wal_id, sns_message_id, sqs_message_id FROM wal_attempts"
    ):
        messages.setdefault(wal_id, set()).update({sns, sqs} - {None})
    records = backend.rows("SELECT * FROM wal_records ORDER BY wal_id")
    return [{**row, "messages": messages.get(row["wal_id"], set())} for row in records]


def means(selection: Selection, row: dict[str, Any]) -> bool:
    """Tell by plain comparison of the row's text whether the selection means it."""
    named = not (selection.wal_ids or selection.message_ids) or (
        row["wal_id"] in selection.wal_ids or bool(row["messages"] & set(selection.message_ids))
    )
    overlap = selection.time_range_overlap
    ids = selection.wal_id_range
    return (
        named
        and (not selection.datasets or row["dataset"] in selection.datasets)
        and row["dataset"] not in selection.datasets_exclude
        and row["object_uri"].startswith(selection.bucket_prefix or "")
        and _inside(row["time_range_start"], selection.data_time)
        and _inside(row["event_time"], selection.event_time)
        and _inside(row["created_at"], selection.created_at)
        and (overlap.start is None or row["time_range_end"] >= format_instant(overlap.start))
        and (overlap.end is None or row["time_range_start"] < format_instant(overlap.end))
        and (ids.start or "") <= row["wal_id"] < (ids.end or "g")
        and row["status"] in _statuses(selection)
        and (not selection.error_codes or row["last_error_code"] in selection.error_codes)
        and (selection.attempts_min or 0) <= row["attempts"]
        and row["attempts"] <= (99 if selection.attempts_max is None else selection.attempts_max)
    )


def _statuses(selection: Selection) -> set[str]:
    if selection.statuses:
        return set(selection.statuses)
    if selection.wal_ids or selection.message_ids:
        return set(Status)
    return {"failed"} if selection.purpose is Purpose.FAILED_ONLY else {"failed", "succeeded"}


def _inside(text: str, span: Span) -> bool:
    start: datetime | None = span.start
    return (start is None or text >= format_instant(start)) and (
        span.end is None or text < format_instant(span.end)
    )
