"""What recovery and closing tell and refuse: details of the log, events, pages, double claims."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import InvalidInput
from tallgrass.ledger.rules import LedgerRules
from tallgrass.storage import leases
from tallgrass.telemetry import names
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF, ManualClock, prepare
from tests.support.builders import failure, success, units
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def details(backend: Backend, action: str) -> list[tuple[str, Any]]:
    """Return subject and detail of the entries of one action, in order."""
    rows = backend.sql(
        "SELECT subject, detail FROM audit_log WHERE action = ? ORDER BY entry_id", action
    )
    return [(subject, json.loads(detail)) for subject, detail in rows]


def test_a_recovery_tells_how_many_were_fenced_and_what_was_freed(backend: Backend) -> None:
    """The log names the first and the last unit; an event tells the numbers, once."""
    recorder = MemoryRecorder()
    scene = Scene(backend, recorder=recorder)
    ids = sorted(receipt.claim.wal_id for receipt in scene.announce(*units(3)) if receipt.claim)
    scene.register("another", lease_s=60)
    scene.crash()
    assert details(backend, "recover_units") == [
        ("3 units", {"workers_fenced": 1, "first": ids[0], "last": ids[-1]})
    ]
    scene.stores.leases.recover()
    told = [fields for name, fields in recorder.events if name == names.UNITS_RECOVERED]
    assert [(fields["workers"], fields["count"]) for fields in told] == [(1, 3)]


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_more_units_than_one_page_are_all_freed(
    number: int, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, each in its own transaction and with its own entry of the log."""
    monkeypatch.setattr(leases, "RECOVERY_BATCH", 2)
    scene = Scene(backend)
    held = {receipt.claim.wal_id for receipt in scene.announce(*units(number)) if receipt.claim}
    freed = scene.crash()
    assert (set(freed), len(freed)) == (held, number)
    pages = [subject for subject, _ in details(backend, "recover_units")]
    assert pages == ["2 units"] * (number // 2) + ["1 units"] * (number % 2)


def test_a_lease_that_is_renewed_ends_later(tmp_path: Path) -> None:
    """Its new end is told: by the clock, and as long as it was."""
    backend = prepare("sqlite", f"sqlite:///{tmp_path / 'clock.db'}")
    clock = ManualClock()
    scene = Scene(backend, clock=clock)
    clock.advance(7)
    assert scene.stores.leases.renew(scene.worker) == clock() + timedelta(seconds=60)
    backend.close()


def test_what_a_failed_batch_held_is_handed_back(backend: Backend) -> None:
    """The worker keeps its lease, its units are due at once, and it is told which they are."""
    scene = Scene(backend)
    held = sorted(r.claim.wal_id for r in scene.announce(*units(2)) if r.claim)
    assert sorted(scene.stores.leases.hand_back(scene.worker)) == held
    assert scene.stores.leases.hand_back(scene.worker) == ()
    for wal_id in held:
        assert scene.row(wal_id)["status"] == "pending"
        assert [each["error_code"] for each in scene.attempts(wal_id)] == ["handed_back"]
    again = scene.due()
    assert sorted(claim.wal_id for claim in again) == held
    assert scene.commit(*(success(claim) for claim in again)).lost == ()


def test_a_claim_is_reported_on_once(backend: Backend) -> None:
    """A batch that tells two outcomes of one claim is refused, and nothing is written."""
    scene = Scene(backend)
    claim = scene.claim()
    before = scene.tables()
    with pytest.raises(InvalidInput, match="a claim stands twice in the batch"):
        scene.commit(success(claim), failure(claim))
    assert scene.tables() == before
    assert scene.commit(success(claim)).lost == ()


def test_a_unit_that_is_held_tells_how_often_it_was_tried(backend: Backend) -> None:
    """The log has the number of attempts and the last error."""
    scene = Scene(backend, LedgerRules(max_attempts=2, backoff=NO_BACKOFF))
    wal_id = scene.fail()
    scene.fail()
    scene.announce(*units(1))
    assert scene.row(wal_id)["status"] == "quarantined"
    assert details(backend, "quarantine") == [
        (wal_id, {"attempts": 2, "last_error_code": "io_error"})
    ]
