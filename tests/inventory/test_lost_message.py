"""A message is lost after its letter was drained: the reconciliation finds it, a backfill mends."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.documents.runbook_world import OBJECTS, world
from tests.documents.test_runbooks import damage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.conformance("C-20")
def test_a_drained_unit_whose_message_is_lost_is_found_and_mended(tmp_path: Path) -> None:
    """It waits for a message that never comes: it is told as stuck, and announced by a list."""
    with world(tmp_path) as here:
        damage(here)
        for line in (
            "incidents open INC-7 --title letters",
            "dlq plan --code etag_mismatch --file plan.jsonl",
            "dlq drain --plan plan.jsonl --incident-ref INC-7 --remediation mended --yes",
        ):
            assert here.command("operator", *shlex.split(line)).code == 0
        assert here.statuses() == {"succeeded": 8, "pending": 2}
        with closing(sqlite3.connect(tmp_path / "queue.db")) as queue, queue:
            queue.execute("DELETE FROM messages")
        here.ingest()
        assert here.statuses() == {"succeeded": 8, "pending": 2}, "the premise: nothing moves them"

        reconcile = shlex.split(
            "reconcile --dataset goes-glm --since 2026-06-01T12:00:00Z"
            " --until 2026-06-01T12:03:20Z --grace 0 --output json"
        )
        found = here.command("operator", *reconcile, "--plan-dir", "mend")
        assert [(each["kind"], each["object_uri"]) for each in found.json["findings"]] == [
            ("stuck", each.uri) for each in OBJECTS[8:]
        ]
        (command,) = found.json["commands"]
        mended = here.command("operator", *shlex.split(command)[1:], "--output", "json")
        assert (mended.json["waited_for_message"], mended.json["changed"]) == (2, 0)
        here.ingest()
        assert here.statuses() == {"succeeded": 10}
        assert here.command("operator", *reconcile).code == 0
