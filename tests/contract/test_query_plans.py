"""How SQLite goes about statements that are given a list of ids."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tallgrass.storage.named_queries import load_queries

if TYPE_CHECKING:
    from pathlib import Path

#: A list that the caller gives, and what the statement calls it.
_GIVEN = re.compile(r"json_each\(\?\d*\) AS (\w+)")
_WITH_LIST = sorted(
    name for name, query in load_queries("sqlite").items() if _GIVEN.search(query.sql)
)


@pytest.mark.parametrize("name", _WITH_LIST)
def test_a_given_list_is_gone_through_once(name: str, migrated_file: Path) -> None:
    """Rows of a table are looked up for what is listed; the list is not read anew for each row.

    The other way round, a batch of a replay costs as much as the run has rows already.
    """
    query = load_queries("sqlite")[name]
    given = set(_GIVEN.findall(query.sql))
    values = [None] * len((*query.once, *query.each))
    loops: dict[int, list[str]] = {}
    with closing(sqlite3.connect(migrated_file)) as ledger:
        for _, parent, _, step in ledger.execute(f"EXPLAIN QUERY PLAN {query.sql}", values):
            loops.setdefault(parent, []).append(step)
    for steps in loops.values():
        tables_before = 0
        for step in steps:
            word, _, rest = step.partition(" ")
            if word in {"SCAN", "SEARCH"} and "VIRTUAL TABLE" in step:
                assert not (tables_before and rest.split()[0] in given), steps
            elif word in {"SCAN", "SEARCH"}:
                tables_before += 1


def test_what_is_in_hand_is_found_among_open_attempts(migrated_file: Path) -> None:
    """A replay asks every few seconds: closed attempts, however many, are not gone through."""
    query = load_queries("sqlite")["newest_in_hand"]
    with closing(sqlite3.connect(migrated_file)) as ledger:
        steps = [step for *_, step in ledger.execute(f"EXPLAIN QUERY PLAN {query.sql}")]
    assert steps == ["SEARCH wal_attempts USING INDEX wal_attempts_open"]
