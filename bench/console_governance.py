"""What people and their tools leave in the console's store: the log, approvals, runs, messages."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING

from bench.console_rows import BUSY, DAYS, PARKED, RARE_ACTION, RARE_ACTOR, UUID
from tallgrass.clock import format_instant
from tallgrass.replay.selection import Selection
from tallgrass.replay.selection_file import spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from bench.console_rows import Rows, Unit, Values

_HASH = "ab" * 32


def governance_rows(now: datetime, units: Sequence[Unit]) -> Rows:
    """Return what people and their tools left behind: as many rows as some years of work."""
    at = [
        format_instant(now - timedelta(days=DAYS) + timedelta(seconds=each)) for each in range(4000)
    ]
    later, few = format_instant(now + timedelta(hours=6)), max(50, len(units) // 250)
    people = [f"person-{each:02}" for each in range(50)] + [RARE_ACTOR]
    selection = json.dumps(
        {"spec": spec_of(Selection(datasets=(BUSY[0],))), "skipped": {}, "forced": False,
         "allow_downgrade": False}
    )  # fmt: skip
    runs = [f"run-{each:05}" for each in range(max(20, few // 8))]
    return {
        "workers": [
            {"incarnation": UUID, "worker_id": "host-1", "started_at": at[0], "expires_at": later}
        ],
        "actors": [
            {"name": name, "role": "approver",
             "token_sha256": hashlib.sha256(name.encode()).hexdigest(),
             "created_by": people[0], "created_at": at[0]}
            for name in people
        ],
        "kill_switches": [
            {"scope": "ingest", "dataset": PARKED, "is_on": 1, "actor": people[0],
             "reason": "its files are damaged", "changed_at": at[0]}
        ],
        "audit_log": list(_entries(people, at, 50 * few)),
        "change_records": [
            _reference("change_ref", f"CHG-{each:06}", at[each % len(at)]) for each in range(few)
        ],
        "incidents": [
            _reference("incident_ref", f"INC-{each:06}", at[each % len(at)]) for each in range(few)
        ],
        "approvals": [_approval(each, at[each], later, people) for each in range(few)],
        "approval_decisions": [
            {"approval_id": _numbered(each), "actor": people[1], "decision": "approve",
             "note": "", "decided_at": at[each]}
            for each in range(0, few, 2)
        ],
        "replay_runs": [_run(name, at[each], selection) for each, name in enumerate(runs)],
        "replay_run_records": list(_run_records(runs, units)),
        "drained_letters": [
            {"replay_run_id": name, "message_id": f"letter-{each}", "body_sha256": _HASH,
             "action": "send", "state": "removed", "sends": 1, "sent_as": f"again-{each}",
             "units": json.dumps([[units[each % len(units)].wal_id, 3]]), "changed_at": at[0]}
            for name in runs[::10] for each in range(100)
        ],
        "poison_messages": [_poison(each, at[each % 4000]) for each in range(5 * few)],
        "archives": [_archive(each, at[each]) for each in range(200)],
        "wal_annotations": [
            {"wal_id": each.wal_id, "attempt_no": 1, "noted_at": each.end, "actor": people[0],
             "kind": "note", "note": "looked at"}
            for each in units[:few] if each.attempts
        ],
    }  # fmt: skip


def _numbered(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def _entries(people: Sequence[str], at: Sequence[str], count: int) -> Iterator[Values]:
    actions = ("replay_submit", "approval_request", "approve", "switch_on", "release", "dlq_drain")
    for number in range(count):
        rare = number % 50_000 == 11  # noqa: PLR2004
        yield {
            "occurred_at": at[number * len(at) // count],
            "actor": RARE_ACTOR if rare else people[number % 50],
            "action": RARE_ACTION if rare else actions[number % len(actions)],
            "subject": f"run:run-{number % 500:05}", "reason": "asked for",
            "detail": f'{{"number":{number}}}',
        }  # fmt: skip


def _reference(key: str, ref: str, at: str) -> Values:
    closed = {"closed_by": "person-01", "closed_at": at, "resolution": "done"}
    rest = closed if int(ref[-6:]) % 100 else {}
    return {
        key: ref, "title": f"the story of {ref}", "description": "what it is about",
        "opened_by": "person-00", "opened_at": at, **rest,
    }  # fmt: skip


def _approval(number: int, at: str, later: str, people: Sequence[str]) -> Values:
    used = {"used_at": at, "used_for": f"run-{number:05}"} if number % 4 == 0 else {}
    return {
        "approval_id": _numbered(number), "purpose": ("replay", "release")[number % 7 == 0],
        "subject_sha256": hashlib.sha256(str(number).encode()).hexdigest(), "summary": "{}",
        "reason": "the provider sent the files again", "needed": 1, "requested_by": people[0],
        "requested_at": at, "expires_at": later, **used,
    }  # fmt: skip


def _run(name: str, at: str, selection: str) -> Values:
    return {
        "replay_run_id": name, "mode": "dlq" if int(name[-5:]) % 10 == 0 else "range",
        "intent": "ingest", "reason": "backfill", "actor": "person-00", "selection": selection,
        "plan_sha256": _HASH, "expected": "[]", "code_version": "1", "config_version": "1",
        "planned": 100, "started_at": at, "finished_at": at,
    }  # fmt: skip


def _run_records(runs: Sequence[str], units: Sequence[Unit]) -> Iterator[Values]:
    """Yield what came of each record; the newest run has a fifth of all units."""
    for name in runs:
        share = len(units) // 5 if name == runs[-1] else 100
        for each in units[:share]:
            yield {
                "replay_run_id": name, "wal_id": each.wal_id, "version": 3, "action": "replay",
                "outcome": "done", "attempt_no": 1,
            }  # fmt: skip


def _poison(number: int, at: str) -> Values:
    body = (b'{"Type":"Notification","Message":"' + b"x" * 900) + str(number).encode()
    fed = {"feed_id": UUID, "fed_at": at, "fed_message_id": "again"} if number % 3 else {}
    return {
        "queue": "nodd-primary", "body_sha256": hashlib.sha256(body).hexdigest(), "body": body,
        "body_bytes": len(body), "message_id": f"message-{number}",
        "error_code": ("unroutable", "unsupported_schema_version")[number % 5000 == 17],  # noqa: PLR2004
        "error_message": "no dataset has this bucket", "times_seen": 1, "first_seen_at": at,
        "last_seen_at": at, **fed,
    }  # fmt: skip


def _archive(number: int, at: str) -> Values:
    return {
        "kind": "attempts", "format": "ndjson", "place": "file:///archive",
        "name": f"attempts-{number}.ndjson", "sha256": f"{number:064x}", "bytes": 1000,
        "row_count": 10, "older_than": "2027-01-01T00:00:00.000000Z", "first_key": "0",
        "last_key": "9", "first_at": at, "last_at": at, "actor": "retention", "recorded_at": at,
        "verified_at": at, "removed": 10, "removed_at": at,
    }  # fmt: skip
