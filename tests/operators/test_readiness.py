"""Which failed checks mean that the object may still come."""

from __future__ import annotations

from typing import Any

import pytest

from tallgrass.datasets.definition import FileFormat, Severity
from tallgrass.evidence.formats import read_seen
from tallgrass.evidence.header import Seen
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.rules import DatasetException, LedgerRules
from tallgrass.ledger.unit import ObjectReference
from tallgrass.operators.readiness import waits
from tests.evidence.real_files import chunks
from tests.operators.scene import claim, context, dataset, evidence, glm, run_chain

GONE = ReadFailure(code="missing_object", message="not in its bucket", may_come=True)
CUT = ("size_too_small",)


def read(size: int | None = 100, *issues: str, **header: Any) -> Evidence:
    """Return what reading an object of a size yields."""
    return evidence(size=size, issues=issues, header={"format": "netcdf4", **header})


#: What was read, of how many announced bytes, and whether the unit waits.
CASES: dict[str, tuple[Evidence | ReadFailure, int | None, bool]] = {
    "not there": (GONE, 200, True),
    "not there, size unknown": (GONE, None, True),
    "never to be asked for": (ReadFailure(code="missing_object", message="a//b"), 200, False),
    "denied": (ReadFailure(code="access_denied", message="no"), 200, False),
    "no answer": (ReadFailure(code="transient_network_error", message="no"), 200, False),
    "cut, shorter than announced": (read(100, *CUT), 200, True),
    "cut, nobody said how long": (read(100, *CUT), None, True),
    "cut, as long as announced": (read(200, *CUT), 200, False),
    "cut, longer than announced": (read(300, *CUT), 200, False),
    "empty, more announced": (read(0, "size_zero"), 200, True),
    "empty, nobody said how long": (read(0, "size_zero"), None, True),
    "empty, as announced": (read(0, "size_zero"), 0, False),
    "incomplete, shorter": (read(100, complete=False), 200, True),
    "whole, shorter": (read(100, complete=True), 200, False),
    "whole, nobody said how long": (read(100, complete=True), None, False),
    "of another format, shorter": (read(100, "content_type_invalid"), 200, False),
    "rubbish behind it": (read(100, "size_too_large", complete=False), None, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_unit_waits_for_what_may_come(name: str) -> None:
    """It waits for an object that is not there, or that ends too early and may still grow."""
    reading, announced, expected = CASES[name]
    held = claim(object_ref=ObjectReference(size=announced))
    assert waits(held, reading, LedgerRules()) is expected


@pytest.mark.parametrize(
    ("attempt", "budget_from", "limit", "expected"),
    [(1, 0, 3, True), (2, 0, 3, True), (3, 0, 3, False), (9, 6, 3, False), (8, 6, 3, True)],
)
def test_the_last_attempt_does_not_wait(
    attempt: int, budget_from: int, limit: int, *, expected: bool
) -> None:
    """The limit counts the attempts since the budget began; a dataset may have its own."""
    held = claim(attempt_no=attempt, budget_from=budget_from)
    own = DatasetException(dataset="goes-glm", approval_ref="CR-1", max_attempts=limit)
    for rules in (LedgerRules(max_attempts=limit), LedgerRules(exceptions={"goes-glm": own})):
        assert waits(held, GONE, rules) is expected


def test_the_chain_says_what_it_waits_for() -> None:
    """The code is `not_ready`, the message names the fault; the last attempt has its code."""
    rules = LedgerRules(max_attempts=2)
    for attempt, code in ((1, "not_ready"), (2, "missing_object")):
        result = run_chain(claim(attempt_no=attempt), glm(), GONE, None, context(rules=rules))
        outcome = result.outcome
        assert outcome.error_code == code
        assert "not in its bucket" in (outcome.error_message or "")
        assert outcome.integrity_status.value == "failed"
        assert outcome.issues == ("integrity-check:missing_object",)
        assert result.effects.item is None


def test_a_severity_of_the_dataset_comes_first() -> None:
    """What the dataset lets pass as suspect is not waited for."""
    lenient = glm(dataset=dataset(severities={"size_too_small": Severity.SUSPECT}))
    held = claim(lenient, object_ref=ObjectReference())
    result = run_chain(held, lenient, read(600, *CUT), None, context())
    assert result.outcome.error_code is None


def test_each_cut_of_a_real_chunk_waits_until_it_is_whole() -> None:
    """A chunk is announced without a size: whatever part of it is there, the rest may come."""
    data = chunks()["20260328-201457-002-I"]
    held = claim(object_ref=ObjectReference())
    for length in (0, 3, 14, 1000, len(data) // 2, len(data) - 1):
        part = data[:length]
        header, issues = read_seen(FileFormat.NEXRAD_CHUNK, Seen(part[:4096], part[-1024:], length))
        reading = evidence(size=length, header=header, issues=issues)
        assert waits(held, reading, LedgerRules()), (length, issues)
    header, issues = read_seen(FileFormat.NEXRAD_CHUNK, Seen(data[:4096], data[-1024:], len(data)))
    assert issues == ()
