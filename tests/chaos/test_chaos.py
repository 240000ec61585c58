"""Real processes, killed and frozen; `make chaos CYCLES=5000` does so for longer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.judgement import doubles, judge, stale_writes, undelivered, unfinished_graphs
from tests.chaos.points import POINTS
from tests.chaos.run import _in_turn
from tests.oracle.tables import QueueContents, read_tables
from tests.pipeline.scene import Pipeline, things
from tests.support.backends import prepare
from tests.support.processes import ROOT
from tools.chaos import runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

CYCLES = 20


@pytest.mark.slow
@pytest.mark.conformance("SM-2.2c")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("arena", ["sqlite", "postgres"])
def test_nothing_is_lost_doubled_or_stale_whoever_is_killed(arena: str) -> None:
    """Workers, dispatchers, replays and nodes, killed twenty times and more; then the oracle."""
    command = ["-m", "tools.chaos", "--cycles", str(CYCLES), "--from", "7", "--only", arena]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    (kills,) = re.findall(
        r"^(\d+) kills, 0 lost, 0 duplicate, 0 stale$", done.stdout, flags=re.MULTILINE
    )
    assert int(kills) >= CYCLES, told
    # The premise: there was work, and some of it was cut off.
    pairs = re.findall(r"([\d,]+) ([a-z ]*[a-z])", told)
    counts = {name: int(number.replace(",", "")) for number, name in pairs}
    assert counts["units"] == counts["items"] == 8 * CYCLES
    assert counts["graphs"] > 5
    assert counts["attempts"] > counts["units"]


def test_cycles_are_shared_out_and_no_point_is_left_out() -> None:
    """Both arenas get their share, and every named point is struck before any comes again."""
    assert runs(40, ("sqlite", "postgres")) == [("sqlite", 20), ("postgres", 20)]
    assert runs(601, ("sqlite", "postgres"))[:3] == [
        ("sqlite", 250),
        ("sqlite", 51),
        ("postgres", 250),
    ]
    every = {(role, point) for role, points in POINTS.items() for point in points}
    turn = _in_turn(Random(1))
    assert {next(turn) for _ in every} == every


# --- the judgement can fail -----------------------------------------------------------------------


@pytest.fixture
def done(tmp_path: Path) -> Iterator[Backend]:
    """A ledger with three units that are done."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(3))
    pipeline.drain()
    yield backend
    backend.close()


def doctored(backend: Backend, *statements: str) -> Any:
    """Return a connection to a ledger that was changed behind everybody's back."""
    connection = backend.connect()
    connection.execute("PRAGMA foreign_keys = OFF")
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
        connection.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        connection.execute(statement)
    return connection


def test_a_unit_that_is_missing_is_lost(done: Backend, tmp_path: Path) -> None:
    """A unit of the feed that is not in the ledger, and an item that is gone, are told as lost."""
    manifest = {
        "units": [
            {"object_uri": "s3://noaa-goes19/never.nc", "expected": "succeeded"},
        ],
        "poison": {},
    }
    connection = doctored(done)
    found = judge(connection, QueueContents(), manifest, tmp_path / "events", attempts_max=8)
    assert any("neither in the ledger nor a dead letter" in text for text in found.lost)
    connection = doctored(done, "DELETE FROM stac_items")
    found = judge(connection, QueueContents(), manifest, tmp_path / "events", attempts_max=8)
    assert sum("successes_are_whole" in text for text in found.lost) == 3


def test_what_is_there_twice_is_told(done: Backend) -> None:
    """A second item of a unit, a second edge and a second event of one identity are duplicates."""
    tables = read_tables(doctored(done))
    assert list(doubles(tables)) == []
    for name in ("items", "provenance", "outbox"):
        rows = getattr(tables, name)
        rows.append({**rows[0], "outbox_id": "another"})
    assert [text.split()[0] for text in doubles(tables)] == ["item", "item", "edge", "event"]


def test_a_write_after_the_fence_is_stale(done: Backend) -> None:
    """An attempt that was applied after its worker was fenced is told; before it is not."""
    connection = doctored(done, "UPDATE workers SET fenced_at = '2999-01-01T00:00:00.000000Z'")
    assert list(stale_writes(read_tables(connection))) == []
    connection = doctored(done, "UPDATE workers SET fenced_at = '2000-01-01T00:00:00.000000Z'")
    assert len(list(stale_writes(read_tables(connection)))) == 3


def test_an_event_that_did_not_arrive_is_lost(done: Backend, tmp_path: Path) -> None:
    """Events must be dispatched, and whole in the file; a torn line counts for nothing."""
    connection = doctored(done)
    tables = read_tables(connection)
    names = [event["outbox_id"] for event in tables.outbox]
    file = tmp_path / "events.jsonl"
    lines = [json.dumps({"id": name}) for name in names]
    file.write_text("\n".join([*lines[:-1], lines[-1][:-5]]), encoding="utf-8")
    found = list(undelivered(tables, file))
    assert [text for text in found if "not in the file" in text] == [
        f"event {names[-1]} is not in the file"
    ]
    assert sum("is pending at the end" in text for text in found) == 3


def test_a_graph_without_its_effect_is_lost(tmp_path: Path) -> None:
    """Each graph leaves its one effect outside."""
    for name in ("1-0", "1-1"):
        (tmp_path / name / "outside").mkdir(parents=True)
    (tmp_path / "1-0" / "outside" / "object-20").touch()
    assert list(unfinished_graphs(tmp_path, ["object-20"])) == ["graph 1-1 left [] outside"]
