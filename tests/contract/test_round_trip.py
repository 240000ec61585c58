"""What goes into the ledger comes out of it unchanged."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import EventMetadata, ObjectReference
from tests.contract.scene import Scene
from tests.support.backends import NO_BACKOFF
from tests.support.builders import success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend

INSTANTS = [
    datetime(1763, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2000, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 2, 30, tzinfo=timezone(timedelta(hours=-6))),
    datetime(2026, 6, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    datetime(2100, 12, 31, 23, 59, 59, tzinfo=UTC),
]


def written(instant: datetime) -> str:
    """Write an instant as the contract asks, by hand."""
    at = instant.astimezone(UTC)
    return f"{at.year:04}-{at:%m-%dT%H:%M:%S}.{at.microsecond:06}Z"


@pytest.mark.parametrize("instant", INSTANTS, ids=written)
@pytest.mark.conformance("WAL-3.4", "RP-3.7")
def test_data_times_from_1763_to_2100_are_kept_to_the_microsecond(
    backend: Backend, instant: datetime
) -> None:
    """Whatever its zone was, a time is stored in UTC and read as the same instant."""
    scene = Scene(backend)
    end = instant + timedelta(hours=1)
    announced = unit(
        0,
        time_range_start=instant,
        time_range_end=end,
        event=EventMetadata(event_time=instant, sns_message_id="n", sqs_message_id="q"),
    )
    wal_id = scene.claim(announced).wal_id
    row = scene.row(wal_id)
    assert row["time_range_start"] == row["event_time"] == written(instant)
    assert row["time_range_end"] == written(end)
    record = scene.stores.reader.record(wal_id)
    assert record.time_range_start == record.event_time == instant
    assert record.time_range_end == end
    assert record.time_range_start.utcoffset() == timedelta(0)
    assert scene.attempts(wal_id)[0]["event_time"] == written(instant)


@pytest.mark.conformance("WAL-3.4", "RP-3.7")
def test_the_ledgers_own_stamps_are_utc_and_of_one_width(backend: Backend) -> None:
    """Every stamp of record, attempt and journal is written as RFC 3339 in UTC."""
    scene = Scene(backend)
    wal_id = scene.fail()
    scene.commit(success(scene.claim(0)))
    rows = [scene.row(wal_id), *scene.attempts(wal_id)]
    rows += backend.rows("SELECT * FROM wal_transitions")
    stamps = [v for row in rows for k, v in row.items() if k.endswith(("_at", "_time")) and v]
    assert len(stamps) >= 10
    for stamp in stamps:
        assert len(stamp) == 27
        assert stamp.endswith("Z")
        assert datetime.fromisoformat(stamp).utcoffset() == timedelta(0)


@pytest.mark.conformance("WAL-3.16")
def test_extension_fields_survive_every_write(backend: Backend) -> None:
    """Declared fields of a dataset are there after creation, claim, commit, park and release."""
    extensions = {"ext_orbit": 4, "ext_name": "Zürich ✓", "ext_nested": {"a": [1, None, 2.5]}}
    rules = LedgerRules(backoff=NO_BACKOFF, extensions={"goes-glm": frozenset(extensions)})
    scene = Scene(backend, rules)
    wal_id = scene.park(0, extensions=extensions)
    [claim] = scene.due()
    assert claim.unit.extensions == extensions
    scene.commit(success(claim))
    assert scene.stores.reader.record(wal_id).extensions == extensions
    assert scene.stores.reader.record(scene.succeed(1)).extensions is None


@pytest.mark.conformance("RP-3.2")
def test_the_longest_address_is_kept(backend: Backend) -> None:
    """1,024 bytes of key in the longest bucket, with nothing to compress: every index takes it."""
    scene, chance = Scene(backend), random.Random(1)
    key = "".join(chr(chance.randint(0x20000, 0x2A6DF)) for _ in range(256))
    assert len(key.encode()) == 1024
    uri = f"s3://{'b' * 63}/{key}"
    wal_id = scene.claim(unit(0, object_uri=uri)).wal_id
    assert scene.row(wal_id)["object_uri"] == uri
    assert scene.stores.reader.record(uri).wal_id == wal_id


@pytest.mark.conformance("RP-3.2", "RP-3.5")
def test_a_unit_reads_as_it_was_announced(backend: Backend) -> None:
    """Fields of unit, event, object and outcome are on record and attempt, null where unsaid."""
    scene = Scene(backend)
    announced = unit(
        0,
        object_uri="s3://noaa-goes19/a+b c/ä%2B?x=1#y",
        object_ref=ObjectReference(size=0),
        event=EventMetadata(event_time=datetime(2026, 1, 1, tzinfo=UTC)),
    )
    claim = scene.claim(announced)
    scene.commit(success(claim, evidence='{"é":"\\u0000"}'.encode()))
    record = scene.stores.reader.record("s3://noaa-goes19/a+b c/ä%2B?x=1#y")
    assert (record.wal_id, record.dataset, record.provider) == (claim.wal_id, "goes-glm", "aws")
    [attempt] = scene.stores.reader.attempts(claim.wal_id)
    assert (attempt.object_etag, attempt.object_size) == (None, 0)
    assert (attempt.object_sequencer, attempt.object_version_id) == (None, None)
    assert (attempt.sns_message_id, attempt.sqs_message_id) == (None, None)
    assert attempt.evidence == '{"é":"\\u0000"}'.encode()
    assert (attempt.intent, attempt.status) == ("ingest", "applied")
    assert attempt.prov_activity_id == f"urn:prov:activity:{claim.wal_id}"
    assert (attempt.item_sha256, attempt.provenance_sha256) == ("a" * 64, "b" * 64)


@pytest.mark.conformance("WAL-3.13")
def test_who_touched_a_unit_last_is_on_the_record(backend: Backend) -> None:
    """Run and logical worker are those of the last claim; the creator stays named."""
    scene = Scene(backend)
    wal_id = scene.park()
    other = scene.stores.leases.register("second", ingest_run_id="run-2", lease_s=60)
    scene.due(worker=other)
    row = scene.row(wal_id)
    assert (row["worker_id"], row["ingest_run_id"], row["recorded_by"]) == ("second", "run-2", "w")
