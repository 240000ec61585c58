"""From the journal alone: who moved a unit, when, why, from which version to which."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.rules import LedgerRules
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF
from tests.support.builders import failure, overwritten, success, unit
from tests.support.put_back import put_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.backends import Backend

LEGAL = {
    (None, "pending"),
    ("pending", "in_progress"),
    ("in_progress", "succeeded"),
    ("in_progress", "failed"),
    ("failed", "pending"),
    ("pending", "quarantined"),
    ("failed", "quarantined"),
}

CODES = ("io_error", "not_ready", "handed_back", "size_zero", "governance_hard_fail")


class RandomLife:
    """Lives through random verbs on four units."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.draw = random.Random(seed)
        self.sequence = 0
        self.steps: list[Callable[[], object]] = [
            self.announce, self.announce, self.overwrite, self.work, self.work, self.crash,
            self.stop, self.put_back, self.quarantine, self.toggle,
        ]  # fmt: skip

    def live(self, steps: int) -> None:
        """Do random things, then let everything that is still open end."""
        for _ in range(steps):
            self.draw.choice(self.steps)()
        self.scene.switch(is_on=False)

    def announce(self) -> None:
        """A message of an unchanged object."""
        self.scene.announce(unit(self.draw.randrange(4)))

    def overwrite(self) -> None:
        """A message of a newer object."""
        self.sequence += 1
        newer = f"{0x0055AED6DCD90281E6 + self.sequence:018X}"
        self.scene.announce(overwritten(self.draw.randrange(4), newer))

    def work(self) -> None:
        """What is due is claimed and ends somehow."""
        for claim in self.scene.due(3):
            good = self.draw.random() < 0.4
            self.scene.commit(success(claim) if good else failure(claim, self.draw.choice(CODES)))

    def crash(self) -> None:
        """The worker vanishes."""
        self.scene.crash()

    def stop(self) -> None:
        """The worker ends in good order."""
        self.scene.stores.leases.stop(self.scene.worker)
        self.scene.worker = self.scene.register("w")

    def put_back(self) -> None:
        """A replay of whatever failed."""
        failed = self.scene.backend.sql(
            "SELECT wal_id, version FROM wal_records WHERE status = 'failed'"
        )
        put_back(self.scene.stores, [(wal_id, version) for wal_id, version in failed], codes=CODES)

    def quarantine(self) -> None:
        """Now and then somebody holds a unit."""
        if self.draw.random() < 0.2:
            one = self.scene.backend.sql("SELECT wal_id FROM wal_records LIMIT 1")
            self.scene.quarantine(*[row[0] for row in one])

    def toggle(self) -> None:
        """The kill switch."""
        self.scene.switch(is_on=self.draw.random() < 0.4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.conformance("SM-1.4", "WAL-3.15", "WAL-3.6", "C-02", "C-04")
def test_any_life_can_be_rebuilt(backend: Backend, seed: int) -> None:
    """Versions 1 to n without a gap, each with actor and time; edges join up; attempts are rows."""
    scene = Scene(backend, LedgerRules(max_attempts=4, backoff=NO_BACKOFF))
    RandomLife(scene, seed).live(60)
    for row in backend.rows("SELECT * FROM wal_records"):
        events = backend.rows(
            "SELECT * FROM wal_history WHERE wal_id = ? ORDER BY version", row["wal_id"]
        )
        assert [event["version"] for event in events] == list(range(1, row["version"] + 1))
        assert all(event["actor"] and event["occurred_at"] for event in events)
        assert all(event["reason"] for event in events if event["kind"] not in NO_REASON)
        stamps = [event["occurred_at"] for event in events]
        assert stamps == sorted(stamps)
        assert stamps[-1] == row["updated_at"]
        before = None
        for event in events:
            source, target = event["from_status"], event["to_status"]
            assert source == before
            assert source == target or (source, target) in LEGAL
            before = target
        assert before == row["status"]
        assert row["attempts"] == len(scene.attempts(row["wal_id"]))


def test_an_attempt_tells_what_its_operators_found(backend: Backend) -> None:
    """Attempt and edge hold the issues in their order; where there were none, null."""
    scene = Scene(backend)
    found = ("metadata-extract:invalid_time_range", "integrity-check:size_too_large")
    claim = scene.claim(0)
    wal_id = claim.wal_id
    assert scene.stores.reader.attempts(wal_id)[0].issues is None
    scene.commit(success(claim, issues=found))
    [attempt] = scene.stores.reader.attempts(wal_id)
    assert attempt.issues == found
    stored = backend.sql("SELECT issues FROM wal_attempts")
    text = '["metadata-extract:invalid_time_range","integrity-check:size_too_large"]'
    assert stored == [(text,)]
    assert [event.issues for event in scene.stores.reader.history(wal_id)] == [None, None, found]
    [plain] = scene.stores.reader.attempts(scene.succeed(1))
    assert plain.issues is None


#: That a unit was seen or that its attempt succeeded needs no further why.
NO_REASON = {"recorded", "applied"}


@pytest.mark.conformance("SM-1.4")
def test_the_reader_tells_the_history_in_order(backend: Backend) -> None:
    """Every edge of a life with failure, replay and success is told with its actor and reason."""
    scene = Scene(backend)
    wal_id = scene.fail(0, "missing_object")
    put_back(scene.stores, [(wal_id, 3)], run_id="run-9")
    [claim] = scene.due()
    scene.commit(success(claim))
    told = [
        (e.version, e.kind, e.from_status, e.to_status, e.attempt_no, e.actor, e.reason)
        for e in scene.stores.reader.history(wal_id)
    ]
    assert told == [
        (1, "recorded", None, "pending", None, "w", None),
        (2, "claimed", "pending", "in_progress", 1, "w", "ingest"),
        (3, "failed", "in_progress", "failed", 1, "w", "missing_object"),
        (4, "replay", "failed", "pending", None, "ann", "backfill"),
        (5, "claimed", "pending", "in_progress", 2, "w", "ingest"),
        (6, "applied", "in_progress", "succeeded", 2, "w", None),
    ]
    assert scene.stores.reader.history(wal_id)[3].replay_run_id == "run-9"
    assert scene.stores.reader.history(unit(0).object_uri)[0].version == 1
