"""The judgement of a soak goes page by page, and can fail."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.test_chaos import doctored
from tests.oracle.tables import QueueContents
from tests.pipeline.scene import Pipeline, things
from tests.soak import judging
from tests.soak.judging import judge_soak
from tests.support.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

UNITS = 7


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    """A ledger with seven units that are done, which fill pages of three."""
    monkeypatch.setattr(judging, "PAGE", 3)
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'ledger.db'}")
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(UNITS))
    pipeline.drain()
    doctored(backend,
             "UPDATE outbox_delivery SET status = 'dispatched', due_at = NULL, attempt = 1",
             "INSERT INTO outbox_attempts SELECT outbox_id, 1, 'd', 'dispatched', 0, NULL, NULL,"
             " updated_at FROM outbox_delivery").close()  # fmt: skip
    yield backend
    backend.close()


def judged(backend: Backend, folder: Path, **changes: Any) -> dict[str, Any]:
    """Judge with what was announced, delivered and left in the queue, or with something else."""
    units = [
        {
            "object_uri": uri, "dataset": dataset, "time_range_start": start,
            "time_range_end": end, "expected": "succeeded", "fate": "plain",
            "etag": json.loads(evidence)["etag"], "size": json.loads(evidence)["size"],
        }
        for uri, dataset, start, end, evidence in backend.sql(
            "SELECT object_uri, dataset, time_range_start, time_range_end, evidence"
            " FROM wal_records JOIN wal_attempts USING (wal_id)"
        )
    ]  # fmt: skip
    manifest = {"units": [*units, *changes.get("more", [])], "poison": changes.get("poison", {})}
    (folder / "manifests.jsonl").write_text(json.dumps(manifest) + "\n", encoding="utf-8")
    events = [row[0] for row in backend.sql("SELECT outbox_id FROM outbox ORDER BY outbox_id")]
    lines = [json.dumps({"id": name}) for name in events[changes.get("undelivered", 0) :]]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n{torn", encoding="utf-8")
    with (
        closing(sqlite3.connect(folder / "ledger.db")) as model,
        closing(sqlite3.connect(folder / "archived.db")) as scratch,
    ):
        return judge_soak(
            backend.url, changes.get("queue", QueueContents()), folder / "manifests.jsonl",
            folder / "events.jsonl", model, scratch,
        )  # fmt: skip


def test_a_run_that_kept_its_promises_is_clean(done: Backend, tmp_path: Path) -> None:
    """All pages are judged, and everything is counted once."""
    found = judged(done, tmp_path)
    assert (found["lost"], found["duplicate"], found["stale"]) == ([], [], [])
    assert found["counts"] == {
        "units": UNITS, "attempts": UNITS, "items": UNITS, "events": UNITS,
    }  # fmt: skip


def test_what_is_missing_is_lost(done: Backend, tmp_path: Path) -> None:
    """A unit that no page has, a poison message that nobody kept, an event that never came."""
    never = {"object_uri": "s3://noaa-goes19/never.nc", "expected": "succeeded"}
    found = judged(done, tmp_path, more=[never], poison={"unroutable": 1}, undelivered=1)
    assert sorted(text.partition(":")[0].split()[0] for text in found["lost"]) == [
        "event", "poison_is_kept", "units_met_their_fate",
    ]  # fmt: skip


def test_an_item_that_is_gone_is_found_on_its_page(done: Backend, tmp_path: Path) -> None:
    """The last unit is on a page of its own."""
    last = "(SELECT max(wal_id) FROM stac_items)"
    doctored(done, f"DELETE FROM stac_items WHERE wal_id = {last}").close()
    found = judged(done, tmp_path)
    assert [text.partition(":")[0] for text in found["lost"]] == ["successes_are_whole"]


def test_a_dead_letter_of_what_succeeded_is_told(done: Backend, tmp_path: Path) -> None:
    """Also if its two units are on two pages: each page brings the other unit along."""
    uris = [row[0] for row in done.sql("SELECT object_uri FROM wal_records ORDER BY wal_id")]
    records = [
        {"eventName": "ObjectCreated:Put",
         "s3": {"bucket": {"name": uri.split("/")[2]}, "object": {"key": uri.split("/", 3)[3]}}}
        for uri in (uris[0], uris[-1])
    ]  # fmt: skip
    letter = json.dumps({"Records": records}).encode()
    found = judged(done, tmp_path, queue=QueueContents(dead=[letter]))
    assert {text.partition(":")[0] for text in found["lost"]} == {"dead_letters_are_failures"}


def test_a_write_after_the_fence_is_stale(done: Backend, tmp_path: Path) -> None:
    """On every page, by the worker that all of them have."""
    doctored(done, "UPDATE workers SET fenced_at = '2000-01-01T00:00:00.000000Z'").close()
    assert len(judged(done, tmp_path)["stale"]) == UNITS
