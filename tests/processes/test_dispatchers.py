"""Dispatchers as real processes: many at once, killed, stopped past their lease, late commits."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.clock import parse_instant, system_clock
from tallgrass.outbox.dispatch_loop import DispatchUntil
from tests.support.events import MemorySink, event_id, insert, row, write
from tests.support.outbox_roles import open_dispatcher, open_loop
from tests.support.processes import ROOT, Child, _command, play, read_log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

PROCESSES = 8
EVENTS, EVENTS_FULL = 1_000, 10_000
LATE, LATE_FULL = 5_000, 100_000
COUNT = 10


def sends(log: Path) -> Counter[str]:
    """Count how often each event was sent, by the targets' own notes."""
    if log.is_dir():
        return Counter(entry["id"] for entry in read_log(log))
    return Counter(json.loads(line)["id"] for line in log.read_text(encoding="utf-8").split())


def write_many(backend: Backend, count: int) -> None:
    """Write events in transactions of five hundred."""
    for first in range(1, count + 1, 500):
        write(backend, *range(first, min(first + 500, count + 1)))


def assert_attempts_add_up(backend: Backend, sent: Counter[str]) -> None:
    """An event's attempts are its sends and the claims that were lost or given back."""
    rows = backend.sql(
        "SELECT d.outbox_id, d.attempt, count(a.attempt),"
        " sum(CASE WHEN a.outcome = 'released' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN a.outcome = 'dispatched' THEN 1 ELSE 0 END)"
        " FROM outbox_delivery AS d JOIN outbox_attempts AS a ON a.outbox_id = d.outbox_id"
        " GROUP BY d.outbox_id, d.attempt"
    )
    assert len(rows) == len(sent)
    for name, attempt, ended, released, dispatched in rows:
        assert attempt == ended
        assert dispatched == 1
        assert sent[name] <= attempt - released


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.conformance("OB-4.2", "OB-2.6")
def test_eight_dispatchers_send_each_event_once(
    backend: Backend, tmp_path: Path, *, full_counts: bool
) -> None:
    """Eight processes share out all events; no event is sent twice, none is left."""
    count = EVENTS_FULL if full_counts else EVENTS
    write_many(backend, count)
    play(
        "dispatch_crowd",
        name=backend.name,
        url=backend.url,
        log=str(tmp_path),
        processes=PROCESSES,
        expected=count,
    )
    sent = sends(tmp_path)
    assert sent == Counter({event_id(number): 1 for number in range(1, count + 1)})
    assert backend.sql("SELECT status, attempt, count(*) FROM outbox_delivery GROUP BY 1, 2") == [
        ("dispatched", 1, count)
    ]
    assert_attempts_add_up(backend, sent)


class LateWriters:
    """Writers whose transactions commit in another order than their ids and times were given."""

    def __init__(self, backend: Backend, count: int) -> None:
        self._backend = backend
        self._count = count
        self._random = Random(11)

    def write(self) -> None:
        """Write all events; on SQLite, with its one writer, only ids and times are out of order."""
        blocks = [
            list(range(first, min(first + 10, self._count + 1)))
            for first in range(1, self._count + 1, 10)
        ]
        if self._backend.name == "sqlite":
            self._random.shuffle(blocks)
            connection = self._backend.connect()
            for block in blocks:
                connection.execute("BEGIN IMMEDIATE")
                insert(connection, self._backend, [self._row(number) for number in block])
                connection.execute("COMMIT")
            return
        connections = [self._backend.connect() for _ in range(10)]
        for first in range(0, len(blocks), len(connections)):
            group = list(zip(connections, blocks[first : first + len(connections)], strict=False))
            for connection, block in group:
                connection.execute("BEGIN")
                insert(connection, self._backend, [self._row(number) for number in block])
            self._random.shuffle(group)
            for connection, _ in group:
                connection.execute("COMMIT")

    def _row(self, number: int) -> tuple[Any, ...]:
        minute = self._random.randrange(60)
        return row(number, created_at=f"2026-06-01T12:{minute:02}:00.000000Z")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.conformance("OB-4.1", "C-32")
def test_no_event_that_commits_late_is_skipped(
    backend: Backend, tmp_path: Path, *, full_counts: bool
) -> None:
    """Commits come in another order than ids and due times; every event is found, once."""
    count = LATE_FULL if full_counts else LATE
    arguments = {
        "name": backend.name,
        "url": backend.url,
        "log": str(tmp_path),
        "processes": 2,
        "expected": count,
    }
    with subprocess.Popen(
        _command("dispatch_crowd", arguments), cwd=ROOT, stdout=subprocess.DEVNULL
    ) as crowd:
        try:
            LateWriters(backend, count).write()
            assert crowd.wait(timeout=3000) == 0
        finally:
            crowd.kill()
    assert sends(tmp_path) == Counter({event_id(number): 1 for number in range(1, count + 1)})


#: Where a dispatcher may die: how many events its target has by then, and how many are sent again.
DEATHS = {
    "claimed": (0, 0),
    "sending": (COUNT // 2, COUNT // 2),
    "sent": (COUNT, COUNT),
    "inside_settle": (COUNT, COUNT),
    "settled": (COUNT, 0),
}


def finish(backend: Backend) -> MemorySink:
    """Let another dispatcher take what is due now."""
    sink = MemorySink()
    stores = backend.open()
    list(open_loop(open_dispatcher(stores, sink)).steps(DispatchUntil.DRAINED))
    stores.close()
    return sink


def expire(backend: Backend) -> None:
    """Let all leases end without waiting for them."""
    backend.sql(
        "UPDATE outbox_delivery SET due_at = ? WHERE due_at IS NOT NULL",
        "2000-01-01T00:00:00.000000Z",
    )


def outlast(backend: Backend) -> None:
    """Wait for the end of the lease, which is at most two seconds away."""
    due = backend.sql("SELECT max(due_at) FROM outbox_delivery")[0][0]
    time.sleep(max(0.0, (parse_instant(due) - system_clock()).total_seconds()) + 0.01)


@pytest.mark.conformance("OB-1.0", "OB-1.1", "OB-2.6", "C-31", "C-51")
@pytest.mark.parametrize("step", DEATHS)
def test_a_dispatcher_killed_at_any_step_is_replaced(
    backend: Backend, tmp_path: Path, step: str
) -> None:
    """Every event arrives; twice only what was sent and not settled, with the same key."""
    ids = write(backend, *range(1, COUNT + 1))
    log = tmp_path / "sent.jsonl"
    with Child(
        "dispatches_by_step",
        name=backend.name,
        url=backend.url,
        log=str(log),
        pause_at=[step],
        lease_s=60,
    ) as child:
        assert child.hear()["step"] == step
        child.kill()
    expire(backend)
    had, again = DEATHS[step]
    first = sends(log)
    assert sum(first.values()) == had
    sink = finish(backend)
    total = first + Counter(sink.sent)
    assert set(total) == set(ids)
    assert sum(count == 2 for count in total.values()) == again
    assert max(total.values()) <= 2
    # Each event kept its own key, before the death and after it.
    before = {(sent["id"], sent["key"]) for sent in map(json.loads, log.read_text().splitlines())}
    after = {(event.outbox_id, event.idempotency_key) for event in sink.events}
    assert before | after == {(event_id(n), f"key-{n}") for n in range(1, COUNT + 1)}
    assert_attempts_add_up(backend, total)
    attempts = 1 if step == "settled" else 2
    assert backend.sql("SELECT DISTINCT status, attempt FROM outbox_delivery") == [
        ("dispatched", attempts)
    ]
    lost = backend.sql("SELECT count(*) FROM outbox_attempts WHERE outcome = 'lost'")
    assert lost == [(0 if step == "settled" else COUNT,)]


@pytest.mark.conformance("OB-4.10")
@pytest.mark.parametrize("step", ["claimed", "sending", "sent"])
def test_a_dispatcher_stopped_past_its_lease_writes_nothing(
    backend: Backend, tmp_path: Path, step: str
) -> None:
    """SIGSTOP past the lease, another delivers, SIGCONT: the late results are refused whole."""
    write(backend, *range(1, COUNT + 1))
    log = tmp_path / "sent.jsonl"
    with Child(
        "dispatches_by_step",
        name=backend.name,
        url=backend.url,
        log=str(log),
        pause_at=[step],
        # Short where it is outlasted; where it is not, no busy machine may end it early.
        lease_s=2 if step == "claimed" else 60,
    ) as child:
        assert child.hear()["step"] == step
        child.stop()
        outlast(backend) if step == "claimed" else expire(backend)
        sink = finish(backend)
        assert len(sink.sent) == COUNT
        before = state(backend)
        child.resume()
        child.go_on()
        assert child.hear() == {"claimed": COUNT, "lost": COUNT}
        assert child.end() == 0
    assert state(backend) == before
    # Who stood still before its first send does not send at all: its lease is over.
    assert sum(sends(log).values()) == (0 if step == "claimed" else COUNT)


def state(backend: Backend) -> list[list[tuple[Any, ...]]]:
    """Return all rows that a dispatcher may write."""
    return [
        sorted(backend.sql(f"SELECT * FROM {table}"), key=str)
        for table in ("outbox_delivery", "outbox_attempts")
    ]
