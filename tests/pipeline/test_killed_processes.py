"""Real processes that are killed or stopped in the middle of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pipeline.child import PHASES, WorkerChild
from tests.pipeline.scene import (
    VISIBILITY_S,
    Pipeline,
    assert_effects_follow_the_ledger,
    stored,
    things,
)
from tests.support.backends import prepare

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.support.backends import Backend

COUNT = 5
STEPS = (*PHASES, "inside record_and_claim", "inside commit")


def single_run(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return what one run without a fault stores."""
    (folder / "single").mkdir()
    backend = prepare("sqlite", f"sqlite:///{folder / 'single' / 'ledger.db'}")
    pipeline = Pipeline(backend, folder / "single")
    pipeline.feed(*things(COUNT))
    pipeline.drain()
    found = stored(backend)
    backend.close()
    return found


def expire(backend: Backend, incarnation: str) -> None:
    """Let a process's lease end without waiting for it."""
    backend.sql(
        "UPDATE workers SET expires_at = ? WHERE incarnation = ?",
        "2000-01-01T00:00:00.000000Z",
        incarnation,
    )


@pytest.mark.slow
@pytest.mark.conformance("WAL-1.2", "RP-3.1", "WAL-6.9", "WAL-6.10", "WAL-7.3")
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_killed_at_any_phase_is_replaced(
    backend: Backend, tmp_path: Path, step: str
) -> None:
    """After kill -9 nothing is half-written, and another worker ends with a single run's rows."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(COUNT))
    with WorkerChild(backend, tmp_path, step) as child:
        incarnation = child.hear()["incarnation"]
        assert child.hear()["step"] == step
        child.kill()
    assert_effects_follow_the_ledger(backend)
    written = COUNT if step in {"commit", "acknowledge"} else 0
    assert backend.sql("SELECT count(*) FROM stac_items") == [(written,)]
    assert backend.sql("SELECT count(*) FROM provenance") == [(written,)]
    recorded = 0 if step in {"receive", "parse", "inside record_and_claim"} else COUNT
    assert backend.sql("SELECT count(*) FROM wal_records") == [(recorded,)]
    expire(backend, incarnation)
    pipeline.stores.leases.recover()
    pipeline.clock.advance(VISIBILITY_S + 1)
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": COUNT}
    assert pipeline.left() == (0, 0, 0)
    assert_effects_follow_the_ledger(backend)
    assert stored(backend) == single_run(tmp_path)


@pytest.mark.conformance("WAL-4.2", "SM-2.2a")
@pytest.mark.parametrize("step", ["record_and_claim", "operate"])
def test_a_stopped_process_loses_its_units_and_cannot_come_back(
    backend: Backend, tmp_path: Path, step: str
) -> None:
    """A process frozen for longer than its lease holds nothing; when it wakes it is refused."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(COUNT))
    with WorkerChild(backend, tmp_path, step) as child:
        incarnation = child.hear()["incarnation"]
        assert child.hear()["step"] == step
        child.stop()
        assert pipeline.statuses() == {"in_progress": COUNT}
        expire(backend, incarnation)
        pipeline.stores.leases.recover()
        assert pipeline.statuses() == {"pending": COUNT}
        pipeline.clock.advance(VISIBILITY_S + 1)
        pipeline.drain()
        before = stored(backend)
        child.resume()
        child.go_on()
        assert child.hear()["step"] == "fenced"
        assert child.end() == 0
    assert stored(backend) == before == single_run(tmp_path)
    assert pipeline.lease.lease_s < VISIBILITY_S
