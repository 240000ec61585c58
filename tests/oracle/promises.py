"""What must hold at every moment, whatever happened: each promise as a function of the tables.

Each returns sentences, one a violation; none means that the promise is kept.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from tests.oracle.deliveries import DELIVERY_PROMISES
from tests.oracle.replays import REPLAY_PROMISES
from tests.oracle.tables import sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.tables import Row, Tables

_EDGES = {
    ("pending", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "failed"),
    ("failed", "pending"),
    ("failed", "quarantined"),
    ("pending", "quarantined"),
}
#: The seventh edge, which needs somebody's leave: see `releases_are_approved`.
_RELEASE = ("override", "quarantined", "pending")


def one_record_per_unit(tables: Tables) -> Iterator[str]:
    """An object has one record."""
    counts = Counter(record["object_uri"] for record in tables.records)
    for uri, count in counts.items():
        if count > 1:
            yield f"{uri} has {count} records"


def one_open_attempt(tables: Tables) -> Iterator[str]:
    """A unit has at most one open attempt: just when it is in progress, or on a re-run."""
    for record in tables.records:
        attempts = tables.attempts_of.get(record["wal_id"], [])
        still_open = [a for a in attempts if a["status"] == "pending"]
        if len(still_open) > 1:
            yield f"{record['wal_id']} has {len(still_open)} open attempts"
        if record["status"] == "in_progress" and not still_open:
            yield f"{record['wal_id']} is in progress and nobody works on it"
        if still_open and record["status"] not in {"in_progress", "succeeded"}:
            yield f"{record['wal_id']} is {record['status']} with an open attempt"
        if still_open and still_open[0]["attempt_no"] != len(attempts):
            yield f"{record['wal_id']}: an attempt that is not the last is open"


def open_attempts_are_held(tables: Tables) -> Iterator[str]:
    """An open attempt belongs to a worker that was neither fenced nor stopped."""
    workers = {worker["incarnation"]: worker for worker in tables.workers}
    for attempt in tables.attempts:
        if attempt["status"] != "pending":
            continue
        holder = workers.get(attempt["worker_incarnation"])
        if holder is None or holder["fenced_at"] or holder["stopped_at"]:
            yield f"{_name(attempt)} is open, and its worker is gone"


def attempts_are_counted(tables: Tables) -> Iterator[str]:
    """`attempts` is the number of attempt rows, which are numbered from 1 without a gap."""
    for record in tables.records:
        numbers = [a["attempt_no"] for a in tables.attempts_of.get(record["wal_id"], ())]
        if numbers != list(range(1, record["attempts"] + 1)):
            yield f"{record['wal_id']} counts {record['attempts']} attempts; its rows are {numbers}"


def versions_are_gapless(tables: Tables) -> Iterator[str]:
    """Every version of a record is told by the history, once, along legal edges."""
    events: dict[str, list[Row]] = {}
    for event in tables.history:
        events.setdefault(event["wal_id"], []).append(event)
    for record in tables.records:
        told = events.get(record["wal_id"], [])
        if [e["version"] for e in told] != list(range(1, record["version"] + 1)):
            versions = [e["version"] for e in told]
            yield f"{record['wal_id']} is at version {record['version']}; history has {versions}"
        status = "pending"
        for event in told[1:]:
            source, target = event["from_status"], event["to_status"]
            is_legal = source == target or (source, target) in _EDGES
            if source != status or not (is_legal or (event["kind"], source, target) == _RELEASE):
                edge = f"{event['kind']} from {source} to {target}"
                yield f"{record['wal_id']}: {edge}, but it was {status}"
            status = target
        if status != record["status"]:
            yield f"{record['wal_id']} is {record['status']}; its history ends in {status}"


def releases_are_approved(tables: Tables) -> Iterator[str]:
    """Out of quarantine leads an approval, used for this unit as it was, and not by its asker."""
    approvals = {approval["approval_id"]: approval for approval in tables.approvals}
    approved = {
        decision["approval_id"]
        for decision in tables.decisions
        if decision["decision"] == "approve"
        and decision["actor"] != approvals[decision["approval_id"]]["requested_by"]
    }
    for event in tables.history:
        if event["kind"] != _RELEASE[0]:
            continue
        approval = approvals.get(event["approval_ref"])
        unit = [event["wal_id"], event["version"] - 1]
        if (
            approval is None
            or approval["used_at"] is None
            or approval["approval_id"] not in approved
            or unit not in json.loads(approval["summary"])["units"]
        ):
            yield f"{event['wal_id']} left quarantine at version {event['version']} without leave"


def successes_are_whole(tables: Tables) -> Iterator[str]:
    """A success is what all four operators made of it, and it has its item."""
    owners = {item["wal_id"] for item in tables.items}
    for record in tables.records:
        if record["status"] != "succeeded":
            continue
        whole = (
            record["integrity_status"] in {"ok", "suspect"}
            and record["metadata_status"] in {"ok", "suspect"}
            and record["stac_status"] in {"created", "updated", "no-op"}
            and record["provenance_status"] in {"ok", "partial"}
            and record["stac_item_id"]
            and record["stac_collection_id"]
        )
        if not whole:
            yield f"{record['wal_id']} succeeded with operators that did not"
        applied = [a["attempt_no"] for a in tables.applied(record["wal_id"])]
        if not applied or record["applied_attempt"] != applied[-1]:
            named = record["applied_attempt"]
            yield f"{record['wal_id']} names attempt {named}; applied: {applied}"
        if record["wal_id"] not in owners:
            yield f"{record['wal_id']} succeeded and has no item"


def items_are_owned(tables: Tables) -> Iterator[str]:
    """An item is what an applied attempt of its succeeded owner made, byte by byte."""
    for item in tables.items:
        name = f"item {item['item_id']}"
        record = tables.record_of.get(item["wal_id"])
        if record is None or record["status"] != "succeeded":
            yield f"{name} belongs to no unit that succeeded"
            continue
        if (item["item_id"], item["collection_id"]) != (
            record["stac_item_id"],
            record["stac_collection_id"],
        ):
            yield f"{name} is not the one that its owner names"
        body = json.loads(item["body"])
        if (body.get("id"), body.get("collection")) != (item["item_id"], item["collection_id"]):
            yield f"{name}: its bytes are those of {body.get('collection')}/{body.get('id')}"
        for text in _made_by(item, tables.applied(item["wal_id"])):
            yield f"{name} {text}"


def _made_by(item: Row, applied: list[Row]) -> Iterator[str]:
    """Tell what is wrong between an item and the attempts of its owner that took effect."""
    digest = sha256(item["body"])
    if digest != item["sha256"]:
        yield f"has the hash {item['sha256'][:12]}, its bytes have {digest[:12]}"
    maker = [a for a in applied if a["attempt_no"] == item["attempt_no"]]
    if not maker or maker[0]["stac_status"] not in {"created", "updated"}:
        yield f"names attempt {item['attempt_no']}, which made no item"
    for attempt in applied:
        later = attempt["attempt_no"] - item["attempt_no"]
        if later >= 0 and attempt["item_sha256"] != digest:
            yield f"is not what {_name(attempt)} made"
        if later > 0 and attempt["stac_status"] != "no-op":
            yield f"was not replaced by {_name(attempt)}"


def effects_are_complete(tables: Tables) -> Iterator[str]:
    """An applied attempt has its provenance and, where the item changed, its own event.

    An event is that of the attempt whose commit wrote it. An item may change to the same content
    twice, so an event that merely tells of that content is not enough.
    """
    documents = {(p["wal_id"], p["activity_id"]): p for p in tables.provenance}
    events = {(e["subject"], _published(e), e["created_at"]) for e in tables.outbox}
    for attempt in tables.attempts:
        if attempt["status"] != "applied":
            continue
        document = documents.get((attempt["wal_id"], attempt["prov_activity_id"]))
        if document is None:
            yield f"{_name(attempt)} has no provenance"
        elif document["sha256"] != attempt["provenance_sha256"]:
            yield f"{_name(attempt)}: its provenance is another document"
        changed = attempt["stac_status"] in {"created", "updated"}
        told = (attempt["wal_id"], attempt["item_sha256"], attempt["closed_at"])
        if changed and told not in events:
            yield f"{_name(attempt)} changed its item, and no event tells of it"


def effects_have_a_cause(tables: Tables) -> Iterator[str]:
    """No effect is there of an attempt that failed, was lost or never was."""
    applied = {(a["wal_id"], a["attempt_no"]) for a in tables.attempts if a["status"] == "applied"}
    made = {
        (a["wal_id"], a["item_sha256"], a["closed_at"])
        for a in tables.attempts
        if a["status"] == "applied" and a["stac_status"] in {"created", "updated"}
    }
    for document in tables.provenance:
        if (document["wal_id"], document["attempt_no"]) not in applied:
            yield f"provenance {document['activity_id']} is of an attempt that was not applied"
        if sha256(document["body"]) != document["sha256"]:
            yield f"provenance {document['activity_id']}: its hash is not that of its bytes"
    for event in tables.outbox:
        published = _published(event)
        told = (event["subject"], published, event["created_at"])
        if published is not None and told not in made:
            yield f"event {event['outbox_id']} tells of an item that nobody made"
    keys = Counter((e["subject"], e["idempotency_key"], e["target"]) for e in tables.outbox)
    for key, count in keys.items():
        if count > 1:
            yield f"event {key} stands {count} times in the outbox"


def commits_are_whole(tables: Tables) -> Iterator[str]:
    """What one commit closed has one time, that of its effects; and a claim has one too."""
    closed = {(a["wal_id"], a["attempt_no"]): a["closed_at"] for a in tables.attempts}
    for item in tables.items:
        if closed.get((item["wal_id"], item["attempt_no"])) != item["updated_at"]:
            yield f"item {item['item_id']} was not written when its attempt was closed"
    for document in tables.provenance:
        if closed.get((document["wal_id"], document["attempt_no"])) != document["created_at"]:
            yield f"provenance {document['activity_id']} was not written with its attempt"


def replaced_items_are_gone(tables: Tables) -> Iterator[str]:
    """An id that an item had was noted by the commit that gave it another, and told of by it."""
    owners = {(item["collection_id"], item["item_id"]): item["wal_id"] for item in tables.items}
    told = {(e["subject"], _published(e)): json.loads(e["payload"]) for e in tables.outbox}
    for former in tables.replaced:
        name = f"former item {former['item_id']}"
        attempts = {a["attempt_no"]: a for a in tables.applied(former["wal_id"])}
        made_by = attempts.get(former["attempt_no"])
        if made_by is None or made_by["closed_at"] != former["replaced_at"]:
            yield f"{name} was not replaced when its attempt was closed"
            continue
        earlier = {a["item_sha256"] for no, a in attempts.items() if no < former["attempt_no"]}
        if former["sha256"] not in earlier:
            yield f"{name} was never made"
        if (
            owners.get((former["collection_id"], former["item_id"]), former["wal_id"])
            != former["wal_id"]
        ):
            yield f"{name} belongs to another unit now"
        event = told.get((former["wal_id"], made_by["item_sha256"]))
        if event is not None and event.get("replaces", {}).get("item_sha256") != former["sha256"]:
            yield f"{name} went, and the event of the new one does not tell"


def pending_is_scheduled(tables: Tables) -> Iterator[str]:
    """What is pending is due at some time, or a drain put it back and its message leads to it."""
    drains = {run["replay_run_id"] for run in tables.runs if run["mode"] == "dlq"}
    led = {
        (row["replay_run_id"], row["wal_id"])
        for row in tables.run_records
        if row["outcome"] == "due" and row["replay_run_id"] in drains
    }
    for record in tables.records:
        waits = record["status"] == "pending" and record["due_at"] is None
        if waits and (record["replay_run_id"], record["wal_id"]) not in led:
            yield f"{record['wal_id']} is pending and never due"


def what_waits_is_pending(tables: Tables) -> Iterator[str]:
    """An attempt that met no object, or not a whole one, put its unit back at once."""
    edges = {(event["wal_id"], event["version"]): event for event in tables.history}
    for attempt in tables.attempts:
        if attempt["error_code"] != "not_ready" or attempt["claimed_from"] == "succeeded":
            continue
        after = edges.get((attempt["wal_id"], (attempt["closed_version"] or 0) + 1))
        told = None if after is None else (after["from_status"], after["to_status"])
        if told != ("failed", "pending"):
            yield f"{_name(attempt)} was not ready, and its unit was not put back"
        elif after is not None and after["occurred_at"] != attempt["closed_at"]:
            yield f"{_name(attempt)} was not ready, and its unit was put back later"


ALWAYS = (
    one_record_per_unit,
    one_open_attempt,
    open_attempts_are_held,
    attempts_are_counted,
    versions_are_gapless,
    releases_are_approved,
    successes_are_whole,
    items_are_owned,
    effects_are_complete,
    effects_have_a_cause,
    commits_are_whole,
    replaced_items_are_gone,
    pending_is_scheduled,
    what_waits_is_pending,
    *DELIVERY_PROMISES,
    *REPLAY_PROMISES,
)


def broken_promises(tables: Tables) -> list[str]:
    """Return every violation of what must hold at every moment."""
    return [f"{promise.__name__}: {text}" for promise in ALWAYS for text in promise(tables)]


def _published(event: Row) -> str | None:
    found = json.loads(event["payload"]).get("item_sha256")
    return None if found is None else str(found)


def _name(attempt: Row) -> str:
    return f"{attempt['wal_id']} attempt {attempt['attempt_no']}"
