"""Back-pressure: while no object can be read, units are left where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ObjectsUnreachable
from tallgrass.evidence.outage import OutageWatch
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ingest_loop import Until
from tallgrass.telemetry.names import STORE_WAITED_FOR
from tests.pipeline.scene import VISIBILITY_S, Pipeline, thing, things
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.ledger.unit import IngestUnit
    from tests.support.backends import Backend

DOWN = ReadFailure(code="transient_network_error", message="no route")
BROKEN = ReadFailure(code="io_error", message="disk")
DENIED = ReadFailure(code="access_denied", message="expired")
MISSING = ReadFailure(code="missing_object", message="not there")
READ = Evidence(etag="e", size=1, source="object", header={})


class Store:
    """An objects' store that can be cut off, as a whole or but for some buckets."""

    def __init__(self, inner: Any, failure: ReadFailure = DOWN) -> None:
        self._inner = inner
        self._failure = failure
        self.is_down = True
        #: Only what is in this bucket fails.
        self.bucket = ""

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Read, or fail as such a store does."""
        answers: list[Evidence | ReadFailure] = list(self._inner.read(units))
        for place, unit in enumerate(units):
            if self.is_down and unit.object_uri.startswith(f"s3://{self.bucket}"):
                answers[place] = self._failure
        return answers


class Answers:
    """A reader that answers by the address of the object; what is not told fails."""

    def __init__(self) -> None:
        self.given: dict[str, Evidence | ReadFailure] = {}

    def read(self, units: Sequence[Any]) -> Sequence[Evidence | ReadFailure]:
        """Return what is given for each."""
        return [self.given.get(unit.object_uri, DOWN) for unit in units]


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


@pytest.mark.parametrize("failure", [DOWN, DENIED])
@pytest.mark.parametrize(("read_before", "spent"), [(0, 3), (1, 1)])
def test_an_outage_in_a_slow_feed_costs_no_message(
    backend: Backend, tmp_path: Path, failure: ReadFailure, read_before: int, spent: int
) -> None:
    """Three objects a minute and five minutes without a store: few readings, no dead letter."""
    pipeline = Pipeline(backend, tmp_path, max_receive_count=5)
    store, time = Store(pipeline.worker._reader, failure), Time()
    given = [thing(number, dataset="nexrad-l2") for number in range(15)]
    watch = OutageWatch(store, time)
    pipeline.worker = pipeline.start(pipeline.lease, reader=watch)
    pipeline.put(*given)
    store.is_down = False
    pipeline.announce(*given[:read_before])
    pipeline.worker.run_messages()
    store.is_down = True
    told = read_before
    loop = pipeline.loop(monotonic=time, require_open=watch.require_open)
    is_over = False
    steps = loop.steps(Until.STOPPED, lambda: is_over)
    while time.seconds < 299:
        if told < len(given) and told <= time.seconds / 20:
            pipeline.announce(given[told])
            told += 1
        passed_s = max(next(steps), 0.5)
        time.seconds += passed_s
        pipeline.clock.advance(passed_s)
        pipeline.stores.leases.renew(pipeline.lease)
    assert (told, attempts(backend)) == (len(given), read_before + spent)

    store.is_down = False
    for _ in range(500):
        pipeline.clock.advance(next(steps))
        if backend.sql("SELECT count(*) FROM stac_items") == [(len(given),)]:
            break
    is_over = True
    for _ in steps:
        pass
    assert pipeline.statuses() == {"succeeded": len(given)}
    assert pipeline.left() == (0, 0, 0)


def test_a_private_bucket_stops_no_other(backend: Backend, tmp_path: Path) -> None:
    """What may not be read among other objects becomes dead letters; nobody waits for it."""
    pipeline = Pipeline(backend, tmp_path, max_receive_count=5)
    store, recorder, given = Store(pipeline.worker._reader, DENIED), MemoryRecorder(), things(12)
    store.bucket = given[1].place.bucket
    watch = OutageWatch(store, Time())
    pipeline.worker = pipeline.start(pipeline.lease, reader=watch)
    pipeline.put(*given)
    loop = pipeline.loop(recorder=recorder, require_open=watch.require_open)
    steps = loop.steps(Until.STOPPED)
    for each in given:
        pipeline.announce(each)
        for _ in range(100):
            next(steps)
            pipeline.clock.advance(1)
            if pipeline.left()[:2] == (0, 0):
                break
    assert pipeline.statuses() == {"succeeded": 8, "failed": 4}
    assert pipeline.left() == (0, 0, 4)
    assert [name for name, _ in recorder.events if name == STORE_WAITED_FOR] == []


class Unit:
    """As much of a unit as is looked at."""

    def __init__(self, object_uri: str) -> None:
        self.object_uri = object_uri


def units_of(count: int, bucket: str = "b") -> list[Any]:
    """Return units of one bucket."""
    return [Unit(f"s3://{bucket}/{number}") for number in range(count)]


def is_closed(watch: OutageWatch) -> bool:
    """Tell whether no further unit is taken."""
    try:
        watch.require_open()
    except ObjectsUnreachable:
        return True
    return False


def closed_by(*batches: list[Evidence | ReadFailure]) -> bool:
    """Tell whether such batches, one after the other, close the way at their end."""
    reader = Answers()
    watch = OutageWatch(reader, Time())
    for batch in batches:
        assert not is_closed(watch)
        units = units_of(len(batch))
        reader.given = {unit.object_uri: each for unit, each in zip(units, batch, strict=True)}
        assert watch.read(units) == batch
    reader.given = {}
    return is_closed(watch)


@pytest.mark.parametrize(
    ("batches", "closes"),
    [
        ([[DOWN] * 3], True),
        ([[DOWN] * 2], False),  # may be the objects' own
        ([[DOWN], [DOWN], [DOWN]], True),
        ([[DOWN] * 2, [], [DOWN]], True),
        ([[DOWN] * 2, [MISSING], [DOWN] * 2], False),
        ([[DOWN] * 9 + [READ]], False),
        ([[DOWN] * 9 + [MISSING]], False),  # the store answered
        ([[MISSING] * 9], False),
        ([[BROKEN] * 3], True),
        ([[DENIED] * 3], True),  # credentials may have expired
        ([[DENIED, DOWN, BROKEN]], True),
        ([[READ], [DOWN]], True),  # the object that was read cannot be read any more
        ([[READ], [DENIED]], True),
        ([[MISSING], [DOWN]], False),
    ],
)
def test_what_closes_the_way(batches: list[list[Evidence | ReadFailure]], closes: bool) -> None:  # noqa: FBT001
    """Readings that fail in a row, of one batch or of several; any answer begins anew."""
    assert closed_by(*batches) == closes


@pytest.mark.parametrize(
    ("failure", "read", "closes"),
    [
        (DOWN, "s3://b/good", False),  # the object itself is broken
        (DOWN, "s3://other/good", True),  # another store may answer
        (DENIED, "s3://b/good", False),
        (DENIED, "s3://other/good", False),  # a private bucket among others
    ],
)
def test_what_can_still_be_read_shows_whose_fault_it_is(
    failure: ReadFailure, read: str, *, closes: bool
) -> None:
    """An object that was read before is asked for with those that cannot be read."""
    reader = Answers()
    watch = OutageWatch(reader, Time())
    reader.given = {read: READ, "s3://b/0": failure}
    good: Any = Unit(read)
    watch.read([good])
    for _ in range(3):
        watch.read(units_of(1))
    assert is_closed(watch) == closes


def test_what_was_read_last_is_asked_for() -> None:
    """The object before may have been removed since; the latest of all tells of the rights."""
    reader = Answers()
    watch = OutageWatch(reader, Time())
    first, second, third = units_of(3, "open")
    for unit in (first, *units_of(1, "other"), second):
        reader.given = {unit.object_uri: READ}
        watch.read([unit])
    reader.given = {"s3://b/0": DENIED, second.object_uri: READ}
    watch.read(units_of(1))
    assert not is_closed(watch)
    reader.given = {second.object_uri: READ}
    watch.read([third])
    assert not is_closed(watch)


@pytest.mark.parametrize("answer", [READ, MISSING])
def test_one_answer_opens_the_way(answer: Evidence | ReadFailure) -> None:
    """Of the objects that are asked for one may be broken: any answer counts."""
    reader = Answers()
    watch = OutageWatch(reader, Time())
    units = units_of(8)
    watch.read(units)
    with pytest.raises(ObjectsUnreachable, match="s3://b/0"):
        watch.require_open()
    reader.given = {"s3://b/1": answer}
    watch.require_open()
    reader.given = {}
    watch.require_open()  # nothing is asked for while the way is open
    watch.read(units[:2])
    assert not is_closed(watch)  # and failures are counted anew


@pytest.mark.parametrize(
    ("failure", "closes"), [(DOWN, True), (BROKEN, False), (DENIED, False), (MISSING, False)]
)
def test_the_way_stays_closed_while_no_store_answers(failure: ReadFailure, *, closes: bool) -> None:
    """What was read last of several buckets is asked for; hours of outage spend no deliveries."""
    time, reader = Time(), Answers()
    watch = OutageWatch(reader, time)
    (one,), (other,) = units_of(1, "one"), units_of(1, "other")
    reader.given = {one.object_uri: READ, other.object_uri: READ}
    watch.read([one, other])
    reader.given = {other.object_uri: failure}
    watch.read(units_of(2, "one"))
    for hour in (1, 2, 20):
        time.seconds = 3600.0 * hour
        assert is_closed(watch) == closes
    reader.given = {other.object_uri: READ}
    assert not is_closed(watch)


def test_the_way_opens_after_a_time_where_nothing_was_read() -> None:
    """Objects that are broken for good stop the worker for five minutes, not for ever."""
    time = Time()
    watch = OutageWatch(Answers(), time)
    watch.read(units_of(8))
    time.seconds = 299.0
    assert is_closed(watch)
    time.seconds = 300.0
    assert not is_closed(watch)
    watch.read(units_of(1))
    assert is_closed(watch)
