"""A switch that is turned while somebody waits for rows: what was not begun does not begin.

On SQLite a transaction shuts out all others, so nobody turns a switch while one waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tallgrass.governance.switches import SwitchScope
from tests.contract.scene import Scene
from tests.pipeline.scene import thing
from tests.replay.letters import Letters
from tests.support.builders import unit
from tests.support.processes import MEETING_S_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.backends import Backend

pytestmark = pytest.mark.parametrize("backend", ["postgres"], indirect=True)

WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@contextlib.contextmanager
def rows_held(backend: Backend) -> Iterator[Callable[[], None]]:
    """Hold all records, as another's transaction would; give what waits until somebody wants them.

    They are free again at the end.
    """

    def wait_for_somebody() -> None:
        deadline = time.monotonic() + MEETING_S_MAX
        while not backend.sql(WAITING)[0][0]:
            assert time.monotonic() < deadline, "nobody waits for the rows"
            threading.Event().wait(0.01)

    with psycopg.connect(backend.url) as holder:
        holder.execute("SELECT 1 FROM wal_records FOR NO KEY UPDATE")
        yield wait_for_somebody


def turned_meanwhile(backend: Backend, call: Callable[[], Any], turn: Callable[[], object]) -> Any:
    """Turn a switch while a call waits for its rows; return the call's answer."""
    with ThreadPoolExecutor(1) as pool:
        with rows_held(backend) as wait_for_somebody:
            answer = pool.submit(call)
            wait_for_somebody()
            turn()
        return answer.result(MEETING_S_MAX)


@pytest.mark.conformance("C-49")
def test_a_claim_that_waited_heeds_the_switch(backend: Backend) -> None:
    """Both the unit that it waited for and the new one beside it are parked."""
    scene, people = Scene(backend), Scene(backend)
    scene.fail(0)
    receipts = turned_meanwhile(
        backend,
        lambda: scene.announce(unit(0), unit(1)),
        lambda: people.switch(is_on=True),
    )
    assert [receipt.decision.action.value for receipt in receipts] == ["park", "park"]
    assert backend.sql("SELECT count(*) FROM wal_attempts WHERE status = 'pending'") == [(0,)]
    people.switch(is_on=False)
    assert {claim.wal_id for claim in scene.due()} == {unit(0).wal_id, unit(1).wal_id}


@pytest.mark.conformance("C-49", "WAL-8.7")
def test_a_drain_that_waited_heeds_the_switch(backend: Backend, tmp_path: Path) -> None:
    """Nothing is sent; the plan goes on when the switch is back."""
    letters = Letters(backend, tmp_path)
    letters.fail(thing(0))
    plan = letters.plan()
    report = turned_meanwhile(
        backend, lambda: letters.drain(plan), lambda: letters.switch(is_on=True)
    )
    assert (report.sent, report.by_reason) == (0, {"kill_switch_active": 1})
    assert (letters.statuses(thing(0)), letters.waiting()) == (["failed"], 0)
    letters.switch(is_on=False)
    assert letters.drain(plan).sent == 1


@pytest.mark.conformance("WAL-8.7")
def test_a_replayed_unit_that_was_waited_for_heeds_the_switch_of_replays(
    backend: Backend, tmp_path: Path
) -> None:
    """The message of a drained unit is in a worker's hands when replays are switched off."""
    letters = Letters(backend, tmp_path)
    letters.fail(thing(0))
    assert letters.drain(letters.plan()).sent == 1
    worked = turned_meanwhile(backend, letters.work, lambda: letters.switch(is_on=True))
    assert (worked, letters.statuses(thing(0))) == (0, ["pending"])
    assert not letters.people.stores.switches.switched_off(SwitchScope.INGEST).everything
