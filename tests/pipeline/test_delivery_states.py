"""A delivery in each state that its unit can be in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.rules import LedgerRules
from tallgrass.retry import Backoff
from tests.pipeline.scene import Pipeline, assert_effects_follow_the_ledger, thing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.worker import Worker
    from tests.support.backends import Backend


def hold(worker: Worker) -> None:
    """Receive and claim a batch, and go no further."""
    batch = worker.receive()
    worker.parse(batch)
    worker.record_and_claim(batch)


def none(_pipeline: Pipeline) -> None:
    """Leave the unit unknown."""


def pending(pipeline: Pipeline) -> None:
    """Park the unit."""
    pipeline.switch(is_on=True)
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    pipeline.switch(is_on=False)


def in_progress(pipeline: Pipeline) -> None:
    """Let another worker hold the unit."""
    pipeline.announce(thing())
    other = pipeline.start(pipeline.register("other"))
    hold(other)


def lost(pipeline: Pipeline) -> None:
    """Let another worker hold the unit and lose its lease."""
    pipeline.announce(thing())
    lease = pipeline.register("other")
    other = pipeline.start(lease)
    hold(other)
    pipeline.backend.expire(lease)


def failed(pipeline: Pipeline) -> None:
    """Fail the unit once; its message is out of sight."""
    path = pipeline.path(thing())
    path.rename(path.with_suffix(".away"))
    pipeline.announce(thing())
    pipeline.worker.run_messages()
    path.with_suffix(".away").rename(path)


def succeeded(pipeline: Pipeline) -> None:
    """Finish the unit."""
    pipeline.announce(thing())
    pipeline.worker.run_messages()


def quarantined(pipeline: Pipeline) -> None:
    """Hold the unit."""
    pending(pipeline)
    row = pipeline.row(thing())
    pipeline.stores.interventions.quarantine(
        [(row["wal_id"], row["version"])], reason="looks wrong", actor="ann"
    )


#: By state: what a delivery makes of it: status, attempts, whether the message goes.
STATES: dict[Callable[[Pipeline], None], tuple[str, int, bool]] = {
    none: ("succeeded", 1, True),
    pending: ("succeeded", 1, True),
    in_progress: ("in_progress", 1, False),
    # Recovered, and due in small company: the ledger runs it.
    lost: ("pending", 1, True),
    failed: ("succeeded", 2, True),
    succeeded: ("succeeded", 1, True),
    quarantined: ("quarantined", 0, True),
}


@pytest.mark.conformance("SM-5.1", "SM-4.4c", "WAL-1.1")
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_delivery_in_each_state(
    backend: Backend, tmp_path: Path, state: Callable[[Pipeline], None]
) -> None:
    """A unit that may run is run; one that is held, done or lost is not; the message agrees."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.put(thing())
    state(pipeline)
    # The delivery in question comes by a queue of its own.
    (tmp_path / "again").mkdir()
    other = Pipeline(backend, tmp_path / "again")
    other.put(thing())
    other.announce(thing())
    batch = other.worker.run_messages()
    status, attempts, goes = STATES[state]
    row = other.row(thing())
    assert (row["status"], row["attempts"]) == (status, attempts)
    assert (batch.deleted, batch.kept) == ((1, 0) if goes else (0, 1))
    assert other.left() == ((0, 0, 0) if goes else (0, 1, 0))
    assert_effects_follow_the_ledger(backend)


@pytest.mark.conformance("SM-5.1")
def test_a_delivery_before_the_backoff_is_over_waits_for_it(
    backend: Backend, tmp_path: Path
) -> None:
    """A failed unit is left alone until its time, and its message is hidden until then."""
    rules = LedgerRules(backoff=Backoff(base_s=100.0, cap_s=100.0))
    pipeline = Pipeline(
        backend, tmp_path, rules=rules, stores=backend.open(rules, draw=lambda: 0.9)
    )
    pipeline.put(thing())
    pipeline.announce(thing(), etag="0" * 32)
    pipeline.worker.run_messages()
    pipeline.clock.advance(89)
    assert pipeline.worker.run_messages().is_empty
    pipeline.clock.advance(2)
    batch = pipeline.worker.run_messages()
    # The queue's time went on, the ledger's did not: it is still too early.
    assert (batch.claims, batch.kept, pipeline.left()) == ([], 1, (0, 1, 0))
    assert pipeline.row(thing())["attempts"] == 1
