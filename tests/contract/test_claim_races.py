"""Claims and commits when others move meanwhile, or nobody knows whether a COMMIT came through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.scene import Scene
from tests.contract.twisted import LANDED, UNDONE, Twisted
from tests.support.builders import success, units

if TYPE_CHECKING:
    from tests.support.backends import Backend


class TestRaces:
    """What another process did between the lock and the write is looked at again, once more."""

    def test_a_record_that_moved_since_it_was_read(self, backend: Backend) -> None:
        """The batch is undone and run again: the unit is claimed by what it is now."""
        scene = Scene(backend, sleep=lambda _s: None)
        wal_id = scene.fail()

        def older(rows: list[Any]) -> list[dict[str, Any]]:
            return [{**row, "version": row["version"] - 1} for row in rows]

        twisted = Twisted(scene, statement="known_objects", change=older)
        claim = scene.claim(0)
        assert (twisted.begun, claim.attempt_no, claim.version) == (2, 2, 5)
        assert scene.row(wal_id)["status"] == "in_progress"
        assert len(scene.attempts(wal_id)) == 2

    def test_a_unit_that_another_recorded_at_the_same_moment(self, backend: Backend) -> None:
        """One row fewer than asked for was new: nothing of the first try stays."""
        scene = Scene(backend, sleep=lambda _s: None)
        twisted = Twisted(scene, statement="insert_records", change=lambda count: count - 1)
        scene.announce(*units(2))
        assert twisted.begun == 2
        found = backend.sql("SELECT status, attempts, version FROM wal_records")
        assert found == [("in_progress", 1, 2)] * 2
        assert backend.sql("SELECT count(*) FROM wal_attempts") == [(2,)]


class TestUnknownCommits:
    """The connection broke during COMMIT: the database is asked, and nothing happens twice."""

    def test_one_that_landed_is_not_run_again(self, backend: Backend) -> None:
        """Two transactions: the work, and the question."""
        scene = Scene(backend, sleep=lambda _s: None)
        claim = scene.claim()
        twisted = Twisted(scene, commits=[LANDED])
        result = scene.commit(success(claim))
        assert (twisted.begun, result.lost, set(result.closed)) == (2, (), {claim.wal_id})
        row = scene.row(claim.wal_id)
        assert (row["status"], row["version"]) == ("succeeded", 3)

    def test_one_that_did_not_land_is_run_again(self, backend: Backend) -> None:
        """Three: the work, the question, and the work."""
        scene = Scene(backend, sleep=lambda _s: None)
        claim = scene.claim()
        twisted = Twisted(scene, commits=[UNDONE])
        result = scene.commit(success(claim))
        assert (twisted.begun, result.lost) == (3, ())
        row = scene.row(claim.wal_id)
        assert (row["status"], row["version"]) == ("succeeded", 3)

    def test_one_that_had_nothing_to_write_is_done(self, backend: Backend) -> None:
        """All its claims were lost: there is nothing that could be missing."""
        scene = Scene(backend, sleep=lambda _s: None)
        theirs = scene.claim(worker=scene.register("other"))
        twisted = Twisted(scene, commits=[LANDED])
        result = scene.commit(success(theirs))
        assert (twisted.begun, result.lost, result.closed) == (2, (theirs.wal_id,), {})


class TestLocks:
    """Units are locked before anything of them is compared, in the order of their ids."""

    def test_by_a_commit(self, backend: Backend) -> None:
        """Whatever order they are reported in; who lost nothing does not ask for what was lost.

        Nor does a commit look for replay runs that none of its units came by.
        """
        scene = Scene(backend)
        claims = [receipt.claim for receipt in scene.announce(*units(3)) if receipt.claim]
        twisted = Twisted(scene)
        scene.commit(*(success(claim) for claim in reversed(claims)))
        called = twisted.called
        assert called.index("lock_units") < called.index("close_attempts")
        assert twisted.locked["lock_units"] == sorted(claim.wal_id for claim in claims)
        assert not {"closed_by", "replayed_before"} & set(called)

    @pytest.mark.parametrize("verb", ["recover", "stop", "hand_back"])
    def test_by_a_release(self, backend: Backend, verb: str) -> None:
        """Open attempts are read under the lock: others may have been closed before it."""
        scene = Scene(backend)
        held = sorted(r.claim.wal_id for r in scene.announce(*units(3)) if r.claim)
        twisted = Twisted(scene)
        if verb == "recover":
            backend.expire(scene.worker)
            scene.stores.leases.recover()
        else:
            getattr(scene.stores.leases, verb)(scene.worker)
        assert sorted(twisted.locked["lock_units"]) == held
        assert twisted.called.index("lock_units") < twisted.called.index("open_attempts")

    def test_a_sweep_that_finds_nothing_asks_and_goes(self, backend: Backend) -> None:
        """It runs every few seconds in every worker, and waits for nothing that the living hold."""
        scene = Scene(backend)
        scene.claim()
        twisted = Twisted(scene)
        assert scene.stores.leases.recover().units == ()
        assert twisted.called == ["fence_expired", "abandoned_attempts"]
