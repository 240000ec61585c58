"""The gauges, from a ledger and a queue whose content is known by heart, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.health import health_report, read_health
from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.ledger.unit import EventMetadata
from tallgrass.telemetry import names
from tallgrass.telemetry.gauge_names import GAUGES
from tallgrass.telemetry.gauges import gauge_readings, report_health
from tests.cli.command import fill
from tests.support.builders import failure, success, unit
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.config import Config
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
    states = readings(backend, config)[names.FRESHNESS_STATE]
    held = {key for key, value in states.items() if value == 1}
    assert held == {
        ("goes-glm", "noaa_silent"), ("hrrr", "noaa_silent"), ("nexrad-l2", "switched_off"),
    }  # fmt: skip
    assert set(states.values()) == {0, 1}
    assert len(states) == 3 * 5


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
