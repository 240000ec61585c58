"""`tallgrass slo`: promises and their budgets, by units that were written just before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tallgrass.ledger.unit import EventMetadata
from tests.cli.command import here, tallgrass
from tests.support.builders import failure, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend


def write(backend: Backend, *ages_s: float, days_ago: float = 0.0, fails: int = 0) -> None:
    """Write a success for each age of its announcement, then failures."""
    now = datetime.now(UTC)
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    for number, age_s in enumerate([*ages_s, *[1.0] * fails]):
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
        outcome = success if number < len(ages_s) else failure
        stores.ledger.commit(worker, [outcome(claim) for claim in claims])
    stores.close()


def found(backend: Backend, *args: str) -> dict[str, tuple[int, int, str]]:
    """Return events, bad ones and zone of each promise."""
    body = here("slo", *args, at=backend).json
    return {one["slo"]: (one["events"], one["bad"], one["zone"]) for one in body["slos"]}


def test_promises_are_judged_by_the_ledger(backend: Backend) -> None:
    """One of 20 units was claimed late: half of the budget is left. One of 21 failed: far off."""
    write(backend, 5000.0, *[1.0] * 19, fails=1)
    assert found(backend) == {
        "queue_age": (20, 1, "green"),
        "latency": (20, 1, "green"),
        "dead_letters": (21, 1, "black"),
        "replay_identity": (0, 0, "green"),
    }


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
