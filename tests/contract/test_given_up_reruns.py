"""Re-runs of succeeded units that used up their attempts, and their way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.replaying import RunOptions
from tallgrass.simulate.feed_files import etag_of
from tests.pipeline.scene import thing
from tests.replay.scene import DOWN, Replays, Unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Records are put to work, and somebody else works on them.
IDLE = RunOptions(work=False)


@pytest.mark.conformance("C-09", "WAL-8.2")
def test_a_newer_object_that_was_given_up_comes_in_by_an_approved_plan(
    backend: Backend, tmp_path: Path
) -> None:
    """Its re-run used up the budget and its message is gone; the plan starts a new budget."""
    replays = Replays(backend, tmp_path)
    pipeline, newer = replays.pipeline, thing(version=2)
    (wal_id,) = replays.succeeded(thing())
    pipeline.feed(newer)
    unlucky = pipeline.start(reader=Unreadable())
    unlucky.run_messages()
    while not unlucky.run_due().is_empty:
        pass
    row = replays.record(wal_id)
    assert (row["status"], row["attempts"], row["budget_from"]) == ("succeeded", 9, 1)
    assert (row["due_at"], row["last_error_code"], pipeline.left()[0]) == (None, DOWN, 0)
    # The store of objects still does not answer: the limit holds for the new budget, too.
    path = replays.plan_file(replays.select([wal_id], again=True))
    replays.run(plan_file=path, approval_id=replays.approved(path), options=IDLE)
    row = replays.record(wal_id)
    assert (row["attempts"], row["budget_from"]) == (9, 9)
    while not unlucky.run_due().is_empty:
        pass
    row = replays.record(wal_id)
    assert (row["attempts"], row["budget_from"], row["due_at"]) == (17, 9, None)
    report = replays.again([wal_id], name="again.jsonl")
    assert (report.done, report.mismatches) == (1, 0)
    row = replays.record(wal_id)
    assert (row["attempts"], row["budget_from"], row["last_error_code"]) == (18, 18, None)
    item = pipeline.item(newer)
    assert item is not None
    assert (item["attempt_no"], etag_of(newer.content) in bytes(item["body"]).decode()) == (
        18, True,
    )  # fmt: skip
