"""`tallgrass status`: the whole pipeline on one page, as it was written."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.governance.switches import SwitchScope
from tallgrass.intake.message import PoisonMessage
from tests.cli.command import tallgrass
from tests.support.builders import unit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def test_the_page_says_what_the_ledger_holds(filled: Backend, queue: str) -> None:
    """Units by state, due, parked, stale, workers, switches: as they were written."""
    found = tallgrass("status", "--queue", queue, "--output", "json", at=filled).json
    assert found["units"] == 10
    assert found["by_status"] == {
        "pending": 1, "in_progress": 1, "succeeded": 5, "failed": 2, "quarantined": 1,
    }  # fmt: skip
    assert found["by_dataset"]["hrrr"] == {"failed": 2, "quarantined": 1}
    assert (found["stale"], found["live_workers"]) == (1, 1)
    due = filled.sql("SELECT dataset, due_at FROM wal_records WHERE due_at IS NOT NULL")
    assert found["due"] == len(due)
    assert found["parked"] == sum(dataset == "nexrad-l2" for dataset, _ in due) == 1
    assert found["oldest_due_at"] == min(due_at for _, due_at in due)
    assert 0 <= found["due_lag_s"] < 60
    assert [(s["scope"], s["dataset"], s["actor"]) for s in found["switches"]] == [
        ("ingest", "nexrad-l2", "j.doe")
    ]


def test_the_page_says_what_waits_in_the_queue(filled: Backend, queue: str) -> None:
    """Visible, in flight, dead and the age of the oldest message; the name is the setting's."""
    found = tallgrass(
        "status", "--queue", queue, "--output", "json",
        at=filled, env={"TALLGRASS_QUEUE_NAME": "second"},
    ).json["queue"]  # fmt: skip
    assert (found["visible"], found["in_flight"], found["dead"]) == (2, 1, 1)
    assert found["name"] == "second"
    assert 0 <= found["message_lag_s"] < 60


def test_a_switch_that_is_off_again_is_not_shown(filled: Backend, tmp_path: Path) -> None:
    """Work goes on: no switch is listed and nothing counts as parked, though it is due."""
    stores = filled.open()
    stores.switches.set(SwitchScope.INGEST, "nexrad-l2", is_on=False, actor="j.doe", reason="done")
    stores.close()
    nowhere = f"sqlite:///{tmp_path / 'none.db'}"
    found = tallgrass("status", "--queue", nowhere, "--output", "json", at=filled).json
    assert (found["switches"], found["parked"]) == ([], 0)
    assert found["due"] >= 1


def test_looking_writes_nothing(filled: Backend, tmp_path: Path) -> None:
    """A queue that was never made is told as such, and not made."""
    nowhere = tmp_path / "none.db"
    found = tallgrass("status", "--queue", f"sqlite:///{nowhere}", "--output", "json", at=filled)
    assert found.json["queue"] is None
    assert not nowhere.exists()
    shown = tallgrass("status", "--queue", f"sqlite:///{nowhere}", at=filled)
    assert "nothing was ever sent" in shown.out


def test_the_table_is_for_people(filled: Backend, queue: str) -> None:
    """The same page in words."""
    out = tallgrass("status", "--queue", queue, at=filled).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "all 1 1 5 2 1 10" in lines
    for line in ("parked 1", "stale 1", "live workers 1", "visible 2", "dead letters 1"):
        assert line in lines
    assert "Kill switches that are on" in lines
    assert "maintenance" in out


def test_a_file_that_is_no_queue_is_told(filled: Backend, tmp_path: Path) -> None:
    """A file of something else: an error with a code, no traceback."""
    other = tmp_path / "other.db"
    other.write_text("something else, long enough to be looked at" * 10)
    done = tallgrass("status", "--queue", f"sqlite:///{other}", "--output", "json", at=filled)
    assert done.code == 1
    assert done.error["code"] == "database_corrupt"


def test_the_page_counts_poison_by_its_state(filled: Backend, queue: str) -> None:
    """What waits for a person, what was begun and what was fed, as the store holds it."""
    stores = filled.open()
    for number in range(6):
        message = PoisonMessage(
            queue="nodd-primary",
            body=b"%d" % number,
            message_id=None,
            error_code="unroutable",
            error_message="no dataset",
        )
        stores.poison.put([message])
    by = {"feed_id": str(uuid.UUID(int=1)), "actor": "j.doe", "reason": "why"}
    stores.poison.begin_feeding(stores.poison.find([4, 5, 6]), **by)
    stores.poison.confirm_feeding({5: "m-5", 6: "m-6"}, **by)
    stores.close()
    asked = ("status", "--queue", queue)
    found = tallgrass(*asked, "--output", "json", at=filled).json["poison"]
    assert found == {"open": 3, "begun": 1, "fed": 2}
    lines = [" ".join(line.split()) for line in tallgrass(*asked, at=filled).out.splitlines()]
    assert "poison 3 open, 1 begun, 2 fed" in lines


def test_the_page_says_how_long_the_disk_lasts(filled: Backend, queue: str) -> None:
    """Growth by the units whose data are of the last day, against the room that is left."""
    asked = ("status", "--queue", queue)
    found = tallgrass(*asked, "--output", "json", at=filled).json["disk"]
    assert (found["bytes_per_day"], found["days_left"]) == (None, None)
    assert (found["free_bytes"] is None) is (filled.name == "postgres")
    stores = filled.open()
    worker = stores.leases.register("w2", ingest_run_id="run", lease_s=60)
    start = datetime.now(UTC) - timedelta(hours=1)
    fresh = unit(99, time_range_start=start, time_range_end=start)
    stores.ledger.record_and_claim(worker, [fresh])
    stores.close()
    found = tallgrass(*asked, "--output", "json", at=filled).json["disk"]
    # One of eleven units came today.
    assert found["bytes_per_day"] == pytest.approx(found["database_bytes"] / 11, abs=1)
    if filled.name == "sqlite":
        days = found["free_bytes"] / found["bytes_per_day"]
        assert found["days_left"] == pytest.approx(days, rel=0.01)
    out = " ".join(tallgrass(*asked, at=filled).out.split())
    assert f"grows by {found['bytes_per_day'] / 1e6:,.1f} MB a day" in out
