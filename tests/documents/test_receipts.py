"""The receipt tables of the state machine document against the rule itself, case by case."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.object_order import ObjectOrder
from tallgrass.ledger.receipt import (
    NEW_UNIT,
    NEW_UNIT_PARKED,
    Action,
    Decision,
    Known,
    decide_receipt,
)
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import Intent, Status
from tests.documents.markdown import WAL_DOCS, read, rows, section, words

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
ORDERS = (
    ObjectOrder.SAME,
    ObjectOrder.NEWER,
    ObjectOrder.OLDER,
    ObjectOrder.INCOMPARABLE,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a row of a table says of a unit."""

    known: dict[str, Any] | None
    switched_off: bool = False
    rules: LedgerRules = field(default_factory=LedgerRules)

    def decide(self, order: ObjectOrder) -> Decision:
        """Ask the rule."""
        if self.known is None:
            return NEW_UNIT_PARKED if self.switched_off else NEW_UNIT
        values: dict[str, Any] = {
            "wal_id": "3a1e8907-8000-8bbb-9d7d-24097bf476d7",
            "dataset": "goes-glm",
            "version": 4,
            "attempts": 2,
            "budget_from": 0,
            "lease_expiries": 0,
            "last_error_code": None,
            "due_at": None,
            "retry_after": None,
            "rerun_intent": None,
            "replay_run_id": None,
            "held_until": None,
        }
        known = Known(**{**values, **self.known})
        return decide_receipt(
            known, order, now=NOW, switched_off=self.switched_off, rules=self.rules
        )


UNITS: dict[str, dict[str, Any] | None] = {
    "no record": None,
    "pending": {"status": Status.PENDING},
    "in_progress, lease stands": {"status": Status.IN_PROGRESS, "held_until": LATER},
    "in_progress, lease lost": {"status": Status.IN_PROGRESS, "held_until": NOW},
    "failed": {"status": Status.FAILED, "last_error_code": "io_error", "retry_after": NOW},
    "succeeded": {"status": Status.SUCCEEDED},
    "quarantined": {"status": Status.QUARANTINED, "last_error_code": "attempts_exhausted"},
}

HINDRANCES: dict[str, dict[str, Any]] = {
    "limit": {"attempts": 8},
    "due later": {"due_at": LATER},
    "recovered": {"due_at": NOW, "lease_expiries": 1},
    "code not retried": {"last_error_code": "invalid_geometry"},
    "back-off": {"retry_after": LATER},
    "re-run under way": {"held_until": LATER, "rerun_intent": Intent.REINGEST},
    "re-run lost": {"held_until": NOW, "rerun_intent": Intent.REINGEST},
}


def hindered(unit: str, hindrance: str) -> Case:
    """Return the case of a row with a hindrance."""
    known = UNITS[unit]
    if hindrance == "switch":
        return Case(known=known, switched_off=True)
    if hindrance == "no re-ingest":
        return Case(known=known, rules=LedgerRules(reingest=False))
    if hindrance == "by approval":
        return Case(known=known, rules=LedgerRules(overwrites={"goes-glm": Overwrite.APPROVE}))
    assert known is not None
    return Case(known={**known, **HINDRANCES[hindrance]})


def tables() -> tuple[list[list[str]], list[list[str]]]:
    """Return the plain and the hindered table of the document."""
    text = section(read(WAL_DOCS / "wal-state-machine.md"), "Receipts")
    _, plain, other = re.split(r"<!-- receipts: \w+ -->", text)
    return rows(plain), rows(other)


PLAIN, HINDERED = tables()


def test_the_tables_cover_every_case() -> None:
    """Seven cases of a unit are listed plainly, each hindrance with the units that it can meet."""
    assert [row[0] for row in PLAIN] == list(UNITS)
    assert {row[1] for row in HINDERED} == {
        "switch",
        "no re-ingest",
        "by approval",
        *HINDRANCES,
    }
    assert len({tuple(row[:2]) for row in HINDERED}) == len(HINDERED)


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row[0])
def test_the_plain_receipt_table_is_what_is_decided(row: list[str]) -> None:
    """What the document answers to a receipt is what the rule decides."""
    case = Case(known=UNITS[row[0]])
    for order, cell in zip(ORDERS, row[1:], strict=True):
        assert case.decide(order).action.value == words(cell)[0], order


@pytest.mark.parametrize("row", HINDERED, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_hindered_receipt_table_is_what_is_decided(row: list[str]) -> None:
    """What the document answers when something is in the way is what the rule decides."""
    case = hindered(row[0], row[1])
    for order, cell in zip(ORDERS, row[2:], strict=True):
        assert case.decide(order).action.value == words(cell)[0], order


def test_every_answer_is_explained() -> None:
    """The document says of each answer what it does and what becomes of the message."""
    text = section(read(WAL_DOCS / "wal-state-machine.md"), "Receipts")
    explained = text[text.index("| answer |") :]
    named = [word for row in rows(explained) for word in words(row[0])]
    assert sorted(named) == sorted(action.value for action in Action)
