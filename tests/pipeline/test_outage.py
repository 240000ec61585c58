"""Back-pressure: while no object can be read, units are left where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ObjectsUnreachable
from tallgrass.evidence.outage import OutageWatch
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ingest_loop import Until
from tallgrass.telemetry.names import STORE_WAITED_FOR
from tests.pipeline.scene import VISIBILITY_S, Pipeline, things
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

DOWN = ReadFailure(code="transient_network_error", message="no route")
MISSING = ReadFailure(code="missing_object", message="not there")
READ = Evidence(etag="e", size=1, source="object", header={})


class Store:
    """An objects' store that can be cut off; it counts the reads of objects."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_down = True
        self.reads = 0

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Read, or fail as an unreachable store does."""
        self.reads += len(units)
        if self.is_down:
            return [DOWN for _ in units]
        answers: Sequence[Evidence | ReadFailure] = self._inner.read(units)
        return answers


class Answers:
    """A reader that answers as it is told."""

    def __init__(self) -> None:
        self.given: list[Evidence | ReadFailure] = []

    def read(self, units: Sequence[Any]) -> Sequence[Evidence | ReadFailure]:
        """Return what is given, for as many units."""
        return self.given[: len(units)]


class Time:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.seconds


def attempts(backend: Backend) -> int:
    """Count the attempts of all units by plain SQL."""
    return int(backend.sql("SELECT count(*) FROM wal_attempts")[0][0])


def test_an_outage_of_the_objects_costs_no_message(backend: Backend, tmp_path: Path) -> None:
    """A store that is down for minutes: one batch fails, the others wait, none is dead-lettered."""
    pipeline = Pipeline(backend, tmp_path, batch=10, max_receive_count=3)
    store, time, recorder = Store(pipeline.worker._reader), Time(), MemoryRecorder()
    watch = OutageWatch(store, time)
    pipeline.worker = pipeline.start(pipeline.lease, reader=watch)
    pipeline.feed(*things(30))
    loop = pipeline.loop(monotonic=time, recorder=recorder, require_open=watch.require_open)
    is_over = False
    steps = loop.steps(Until.STOPPED, lambda: is_over)
    while time.seconds < 250:
        rest_s = next(steps)
        time.seconds += rest_s
        pipeline.clock.advance(rest_s)
        pipeline.stores.leases.renew(pipeline.lease)
    assert attempts(backend) == 10
    assert pipeline.queue.status().dead == 0
    told = [fields["error_code"] for name, fields in recorder.events if name == STORE_WAITED_FOR]
    assert told == ["objects_unreachable"]

    store.is_down = False
    for _ in range(500):
        pipeline.clock.advance(next(steps) + VISIBILITY_S)
        if backend.sql("SELECT count(*) FROM stac_items") == [(30,)]:
            break
    is_over = True
    for _ in steps:
        pass
    assert backend.sql("SELECT count(*) FROM stac_items") == [(30,)]
    assert pipeline.queue.status().dead == 0


def closed_by(readings: list[Evidence | ReadFailure]) -> bool:
    """Tell whether a batch of such readings closes the way."""
    reader = Answers()
    watch = OutageWatch(reader, Time())
    unit: Any = type("Unit", (), {"object_uri": "s3://b/k"})()
    reader.given = readings
    assert watch.read([unit] * len(readings)) == readings
    reader.given = [DOWN] * 3
    try:
        watch.require_open()
    except ObjectsUnreachable:
        return True
    return False


@pytest.mark.parametrize(
    ("readings", "closes"),
    [
        ([DOWN] * 5, True),
        ([DOWN] * 4, False),  # may be the objects' own
        ([DOWN] * 9 + [READ], False),
        ([DOWN] * 9 + [MISSING], False),  # the store answered
        ([MISSING] * 9, False),
        ([ReadFailure(code="io_error", message="disk")] * 5, True),
    ],
)
def test_only_a_batch_of_which_nothing_can_be_read_closes_the_way(
    readings: list[Evidence | ReadFailure],
    closes: bool,  # noqa: FBT001
) -> None:
    """One answer of the store, even a refusal, shows that it is there."""
    assert closed_by(readings) == closes


@pytest.mark.parametrize("answer", [READ, MISSING])
def test_one_answer_opens_the_way(answer: Evidence | ReadFailure) -> None:
    """Of the objects that are asked for one may be broken: any answer counts."""
    reader, time = Answers(), Time()
    watch = OutageWatch(reader, time)
    unit: Any = type("Unit", (), {"object_uri": "s3://b/k"})()
    reader.given = [DOWN] * 8
    watch.read([unit] * 8)
    with pytest.raises(ObjectsUnreachable, match="s3://b/k"):
        watch.require_open()
    reader.given = [DOWN, answer, DOWN]
    watch.require_open()
    reader.given = [DOWN] * 8
    watch.require_open()  # nothing is asked for while the way is open


def test_the_way_opens_after_a_time_in_any_case() -> None:
    """Objects that are broken for good stop the worker for five minutes, not for ever."""
    reader, time = Answers(), Time()
    watch = OutageWatch(reader, time)
    unit: Any = type("Unit", (), {"object_uri": "s3://b/k"})()
    reader.given = [DOWN] * 8
    watch.read([unit] * 8)
    time.seconds = 299.0
    with pytest.raises(ObjectsUnreachable):
        watch.require_open()
    time.seconds = 300.0
    watch.require_open()
