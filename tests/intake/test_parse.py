from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallgrass.datasets.catalogue import Catalogue, IgnoredKey, KeyMatch, default_catalogue
from tallgrass.error_codes import registry
from tallgrass.intake.message import Ignored
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tests.datasets.test_key_grammars import VIIRS_OF_THE_LAST_NIGHT
from tests.intake.notifications import GLM, HRRR, NEXRAD, SENT_AT, event, parsed, record, sns

GLM_START = datetime(2025, 4, 7, 13, 0, 20, tzinfo=UTC)


def only(body: bytes | str, **changes: Any) -> IngestUnit:
    """Return the one unit of a message that holds nothing else."""
    message = parsed(body, **changes)
    assert (message.ignored, message.poison) == ((), None)
    (unit,) = message.units
    return unit


def test_a_notification_becomes_a_unit() -> None:
    """An S3 event in an SNS envelope gives one unit with all that the two say."""
    unit = only(sns(event(record())))
    assert unit.dataset == "goes-glm"
    assert unit.object_uri == f"s3://noaa-goes19/{GLM}"
    assert (unit.provider, unit.queue) == ("aws", "nodd-primary")
    assert unit.time_range_start == GLM_START
    assert unit.time_range_end == GLM_START + timedelta(seconds=20)
    assert unit.event == EventMetadata(
        event_time=datetime(2025, 4, 7, 13, 0, 47, 250_000, tzinfo=UTC),
        sns_message_id="191c04d9-d428-5417-b457-511b08af29c6",
        sqs_message_id="sqs-1",
    )
    assert unit.object_ref == ObjectReference(
        etag="7239138a465f83a247851a1a64ac8927", size=176_998, sequencer="005D48DA450E238E88"
    )
    assert unit.extensions is None


def test_raw_delivery_gives_the_same_unit() -> None:
    """Without the envelope the unit is the same; it has no SNS id, and the event's own time."""
    enveloped, raw = only(sns(event(record()))), only(event(record()))
    assert raw.event == EventMetadata(
        event_time=datetime(2025, 4, 7, 13, 0, 45, 100_000, tzinfo=UTC), sqs_message_id="sqs-1"
    )
    assert replace(raw, event=enveloped.event) == enveloped


@pytest.mark.parametrize(
    ("key", "bucket", "dataset", "start", "end"),
    [
        (
            NEXRAD,
            "unidata-nexrad-level2",
            "nexrad-l2",
            datetime(2025, 1, 1, 22, 54, 41, tzinfo=UTC),
            datetime(2025, 1, 1, 22, 54, 41, tzinfo=UTC),
        ),
        (
            HRRR,
            "noaa-hrrr-bdp-pds",
            "hrrr",
            datetime(2024, 5, 10, 14, tzinfo=UTC),
            datetime(2024, 5, 10, 14, tzinfo=UTC),
        ),
    ],
)
def test_each_dataset_gives_units(
    key: str, bucket: str, dataset: str, start: datetime, end: datetime
) -> None:
    """A unit whose key gives no end ends where it starts; model output is about its valid time."""
    unit = only(sns(event(record(key, bucket))))
    assert (unit.dataset, unit.time_range_start, unit.time_range_end) == (dataset, start, end)


@pytest.mark.parametrize(
    ("timestamp", "event_time", "expected"),
    [
        ("2025-04-07T13:00:47Z", "2025-04-07T13:00:45Z", "2025-04-07T13:00:47Z"),
        (..., "2025-04-07T13:00:45Z", "2025-04-07T13:00:45Z"),
        ("yesterday", "2025-04-07T13:00:45Z", "2025-04-07T13:00:45Z"),
        (7, "2025-04-07T13:00:45Z", "2025-04-07T13:00:45Z"),
        ("2025-04-07T13:00:47", "2025-04-07T13:00:45Z", "2025-04-07T13:00:45Z"),
        (..., "2025-04-07T15:00:45+02:00", "2025-04-07T13:00:45Z"),
        (..., ..., "2025-04-07T13:01:30Z"),
        (..., "2025-02-29T00:00:00Z", "2025-04-07T13:01:30Z"),
        (None, None, "2025-04-07T13:01:30Z"),
    ],
)
def test_the_event_time_is_the_best_there_is(
    timestamp: Any, event_time: Any, expected: str
) -> None:
    """SNS's time is preferred, then S3's, then the queue's; what is no time is absent."""
    unit = only(sns(event(record(eventTime=event_time)), Timestamp=timestamp))
    assert unit.event.event_time == datetime.fromisoformat(expected)


def test_the_queue_may_tell_its_time_in_any_zone() -> None:
    """A time in another zone is the same instant."""
    elsewhere = SENT_AT.astimezone(timezone(timedelta(hours=-6)))
    unit = only(event(record(eventTime=...)), sent_at=elsewhere)
    assert unit.event.event_time == SENT_AT


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"size": ..., "eTag": ..., "sequencer": ...}, ObjectReference()),
        ({"eTag": "", "sequencer": None}, ObjectReference(size=176_998)),
        (
            {"eTag": "92917931abf93d1adfe0f1d8dce3b293-3", "sequencer": ..., "size": 0},
            ObjectReference(etag="92917931abf93d1adfe0f1d8dce3b293-3", size=0),
        ),
        (
            {"versionId": "v1", "eTag": ..., "sequencer": ..., "size": 2**63 - 1},
            ObjectReference(version_id="v1", size=2**63 - 1),
        ),
    ],
)
def test_what_the_event_does_not_say_is_not_guessed(
    changes: dict[str, Any], expected: ObjectReference
) -> None:
    """Etag, size, sequencer and version are what the event says, or None."""
    assert only(event(record(object=changes))).object_ref == expected


@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        ("hrrr.20240510%2Fconus%2Fhrrr.t12z.wrfsfcf02.grib2", HRRR),
        ("hrrr%2E20240510/conus/hrrr.t12z.wrfsfcf02.grib2", HRRR),
    ],
)
def test_a_key_is_decoded_once(encoded: str, key: str) -> None:
    """The key of an event is URL-encoded: the unit has the key as the store knows it."""
    unit = only(event(record(encoded, "noaa-hrrr-bdp-pds")))
    assert unit.object_uri == f"s3://noaa-hrrr-bdp-pds/{key}"


@pytest.mark.parametrize(
    ("encoded", "uri"),
    [
        ("a+b", "s3://noaa-goes19/a b"),
        ("a%2Bb", "s3://noaa-goes19/a+b"),
        ("a%252Bb", "s3://noaa-goes19/a%2Bb"),
        ("caf%C3%A9", "s3://noaa-goes19/café"),
        ("%EF%BF%BD", "s3://noaa-goes19/\ufffd"),
    ],
)
def test_encoded_keys_keep_their_characters(encoded: str, uri: str) -> None:
    """Plus, percent and other letters come out as the key has them, never decoded twice."""
    assert only(event(record(encoded))).object_uri == uri


@pytest.mark.parametrize(
    ("body", "reason", "uri"),
    [
        (event(record(eventName="ObjectRemoved:Delete")), "deletion", f"s3://noaa-goes19/{GLM}"),
        (
            event(record("k", "any-bucket", eventName="ObjectRemoved:DeleteMarkerCreated")),
            "deletion",
            "s3://any-bucket/k",
        ),
        (
            event(record("k", "any-bucket", eventName="LifecycleExpiration:Delete")),
            "deletion",
            "s3://any-bucket/k",
        ),
        (
            event(record("k", "any-bucket", eventName="ObjectTagging:Put")),
            "other_event",
            "s3://any-bucket/k",
        ),
        (
            event(record(f"{HRRR}.idx", "noaa-hrrr-bdp-pds")),
            "sidecar",
            f"s3://noaa-hrrr-bdp-pds/{HRRR}.idx",
        ),
        (
            event(record(f"{NEXRAD}_MDM", "unidata-nexrad-level2")),
            "metadata_only",
            f"s3://unidata-nexrad-level2/{NEXRAD}_MDM",
        ),
        (event(record("index.html")), "not_ingestable", "s3://noaa-goes19/index.html"),
        (json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"}), "test_event", None),
    ],
)
def test_what_is_no_unit_is_ignored_with_its_reason(
    body: str, reason: str, uri: str | None
) -> None:
    """Deletions, test events, sidecars and other keys are ignored, bare or in an envelope."""
    expected = (Ignored(reason=reason, object_uri=uri),)
    for form in (body.encode(), sns(body)):
        message = parsed(form)
        assert (message.units, message.ignored, message.poison) == ((), expected, None)


def test_a_deletion_needs_neither_size_nor_etag() -> None:
    """A record of a deletion has only key and sequencer, and is understood."""
    gone = record(
        eventName="ObjectRemoved:Delete", object={"size": ..., "eTag": ...}, eventTime=...
    )
    assert [one.reason for one in parsed(event(gone)).ignored] == ["deletion"]


@pytest.mark.parametrize(
    "name", ["ObjectCreated:Put", "ObjectCreated:Copy", "s3:ObjectCreated:Post"]
)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.6", "2.99"])
def test_every_way_to_create_is_read(name: str, version: str) -> None:
    """Each kind of creation, in every minor version 2, announces a unit; new fields are ignored."""
    newer = record(eventName=name, eventVersion=version, aNewField={"x": [1]})
    assert only(event(newer)).dataset == "goes-glm"


POISONS: list[tuple[Any, str, str]] = [
    (b"", "invalid_input", "not strict JSON"),
    (b"\xff", "invalid_input", "not strict JSON"),
    (b"[]", "invalid_input", "neither an object nor a list of objects"),
    (b"{}", "invalid_input", "no known form of message"),
    (b'"text"', "invalid_input", "neither"),
    (b'{"Records":[]}', "missing_required_field", "Records is not a list"),
    (b'{"Records":{}}', "missing_required_field", "Records is not a list"),
    (b'{"Records":[1]}', "invalid_input", "the record is not an object"),
    (b'{"Records":[{}]}', "missing_required_field", "eventVersion is missing"),
    (b'{"Records":[],"Records":[]}', "invalid_input", "duplicate key"),
    (b'{"Bucket":"b","Key":"k"}', "invalid_input", "its fields are Bucket, Key"),
    (sns("not json"), "invalid_input", "not strict JSON"),
    (sns('{"Records":[],"Records":[]}'), "invalid_input", "duplicate key"),
    (sns("1e400"), "invalid_input", "beyond all bounds"),
    (sns(7), "missing_required_field", "without Message"),
    (sns(...), "missing_required_field", "without Message"),
    (sns(event(record()), MessageId=...), "missing_required_field", "without MessageId"),
    (sns(event(record()), MessageId="a\x00b"), "invalid_input", "MessageId holds control"),
    (sns(event(record()), MessageId=["a"]), "invalid_input", "MessageId is not a text"),
    (
        sns("x", Type="SubscriptionConfirmation"),
        "subscription_unconfirmed",
        "'SubscriptionConfirmation'",
    ),
    (sns("x", Type="UnsubscribeConfirmation"), "invalid_input", "'UnsubscribeConfirmation'"),
    (event(record(bucket="nobodys-pds")), "unroutable", "'s3://nobodys-pds/GLM-L2"),
    (event(record(eventVersion="3.0")), "unsupported_schema_version", "'3.0' is not read"),
    (event(record(eventVersion="21")), "unsupported_schema_version", "'21' is not read"),
    (event(record(eventVersion=2.1)), "invalid_input", "eventVersion is not a text"),
    (event(record(eventName=...)), "missing_required_field", "eventName is missing"),
    (event(record(eventName="ObjectEaten:Lunch")), "invalid_input", "unknown S3 event"),
    (event(record(eventSource="aws:sqs")), "invalid_input", "an event of 'aws:sqs', not of S3"),
    (event(record(s3=...)), "missing_required_field", "s3 is missing"),
    (event(record(s3=[])), "missing_required_field", "s3 is not an object"),
    (event(record(s3={"object": {"key": "k"}})), "missing_required_field", "bucket is missing"),
    (event(record(s3={"bucket": {"name": "b"}})), "missing_required_field", "object is missing"),
    (event(record(bucket="")), "missing_required_field", "name is missing"),
    (event(record(bucket="../etc")), "invalid_object_uri", "not scheme://bucket/key"),
    (event(record(object={"key": ...})), "missing_required_field", "key is missing"),
    (event(record("")), "missing_required_field", "key is missing"),
    (event(record(object={"key": 7})), "missing_required_field", "key is missing"),
    (event(record("a%00b")), "invalid_object_uri", "control characters"),
    (event(record("a%0Ab")), "invalid_object_uri", "control characters"),
    (event(record("a%FFb")), "invalid_object_uri", "is not UTF-8"),
    (event(record("%ED%A0%80")), "invalid_object_uri", "is not UTF-8"),
    (event(record("k" * 1025)), "invalid_object_uri", "more than 1024 bytes"),
    (event(record(object={"size": -1})), "invalid_input", "size is not a whole number"),
    (event(record(object={"size": 1.5})), "invalid_input", "size is not a whole number"),
    (event(record(object={"size": True})), "invalid_input", "size is not a whole number"),
    (event(record(object={"size": "7"})), "invalid_input", "size is not a whole number"),
    (event(record(object={"size": 2**63})), "invalid_input", "more than 64 bits"),
    (event(record(object={"eTag": "a\x00"})), "invalid_input", "eTag holds control characters"),
    (event(record(object={"eTag": {}})), "invalid_input", "eTag is not a text"),
    (event(record(object={"sequencer": "F" * 2000})), "invalid_input", "more than 1024"),
    (event(record(GLM.replace("_s2025097", "_s2025366"))), "invalid_time_range", "no day 366"),
    (
        event(record(VIIRS_OF_THE_LAST_NIGHT, bucket="noaa-nesdis-n20-pds")),
        "invalid_time_range",
        "before it starts",
    ),
    (
        event(record(GLM.replace("_e2025097", "_e2024097"))),
        "invalid_time_range",
        "before it starts",
    ),
]


@pytest.mark.parametrize(("body", "code", "message"), POISONS)
def test_what_cannot_be_understood_is_poison(body: Any, code: str, message: str) -> None:
    """A message that gives no unit says why, with a code of the registry and a printable text."""
    found = parsed(body)
    assert (found.units, found.ignored) == ((), ())
    assert found.poison is not None
    assert found.poison.code == code
    assert code in registry()
    assert message in found.poison.message
    assert found.poison.message.isprintable()


class Broken(Catalogue):
    """A catalogue with a fault of its own."""

    def __init__(self) -> None:
        super().__init__(default_catalogue().datasets)

    def route(self, provider: str, bucket: str, key: str) -> KeyMatch | IgnoredKey | None:
        """Fail for one bucket alone."""
        if bucket == "noaa-goes18":
            raise ZeroDivisionError("a fault of ours")
        return super().route(provider, bucket, key)


def test_a_fault_of_ours_costs_one_record() -> None:
    """It is poison, to be fed again once the fault is mended; its neighbour is a unit."""
    found = parsed(event(record(), record(bucket="noaa-goes18")), catalogue=Broken())
    assert [unit.object_uri for unit in found.units] == [f"s3://noaa-goes19/{GLM}"]
    assert found.poison is not None
    assert found.poison.code == "internal_error"
    assert found.poison.message == "record 2 of 2: ZeroDivisionError: a fault of ours"


def test_a_bad_record_poisons_only_itself() -> None:
    """Of a message with good, ignored and bad records, each gets what it would get alone."""
    good = [record(GLM), record(NEXRAD, "unidata-nexrad-level2"), record(HRRR, "noaa-hrrr-bdp-pds")]
    bad = [7, record(bucket="nobody"), record(object={"size": -1}), {}, record("a%00b")]
    passed = [record("index.html"), record(eventName="ObjectRemoved:Delete")]
    mixed = [
        bad[0],
        good[0],
        bad[1],
        passed[0],
        good[1],
        bad[2],
        bad[3],
        passed[1],
        good[2],
        bad[4],
    ]
    message = parsed(sns(event(*mixed)))
    assert list(message.units) == [only(sns(event(one))) for one in good]
    assert [one.reason for one in message.ignored] == ["not_ingestable", "deletion"]
    assert message.poison is not None
    assert message.poison.code == "invalid_input"
    assert message.poison.message.startswith(
        "record 1 of 10: the record is not an object; record 3"
    )
    assert message.poison.message.endswith("; and 2 more")


@given(st.lists(st.sampled_from(["good", "ignored", "bad"]), min_size=1, max_size=12))
def test_records_are_counted_one_by_one(kinds: list[str]) -> None:
    """However good, ignored and bad records are mixed, no one is lost and no one is doubled."""
    made = {
        "good": record(),
        "ignored": record("index.html"),
        "bad": record(bucket="nobody"),
    }
    message = parsed(event(*(made[kind] for kind in kinds)))
    assert len(message.units) == kinds.count("good")
    assert len(message.ignored) == kinds.count("ignored")
    assert (message.poison is not None) == ("bad" in kinds)


def test_a_message_of_the_largest_size_is_read() -> None:
    """A message with as many records as a mebibyte holds gives all of them."""
    # 24 fields a record: more of them fit into the bytes than into the values that are read.
    body = event(*[record()] * 1000)
    assert len(parsed(body).units) == 1000


def test_texts_in_a_message_share_one_bound() -> None:
    """Texts that are small enough alone are refused once they are too many values together."""
    text = base64.b64encode(b"[" + b"0," * 15_000 + b"0]").decode()
    message = parsed(json.dumps([{"attributes": {}, "data": text}] * 9))
    shared = [fault for fault in message.faults if "more than 40000 values" in fault.message]
    # 30,003 bytes each: one is not counted, the next two hold 30,004 values, the rest too many.
    assert len(shared) == 6


def test_lists_and_tables_in_a_message_share_a_bound_of_their_own() -> None:
    """They take the most time: fewer of them are read than of other values."""
    text = base64.b64encode(b"[" + b"[]," * 7_000 + b"[]]").decode()
    message = parsed(json.dumps([{"attributes": {}, "data": text}] * 5))
    shared = [fault for fault in message.faults if "lists and tables" in fault.message]
    # 21,004 bytes each: one is not counted, the next two hold 14,004 lists, the rest too many.
    assert len(shared) == 2


@pytest.mark.parametrize(("records", "units"), [(1250, 1250), (1251, 0)])
def test_a_message_has_a_largest_number_of_records(records: int, units: int) -> None:
    """So many are read, one more is refused; in whatever way they are put together."""
    one = {
        "eventVersion": "2.1",
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "noaa-goes19"}, "object": {"key": GLM}},
    }
    half = records // 2
    for body in (
        json.dumps({"Records": [one] * records}),
        json.dumps([{"Records": [one] * half}, {"Records": [one] * (records - half)}]),
    ):
        message = parsed(body)
        assert len(message.units) == units
        assert (message.poison is None) == (units > 0)


def test_other_providers_must_be_known() -> None:
    """A provider that is not among the known ones makes a record poison, not a unit."""
    message = parsed(event(record()), providers={"gcp"})
    assert message.units == ()
    assert message.poison is not None
    assert message.poison.code == "unknown_provider"


@pytest.mark.parametrize("body", [sns(event(record(), record("x"), 7)), event(record()), b"{"])
def test_parsing_is_deterministic(body: bytes | str) -> None:
    """The same message gives the same answer each time, whatever was parsed before."""
    first = parsed(body)
    for _ in range(3):
        parsed(event(record("index.html")))
        assert parsed(body) == first


def test_every_unit_has_its_id() -> None:
    """A unit's id begins with its start, and is the same from envelope and raw delivery."""
    enveloped, raw = only(sns(event(record()))), only(event(record()))
    assert enveloped.wal_id == raw.wal_id
    # Milliseconds from the year 1 to 2025-04-07T13:00:20Z, by hand: 739347 days and 46820 s.
    millis = (739_347 * 86_400 + 46_820) * 1000
    assert int(enveloped.wal_id.replace("-", "")[:12], 16) == millis
