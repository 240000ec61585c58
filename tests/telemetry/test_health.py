"""The gauges, from a ledger and a queue whose content is known by heart, on both databases."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.health import health_report, read_health
from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.unit import EventMetadata
from tallgrass.storage.health_reader import HealthReader
from tallgrass.storage.rows import instant
from tallgrass.telemetry import names
from tallgrass.telemetry.gauge_names import GAUGES
from tallgrass.telemetry.gauges import gauge_readings, report_health
from tests.cli.command import fill
from tests.support.builders import failure, overwritten, success, unit
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.ledger.claim import Claim
    from tallgrass.ledger.outcome import Outcome
    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend


@pytest.fixture
def config(backend: Backend, tmp_path: Path) -> Config:
    """A queue with three messages, one of them in flight, and a dead letter."""
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    config = load_config(
        environment={},
        flags={
            "database.url": backend.url,
            "queue.url": url,
            "queue.name": "nodd",
            "queue.max_receive_count": 1,
            "env": "prod",
        },
    )
    queue = open_queue(config)
    queue.send([b"dies"])
    queue.change_visibility([(m.receipt, 0) for m in queue.receive(1)])
    queue.send([b"flies", b"waits", b"waits too"])
    queue.receive(1)
    queue.close()
    return config


def readings(backend: Backend, config: Config) -> dict[str, Any]:
    """Read the gauges."""
    stores = backend.open()
    found = gauge_readings(read_health(config, stores, default_catalogue()))
    stores.close()
    return dict(found)


def held(found: dict[str, Any]) -> set[tuple[str, str]]:
    """Return each dataset with the state it is in."""
    return {key for key, value in found[names.FRESHNESS_STATE].items() if value == 1}


def announced(
    number: int, event_time: datetime, sequencer: str = "0055AED6DCD90281E5", **changes: Any
) -> IngestUnit:
    """Return a unit that was announced then."""
    event = EventMetadata(event_time=event_time, sns_message_id=None, sqs_message_id=f"m{number}")
    return overwritten(number, sequencer, event=event, **changes)


class Work:
    """A worker that ends units as it is told."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self._worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)

    def __call__(
        self, units: list[IngestUnit], end: Callable[[Claim], tuple[Claim, Outcome]]
    ) -> None:
        """Claim units and end them all alike."""
        receipts = self.stores.ledger.record_and_claim(self._worker, units)
        claims = [receipt.claim for receipt in receipts if receipt.claim]
        assert len(claims) == len(units)
        self.stores.ledger.commit(self._worker, [end(claim) for claim in claims])


@contextmanager
def at_work(backend: Backend) -> Iterator[Work]:
    """Open the ledger for a worker."""
    stores = backend.open()
    try:
        yield Work(stores)
    finally:
        stores.close()


def test_the_gauges_say_what_stands_where(backend: Backend, config: Config) -> None:
    """Every number is that of the scripted history."""
    fill(backend)
    found = readings(backend, config)
    # That they could be read is said by whoever asked.
    assert set(found) == {gauge.name for gauge in GAUGES} - {names.HEALTH_READABLE}
    assert found[names.QUEUE_DEPTH] == {("nodd",): 2}
    assert found[names.QUEUE_IN_FLIGHT] == {("nodd",): 1}
    assert found[names.DLQ_DEPTH] == {("nodd",): 1}
    assert found[names.UNITS] == {
        ("goes-glm", "succeeded"): 5, ("goes-glm", "in_progress"): 1,
        ("hrrr", "failed"): 2, ("hrrr", "quarantined"): 1, ("nexrad-l2", "pending"): 1,
    }  # fmt: skip
    assert found[names.STALE_UNITS] == {("goes-glm",): 1, ("hrrr",): 0, ("nexrad-l2",): 0}
    assert found[names.LIVE_WORKERS] == {(): 1}
    assert found[names.PARKED_UNITS] == {(): 1}
    assert found[names.SWITCHES_ON] == {
        ("ingest",): 1, ("replay",): 0, ("dispatch",): 0, ("nodes",): 0,
    }  # fmt: skip
    # What is parked waits because somebody wants it so.
    assert found[names.PENDING_OLDEST] == {}
    assert set(found[names.IN_PROGRESS_OLDEST]) == {("goes-glm",)}
    assert found[names.POISON_OPEN] == {(): 0}
    for name in (names.QUEUE_OLDEST, names.DLQ_OLDEST):
        assert 0 <= found[name]["nodd",] < 3600


def test_a_dataset_is_in_one_state(backend: Backend, config: Config) -> None:
    """Announced months ago with messages just sent: NOAA is silent. The parked one is off."""
    fill(backend)
    found = readings(backend, config)
    states = found[names.FRESHNESS_STATE]
    assert held(found) == {
        ("goes-glm", "noaa_silent"), ("hrrr", "noaa_silent"), ("nexrad-l2", "switched_off"),
    }  # fmt: skip
    assert set(states.values()) == {0, 1}
    assert len(states) == 3 * 6


def test_without_workers_we_are_stuck(backend: Backend, config: Config) -> None:
    """The same ledger, with nobody at work: the silence is ours."""
    fill(backend)
    backend.sql("UPDATE workers SET expires_at = ?", "2000-01-01T00:00:00.000000Z")
    found = readings(backend, config)
    assert found[names.FRESHNESS_STATE]["hrrr", "we_are_stuck"] == 1
    assert found[names.FRESHNESS_STATE]["hrrr", "noaa_silent"] == 0
    assert found[names.LIVE_WORKERS] == {(): 0}
    assert found[names.LAPSED_WORKERS] == {(): 1}
    assert found[names.FENCED_WORKERS] == {(): 0}


def test_a_fenced_worker_is_seen_for_an_hour(backend: Backend, config: Config) -> None:
    """Recovery shuts a worker out; it is no longer lapsed."""
    fill(backend)
    backend.sql("UPDATE workers SET expires_at = ?", "2000-01-01T00:00:00.000000Z")
    stores = backend.open()
    stores.leases.recover()
    stores.close()
    found = readings(backend, config)
    assert (found[names.LAPSED_WORKERS], found[names.FENCED_WORKERS]) == ({(): 0}, {(): 1})


#: What becomes of a unit that was announced, and how its dataset is told then.
ENDS: dict[str, Callable[[Claim], tuple[Claim, Outcome]]] = {
    "retried": failure,
    "for good": lambda claim: failure(claim, "size_zero"),
    "held": lambda claim: failure(claim, "governance_hard_fail"),
    "not there yet": lambda claim: failure(claim, "not_ready"),
}


@pytest.mark.parametrize("end", ENDS)
def test_news_that_all_fail_are_not_fresh(backend: Backend, config: Config, end: str) -> None:
    """Objects of hrrr come every few minutes and fail, whatever for: it is said to be failing."""
    now = datetime.now(UTC)
    with at_work(backend) as work:
        work([announced(1, now - timedelta(hours=3), dataset="hrrr")], success)
        news = [announced(n, now - timedelta(minutes=n), dataset="hrrr") for n in (2, 3)]
        work(news, ENDS[end])
        # A neighbour does as it should, though one of its units failed as well.
        work([announced(4, now, dataset="nexrad-l2")], success)
        work([announced(5, now, dataset="nexrad-l2")], ENDS[end])
    found = readings(backend, config)
    assert held(found) == {("hrrr", "failing"), ("nexrad-l2", "fresh")}
    assert found[names.FRESHNESS]["hrrr",] == pytest.approx(3 * 3600, abs=300)


def test_a_dataset_of_which_nothing_ever_worked_is_failing(
    backend: Backend, config: Config
) -> None:
    """Without a cadence too; what is switched off is not called failing."""
    now = datetime.now(UTC)
    with at_work(backend) as work:
        for number, dataset in enumerate(("hrrr", "aorc", "nexrad-l2")):
            work([announced(number, now, dataset=dataset)], failure)
        work.stores.switches.set(
            SwitchScope.INGEST, "nexrad-l2", is_on=True, actor="j.doe", reason="maintenance"
        )
    found = readings(backend, config)
    expected = {("hrrr", "failing"), ("aorc", "failing"), ("nexrad-l2", "switched_off")}
    assert held(found) == expected
    assert found[names.FRESHNESS] == {}


def test_objects_that_are_overwritten_are_news(backend: Backend, config: Config) -> None:
    """A file that is announced anew each hour is as fresh as its newest announcement."""
    now = datetime.now(UTC)
    with at_work(backend) as work:
        work([announced(1, now - timedelta(hours=9), dataset="hrrr")], success)
        work([announced(1, now, "0055AED6DCD90281E6", dataset="hrrr")], success)
        work([announced(2, now - timedelta(hours=9), dataset="rap")], success)
        work([announced(2, now, "0055AED6DCD90281E6", dataset="rap")], failure)
    found = readings(backend, config)
    assert held(found) == {("hrrr", "fresh"), ("rap", "failing")}
    assert found[names.FRESHNESS]["hrrr",] == pytest.approx(0, abs=300)
    assert found[names.FRESHNESS]["rap",] == pytest.approx(9 * 3600, abs=300)


def test_the_ledger_knows_since_when_messages_are_dead(backend: Backend) -> None:
    """By the last attempt of what failed with a message; nothing else leaves a letter."""
    stores = backend.open()
    reader = HealthReader(stores.database)
    assert reader.dead_since() is None
    fill(backend)
    closed = "SELECT min(closed_at) FROM wal_attempts WHERE error_code IN ('size_zero', 'io_error')"
    ((expected,),) = backend.sql(f"{closed} AND claimed_from = 'pending'")
    assert reader.dead_since() == instant(expected)
    stores.close()


def test_units_near_their_limit_are_counted(backend: Backend, config: Config) -> None:
    """Of eight attempts six are spent: two are left. With five spent it is not near."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    for attempts, number in ((6, 1), (5, 2)):
        for _ in range(attempts):
            receipts = stores.ledger.record_and_claim(worker, [unit(number)])
            claims = [receipt.claim for receipt in receipts if receipt.claim]
            stores.ledger.commit(worker, [failure(claim) for claim in claims])
    stores.close()
    assert backend.sql("SELECT attempts FROM wal_records ORDER BY wal_id") == [(6,), (5,)]
    assert readings(backend, config)[names.NEAR_LIMIT_UNITS] == {("goes-glm",): 1}


def test_freshness_and_watermark_follow_the_newest_data(backend: Backend, config: Config) -> None:
    """A backfill of old data, announced just now, does not make a silent feed look alive."""
    now = datetime.now(UTC)
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    for number, hours, announced_hours in ((1, 2, 2), (2, 5, 5)):
        start = now - timedelta(hours=hours, seconds=20)
        event = EventMetadata(
            event_time=now - timedelta(hours=announced_hours),
            sns_message_id=None,
            sqs_message_id=None,
        )
        one = unit(
            number,
            time_range_start=start,
            time_range_end=start + timedelta(seconds=20),
            event=event,
        )
        claims = [r.claim for r in stores.ledger.record_and_claim(worker, [one]) if r.claim]
        stores.ledger.commit(worker, [success(claim) for claim in claims])
    stores.close()
    found = readings(backend, config)
    assert found[names.FRESHNESS]["goes-glm",] == pytest.approx(7200, abs=300)
    assert found[names.WATERMARK_LAG]["goes-glm", "aws"] == pytest.approx(7200, abs=300)
    # Both were claimed long after 90 s.
    assert found[names.BUDGET_REMAINING]["queue_age",] == -9
    assert found[names.BUDGET_ZONE]["queue_age", "black"] == 1
    assert found[names.BUDGET_ZONE]["replay_identity", "green"] == 1


def test_gauges_reach_the_recorder_with_their_env(backend: Backend, config: Config) -> None:
    """What is read is what is reported; the recorder accepts every name and label."""
    fill(backend)
    recorder = MemoryRecorder(env="prod")
    health_report(config, recorder)()
    assert recorder.gauges[names.QUEUE_DEPTH] == {("nodd", "prod"): 2}
    assert recorder.gauges[names.UNITS]["hrrr", "failed", "prod"] == 2
    silent = MemoryRecorder(enabled=False)
    health_report(config, silent)()
    assert silent.gauges == {}


def test_a_queue_that_is_not_there_has_no_series(backend: Backend, config: Config) -> None:
    """Its gauges end; nothing is said to be zero that was not counted."""
    stores = backend.open()
    health = read_health(config, stores, default_catalogue())
    stores.close()
    recorder = MemoryRecorder()
    report_health(recorder, health)
    assert recorder.gauges[names.QUEUE_DEPTH]
    report_health(recorder, replace(health, queue=None))
    assert recorder.gauges[names.QUEUE_DEPTH] == {}
    assert recorder.gauges[names.DLQ_DEPTH] == {}
