"""Why a unit is suspect: what operators found stays with its attempt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.command import tallgrass
from tests.pipeline.scene import Pipeline, Thing, thing
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: One more than goes-glm expects at most.
TOO_MANY_BYTES = 33_554_433
FOUND = "integrity-check:size_too_large"


def oversized() -> Thing:
    """Return a whole file that is followed by bytes nobody asked for."""
    whole = thing()
    return Thing(place=whole.place, version=1, content=whole.content.ljust(TOO_MANY_BYTES, b"\0"))


def test_an_oversized_object_succeeds_and_tells_why_it_is_suspect(
    backend: Backend, tmp_path: Path
) -> None:
    """The code can be read by raw SQL and by the command line; nothing of it is in the catalog."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(large := oversized(), ordinary := thing(1))
    pipeline.drain()
    columns = "r.status, r.integrity_status, a.issues"
    assert backend.sql(
        f"SELECT {columns} FROM wal_attempts AS a JOIN wal_records AS r ON r.wal_id = a.wal_id"
        " ORDER BY r.integrity_status"
    ) == [("succeeded", "ok", None), ("succeeded", "suspect", f'["{FOUND}"]')]
    shown = tallgrass("wal", "show", large.uri, "--output", "json", at=backend).json
    assert [attempt["issues"] for attempt in shown["attempts"]] == [[FOUND]]
    assert f"issues of attempt 1: {FOUND}" in tallgrass("wal", "show", large.uri, at=backend).out
    told = tallgrass("wal", "history", large.uri, "--output", "json", at=backend).json
    assert [event["issues"] for event in told["events"]] == [None, None, [FOUND]]
    assert FOUND in tallgrass("wal", "history", large.uri, at=backend).out
    shown = tallgrass("wal", "show", ordinary.uri, "--output", "json", at=backend).json
    assert [attempt["issues"] for attempt in shown["attempts"]] == [None]
    written = backend.sql("SELECT body FROM stac_items UNION ALL SELECT body FROM provenance")
    assert len(written) == 4
    assert not [body for (body,) in written if b"size_too_large" in body]


def test_issues_survive_a_move_to_another_ledger(backend: Backend, tmp_path: Path) -> None:
    """An export holds them as a list, an import writes them as they were."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(oversized(), thing(1))
    pipeline.drain()
    file = tmp_path / "ledger.jsonl"
    assert tallgrass("wal", "export", "--file", str(file), at=backend).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    attempts = [line["attempt"]["issues"] for line in lines if "attempt" in line]
    assert sorted(attempts, key=str) == [None, [FOUND]]
    other = prepare("sqlite", f"sqlite:///{tmp_path / 'other.db'}")
    brought = tallgrass("wal", "import", str(file), "--actor", "j.doe", at=other)
    assert brought.code == 0
    stored = "SELECT wal_id, attempt_no, issues FROM wal_attempts ORDER BY wal_id"
    assert other.sql(stored) == backend.sql(stored)
    other.close()
