from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.errors import IllegalTransition
from tallgrass.ledger.transitions import ATTEMPT_EDGES, EDGES, LEGAL, TERMINAL, require_legal
from tallgrass.ledger.vocabulary import AttemptStatus, Status

NOTHING = "no record"
STATUSES = ["pending", "in_progress", "succeeded", "failed", "quarantined"]

#: Rows are what a unit is, columns what it would become; x marks the seven legal edges.
MATRIX = """
             pending in_progress succeeded failed quarantined
no_record       x         .          .       .         .
pending         .         x          .       .         x
in_progress     .         .          x       x         .
succeeded       .         .          .       .         .
failed          x         .          .       .         x
quarantined     .         .          .       .         .
"""


def matrix() -> dict[tuple[str, str], bool]:
    """Return the drawn matrix by source and target."""
    head, *lines = [line.split() for line in MATRIX.strip().splitlines()]
    return {
        (row[0].replace("no_record", NOTHING), column): mark == "x"
        for row in lines
        for column, mark in zip(head, row[1:], strict=True)
    }


def is_allowed(source: str, target: str) -> bool:
    """Ask the guard."""
    start = None if source == NOTHING else Status(source)
    try:
        require_legal(start, Status(target), wal_id="w")
    except IllegalTransition as refusal:
        assert refusal.code == "illegal_transition"  # noqa: PT017 - a refusal is one of two answers
        return False
    return True


@pytest.mark.conformance("WAL-10.3", "SM-3.1")
def test_exactly_seven_of_all_edges_are_legal() -> None:
    """Of every pair of states, from no record or a status to a status, seven are let through."""
    expected = matrix()
    found = {
        (source, target): is_allowed(source, target)
        for source, target in product([NOTHING, *STATUSES], STATUSES)
    }
    assert found == expected
    assert sum(found.values()) == 7
    assert len(EDGES) == len(LEGAL) == 7


@pytest.mark.conformance("WAL-10.3")
def test_no_edge_leads_to_no_record() -> None:
    """The sixth column of the matrix is empty: a record is never taken away."""
    assert all(isinstance(edge.target, Status) for edge in EDGES)


@pytest.mark.parametrize("target", ["failed", "pending"])
def test_a_succeeded_unit_becomes_neither_failed_nor_pending(target: str) -> None:
    """The guard refuses both ways back."""
    with pytest.raises(IllegalTransition, match="succeeded"):
        require_legal(Status.SUCCEEDED, Status(target), wal_id="w")


def test_two_statuses_are_terminal() -> None:
    """No edge leaves succeeded or quarantined; one leaves each of the others."""
    assert {"succeeded", "quarantined"} == TERMINAL
    assert {edge.source for edge in EDGES} == {None, *STATUSES} - {"succeeded", "quarantined"}


@given(st.lists(st.sampled_from(STATUSES), max_size=30))
def test_no_walk_leaves_a_terminal_status(wishes: list[str]) -> None:
    """Whatever is asked for in whatever order, a terminal status is the last one."""
    expected = matrix()
    status = NOTHING
    for wish in wishes:
        before = status
        if is_allowed(status, wish):
            assert expected[status, wish]
            status = wish
        if before in {"succeeded", "quarantined"}:
            assert status == before


def test_a_refusal_names_unit_and_edge() -> None:
    """The error says which unit and which change was refused."""
    with pytest.raises(IllegalTransition, match="w-1: no record → failed"):
        require_legal(None, Status.FAILED, wal_id="w-1")


def test_an_attempt_has_four_edges() -> None:
    """An attempt is opened, applied or failed; only what failed is rolled back."""
    assert {(source and source.value, target.value) for source, target in ATTEMPT_EDGES} == {
        (None, "pending"),
        ("pending", "applied"),
        ("pending", "failed"),
        ("failed", "rolled_back"),
    }
    assert len(list(AttemptStatus)) == 4
