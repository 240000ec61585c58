"""Promises of the outbox, worked out again from raw tables and from what the targets got."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.oracle.tables import Row, Tables

#: Outcomes of attempts in which the target was asked; the one of `lost` nobody knows.
_ASKED = {"dispatched", "failed"}

#: One row a violation: what, and of which event.
_QUICK = """
SELECT 'an event without a delivery' AS what, e.outbox_id FROM outbox AS e
  LEFT JOIN outbox_delivery AS d ON d.outbox_id = e.outbox_id WHERE d.outbox_id IS NULL
UNION ALL SELECT 'attempts of a delivery miscounted', d.outbox_id FROM outbox_delivery AS d
  WHERE d.attempt <> (SELECT count(*) FROM outbox_attempts AS a WHERE a.outbox_id = d.outbox_id)
    + CASE WHEN d.claimed_by IS NOT NULL THEN 1 ELSE 0 END
UNION ALL SELECT 'dispatched without a success', d.outbox_id FROM outbox_delivery AS d
  WHERE (d.status = 'dispatched') <> EXISTS (SELECT 1 FROM outbox_attempts AS a
    WHERE a.outbox_id = d.outbox_id AND a.outcome = 'dispatched')
"""


@dataclass(frozen=True, kw_only=True)
class Send:
    """What a target got, as it noted it itself."""

    outbox_id: str
    attempt: int
    key: str
    payload: bytes


def quick_delivery_violations(database: Any) -> list[str]:
    """Return violations that one statement finds, over a connection of either database."""
    return [f"{what}: {name}" for what, name in database.execute(_QUICK)]


def events_have_one_delivery(tables: Tables) -> Iterator[str]:
    """Each event has one delivery, to its own target; nothing is delivered that is no event."""
    targets = {event["outbox_id"]: event["target"] for event in tables.outbox}
    found = Counter(delivery["outbox_id"] for delivery in tables.deliveries)
    for name in sorted({*targets, *found}):
        if name not in targets:
            yield f"{name} is delivered and no event"
        elif found[name] != 1:
            yield f"event {name} has {found[name]} deliveries"
    for delivery in tables.deliveries:
        if targets.get(delivery["outbox_id"], delivery["target"]) != delivery["target"]:
            yield f"event {delivery['outbox_id']} is delivered to another target"


def attempts_are_told(tables: Tables) -> Iterator[str]:
    """An attempt counts from the claim on, and each that ended has its one row."""
    attempts = _by_event(tables)
    for delivery in tables.deliveries:
        name = delivery["outbox_id"]
        ended = [row["attempt"] for row in attempts.get(name, ())]
        flying = delivery["claimed_by"] is not None
        if ended != list(range(1, delivery["attempt"] + 1 - flying)):
            yield f"event {name} counts {delivery['attempt']} attempts; those that ended: {ended}"


def success_is_final(tables: Tables) -> Iterator[str]:
    """A dispatched event was so by its last attempt; no other event was ever dispatched."""
    attempts = _by_event(tables)
    for delivery in tables.deliveries:
        outcomes = [row["outcome"] for row in attempts.get(delivery["outbox_id"], ())]
        wanted = 1 if delivery["status"] == "dispatched" else 0
        if outcomes.count("dispatched") != wanted or "dispatched" in outcomes[:-1]:
            yield f"event {delivery['outbox_id']} is {delivery['status']} after {outcomes}"


DELIVERY_PROMISES = (events_have_one_delivery, attempts_are_told, success_is_final)


def sends_have_their_row(tables: Tables, sends: Sequence[Send]) -> Iterator[str]:
    """A target gets what stands in the outbox, byte by byte, and each attempt once."""
    events = {event["outbox_id"]: event for event in tables.outbox}
    for send in sends:
        event = events.get(send.outbox_id)
        if event is None:
            yield f"{send.outbox_id} was sent and is no event"
        elif (send.key, send.payload) != (event["idempotency_key"], event["payload"]):
            yield f"event {send.outbox_id} was sent as something else"
    for (name, attempt), count in Counter((s.outbox_id, s.attempt) for s in sends).items():
        if count > 1:
            yield f"event {name} was sent {count} times in attempt {attempt}"


def sends_add_up(tables: Tables, sends: Sequence[Send]) -> Iterator[str]:
    """Attempts are sends and lost claims: a result has its send, and what was given back none.

    So an event is sent twice only after a failure, or after a dispatcher was lost.
    """
    sent = {(send.outbox_id, send.attempt) for send in sends}
    for row in tables.delivery_attempts:
        key = (row["outbox_id"], row["attempt"])
        if row["outcome"] in _ASKED and key not in sent:
            yield f"event {key[0]} attempt {key[1]} is {row['outcome']} and was never sent"
        if row["outcome"] == "released" and key in sent:
            yield f"event {key[0]} attempt {key[1]} was sent and given back as if not"
    done = {
        row["outbox_id"]: row["attempt"]
        for row in tables.delivery_attempts
        if row["outcome"] == "dispatched"
    }
    for name, attempt in sorted(sent):
        if attempt > done.get(name, attempt):
            yield f"event {name} was sent again after it was dispatched"


def everything_arrived(tables: Tables, sends: Sequence[Send]) -> Iterator[str]:
    """At the end each event is dispatched, and its target has it."""
    sent = {send.outbox_id for send in sends}
    for delivery in tables.deliveries:
        if delivery["status"] != "dispatched":
            yield f"event {delivery['outbox_id']} is {delivery['status']} at the end"
        elif delivery["outbox_id"] not in sent:
            yield f"event {delivery['outbox_id']} is dispatched, and its target never got it"


def broken_delivery_promises(
    tables: Tables, sends: Sequence[Send], *, at_the_end: bool = False
) -> list[str]:
    """Return every violation of what targets are promised."""
    rules = [sends_have_their_row, sends_add_up, *([everything_arrived] if at_the_end else [])]
    return [f"{rule.__name__}: {text}" for rule in rules for text in rule(tables, sends)]


def _by_event(tables: Tables) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in tables.delivery_attempts:
        found.setdefault(row["outbox_id"], []).append(row)
    return found
