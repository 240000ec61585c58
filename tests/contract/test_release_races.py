"""Whoever frees units asks again, under the lock, who holds them: others were quicker meanwhile."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import WorkerFenced
from tallgrass.storage import leases
from tests.contract.scene import Scene
from tests.contract.twisted import Twisted
from tests.support.builders import success, unit, units
from tests.support.processes import MEETING_S_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.backends import Backend


class Stalled:
    """Lets a connection wait before it locks units, as it would wait for a lock."""

    def __init__(self, stores: Any) -> None:
        self._real = stores.runner.database
        self._reached, self._go_on = threading.Event(), threading.Event()
        stores.runner.database = self

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Begin one that waits."""
        with self._real.transaction() as transaction:
            lock = transaction.lock

            def late(name: str, rows: Any) -> None:
                if name == "lock_units":
                    self._reached.set()
                    assert self._go_on.wait(MEETING_S_MAX)
                lock(name, rows)

            transaction.lock = late
            yield transaction

    @contextlib.contextmanager
    def during(self, call: Callable[[], Any]) -> Iterator[list[Any]]:
        """Let a call come as far as the lock; go on with it at the end, and keep its answer."""
        answers: list[Any] = []

        def answer() -> None:
            try:
                answers.append(call())
            except WorkerFenced as fenced:
                answers.append(fenced)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            assert self._reached.wait(MEETING_S_MAX)
            yield answers
        finally:
            self._go_on.set()
            thread.join(MEETING_S_MAX)


@pytest.mark.conformance("C-11", "SM-5.2b", "WAL-7.5")
def test_a_fenced_worker_hands_nothing_back(backend: Backend) -> None:
    """What it held is another's by now: it is told that it lost its lease, and nothing moves."""
    scene = Scene(backend)
    late, other = scene.worker, scene.register("other")
    scene.claim()
    scene.crash(late)
    [claim] = scene.due(worker=other)
    before = scene.tables()
    with pytest.raises(WorkerFenced):
        scene.stores.leases.hand_back(late)
    assert scene.tables() == before
    assert scene.commit(success(claim), worker=other).lost == ()


@pytest.mark.conformance("C-11", "WAL-7.5")
@pytest.mark.parametrize("verb", ["hand_back", "stop"])
def test_a_hand_back_closes_its_own_attempts_alone(backend: Backend, verb: str) -> None:
    """A unit that changed hands between the look and the lock stays with its new holder."""
    scene = Scene(backend)
    other = scene.register("other")
    mine, theirs = scene.claim(0), scene.claim(1, other)

    def both(rows: list[Any]) -> list[dict[str, Any]]:
        return [*rows, {"wal_id": theirs.wal_id}]

    Twisted(scene, statement="attempts_of_worker", change=both)
    assert getattr(scene.stores.leases, verb)(scene.worker) == (mine.wal_id,)
    assert [each["status"] for each in scene.attempts(theirs.wal_id)] == ["pending"]
    assert scene.commit(success(theirs), worker=other).lost == ()


@pytest.mark.conformance("C-11", "SM-5.2b", "WAL-7.5")
def test_a_sweep_leaves_what_a_live_worker_took_meanwhile(backend: Backend) -> None:
    """A unit that was abandoned at the look, and is held at the lock, is not freed again."""
    scene = Scene(backend)
    scene.claim(unit(1))
    other = scene.register("other")
    held = scene.claim(unit(0), other)

    def as_it_was(rows: list[Any]) -> list[dict[str, Any]]:
        return [{"wal_id": held.wal_id}, *rows]

    Twisted(scene, statement="abandoned_attempts", change=as_it_was)
    assert scene.crash() == (unit(1).wal_id,)
    assert scene.row(held.wal_id)["lease_expiries"] == 0
    assert scene.commit(success(held), worker=other).lost == ()


#: On SQLite a transaction shuts out all others: nothing comes between look and lock.
ROWS_ARE_LOCKED = pytest.mark.parametrize("backend", ["postgres"], indirect=True)


@ROWS_ARE_LOCKED
class TestForced:
    """The same by two connections, in the order that does the harm."""

    def test_a_worker_that_hands_back_is_not_fenced_before_its_end(self, backend: Backend) -> None:
        """A sweep passes it by, so that nobody has its units before it has given them back."""
        scene, rescuer = Scene(backend), Scene(backend)
        claim = scene.claim()
        with Stalled(scene.stores).during(
            lambda: scene.stores.leases.hand_back(scene.worker)
        ) as answers:
            backend.expire(scene.worker)
            assert rescuer.stores.leases.recover().units == ()
            assert rescuer.due() == []
        assert answers == [(claim.wal_id,)]
        [again] = rescuer.due()
        assert rescuer.commit(success(again)).lost == ()

    def test_a_late_sweep_finds_its_units_held_again(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One page is freed and claimed anew while another sweep waits for its rows."""
        monkeypatch.setattr(leases, "RECOVERY_BATCH", 2)
        lost, first, second = Scene(backend), Scene(backend), Scene(backend)
        lost.announce(*units(3))
        backend.expire(lost.worker)
        begin, pages = first.stores.runner.database.transaction, [0]
        with contextlib.ExitStack() as waiting:
            answers: list[Any] = []

            def after_the_first_page() -> Any:
                pages[0] += 1
                if pages[0] == 2:
                    recover = second.stores.leases.recover
                    answers.append(waiting.enter_context(Stalled(second.stores).during(recover)))
                return begin()

            first.stores.runner.database.transaction = after_the_first_page  # type: ignore[method-assign]
            assert len(first.stores.leases.recover().units) == 3
            claims = [claim for _ in range(3) for claim in first.due()]
            assert len(claims) == 3
        assert answers[0][0].units == ()
        assert first.commit(*(success(claim) for claim in claims)).lost == ()
