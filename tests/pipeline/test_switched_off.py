"""A worker whose datasets are all switched off says so: its silence would look like a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.ingest_loop import Until
from tallgrass.telemetry.names import INGEST_SWITCHED_OFF
from tests.pipeline.scene import Pipeline, things
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def test_a_freeze_is_told_once(backend: Backend, tmp_path: Path) -> None:
    """Not at each round; and once more when everything is switched off again."""
    pipeline, recorder = Pipeline(backend, tmp_path), MemoryRecorder()
    pipeline.feed(*things(3))
    told: list[int] = []
    rounds = iter([False, True, True, True, False, True, True])

    def stop() -> bool:
        """Turn the switch as the next round has it, and count what was told before."""
        told.append(sum(name == INGEST_SWITCHED_OFF for name, _ in recorder.events))
        is_on = next(rounds, None)
        if is_on is not None:
            pipeline.switch(is_on=is_on)
        return is_on is None

    pipeline.loop(recorder=recorder).run(Until.STOPPED, stop)
    assert told == [0, 0, 1, 1, 1, 1, 2, 2]
    (_, fields), *_ = [each for each in recorder.events if each[0] == INGEST_SWITCHED_OFF]
    assert "`tallgrass switches list`" in str(fields["message"])


def test_one_dataset_that_is_off_is_no_freeze(backend: Backend, tmp_path: Path) -> None:
    """The queue is polled for the others, so nothing is told."""
    pipeline, recorder = Pipeline(backend, tmp_path), MemoryRecorder()
    pipeline.switch(is_on=True, dataset="goes-glm")
    pipeline.feed(*things(3))
    pipeline.loop(recorder=recorder).run(Until.DRAINED)
    assert INGEST_SWITCHED_OFF not in {name for name, _ in recorder.events}
