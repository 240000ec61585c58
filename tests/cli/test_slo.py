"""`tallgrass slo`: promises and their budgets, by units that were written just before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata
from tallgrass.ledger.vocabulary import Intent
from tallgrass.storage.inventory_store import InventoryStore
from tests.cli.command import here, tallgrass
from tests.support.builders import failure, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend


def write(
    backend: Backend,
    *ages_s: float,
    days_ago: float = 0.0,
    fails: int = 0,
    failed_s: float = 1.0,
    code: str = "io_error",
) -> None:
    """Write a success for each age of its announcement, then failures that are `failed_s` old."""
    now = datetime.now(UTC)
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    for number, age_s in enumerate([*ages_s, *[failed_s] * fails]):
        event = EventMetadata(
            event_time=now - timedelta(seconds=age_s), sns_message_id=None, sqs_message_id=None
        )
        # The last written have the newest data.
        start = now - timedelta(days=days_ago, hours=1) + timedelta(seconds=number)
        one = unit(
            number + int(days_ago * 1000),
            dataset="goes-abi",
            time_range_start=start,
            time_range_end=start,
            event=event,
        )
        claims = [r.claim for r in stores.ledger.record_and_claim(worker, [one]) if r.claim]
        done = number < len(ages_s)
        ends = [success(claim) if done else failure(claim, code) for claim in claims]
        stores.ledger.commit(worker, ends)
    stores.close()


def found(backend: Backend, *args: str) -> dict[str, tuple[int, int, str]]:
    """Return events, bad ones and zone of each promise."""
    body = here("slo", *args, at=backend).json
    return {one["slo"]: (one["events"], one["bad"], one["zone"]) for one in body["slos"]}


def test_promises_are_judged_by_the_ledger(backend: Backend) -> None:
    """One of 20 units was claimed late: half of the budget is left. One of 21 failed: far off."""
    write(backend, 5000.0, *[1.0] * 19, fails=1)
    assert found(backend) == {
        "queue_age": (21, 1, "green"),
        "latency": (20, 1, "green"),
        "dead_letters": (21, 1, "black"),
        "replay_identity": (0, 0, "green"),
    }


@pytest.mark.parametrize("code", ["io_error", "size_zero", "governance_hard_fail", "not_ready"])
def test_what_never_came_is_late(backend: Backend, code: str) -> None:
    """Failed, held or waiting: after five minutes without an item, a unit has missed its time."""
    write(backend, *[1.0] * 18, fails=2, failed_s=200.0, code=code)
    assert found(backend)["latency"] == (18, 0, "green")
    assert found(backend)["queue_age"] == (20, 2, "black")
    write(backend, fails=1, failed_s=300.0, code=code, days_ago=1)
    # 1 of 19: more than half of the budget of 1.9 is gone.
    assert found(backend)["latency"] == (19, 1, "yellow")


def test_failures_and_successes_are_sampled_together(backend: Backend) -> None:
    """Of the ten newest units two failed, however many did before."""
    write(backend, fails=30, failed_s=400.0, days_ago=1)
    write(backend, *[1.0] * 8, fails=2, failed_s=400.0)
    assert found(backend, "--sample", "10")["latency"] == (10, 2, "black")
    (latency,) = [one for one in here("slo", at=backend).json["slos"] if one["slo"] == "latency"]
    assert (latency["events"], latency["bad"], latency["p90_s"]) == (40, 32, None)


def test_what_a_backfill_did_not_bring_is_not_late(backend: Backend) -> None:
    """Nobody announced it, so nobody promised when it would be there."""
    write(backend, 1.0)
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    start = datetime.now(UTC) - timedelta(hours=2)
    one = unit(9, dataset="goes-abi", time_range_start=start, time_range_end=start)
    InventoryStore(
        stores.runner,
        LedgerRules(),
        worker_id="lister",
        run_id="11111111-1111-4111-8111-111111111111",
        intent=Intent.BACKFILL,
    ).record_due([one])
    claims = stores.ledger.claim_due(worker, 10)
    stores.ledger.commit(worker, [failure(claim, "size_zero") for claim in claims])
    stores.close()
    assert found(backend)["latency"] == (1, 0, "green")
    assert found(backend)["dead_letters"] == (2, 1, "black")


def test_the_window_and_the_sample_are_those_asked_for(backend: Backend) -> None:
    """Data of 10 days ago are in the window of 30 days, and not in that of one."""
    write(backend, 5000.0, days_ago=10)
    write(backend, *[1.0] * 3)
    assert found(backend)["queue_age"] == (4, 1, "black")
    assert found(backend, "--days", "1")["queue_age"] == (3, 0, "green")
    assert found(backend, "--sample", "2")["queue_age"] == (2, 0, "green")


def test_check_is_for_scripts(backend: Backend) -> None:
    """Exit code 1 where a budget is red or black, and only if asked."""
    assert here("slo", "--check", at=backend).code == 0
    write(backend, 1.0, fails=1)
    assert here("slo", at=backend).code == 0
    done = tallgrass("slo", "--check", at=backend)
    assert done.code == 1
    assert "dead_letters is black: see docs/replay/runbooks/dlq-drain-runbook.md" in done.out


def test_the_table_says_it_in_words(backend: Backend) -> None:
    """Promise, counts, P90, what is left, zone."""
    write(backend, 150.0, *[1.0] * 19)
    lines = [" ".join(line.split()) for line in tallgrass("slo", at=backend).out.splitlines()]
    expected = "90 % of units are claimed within 90 s of their announcement 20 1"
    assert any(line.startswith(expected) and line.endswith("50% green") for line in lines)


def test_an_impossible_window_is_refused(backend: Backend) -> None:
    """Bad arguments end with 2."""
    for bad in (("--days", "0"), ("--days", "367"), ("--sample", "0")):
        assert here("slo", *bad, at=backend).code == 2
