"""Captured messages, each of which must give what can be read off the capture."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tallgrass.clock import parse_instant
from tallgrass.intake.message import Ignored
from tallgrass.ledger.unit import IngestUnit, ObjectReference
from tests.datasets.noaa_data import noaa_data
from tests.intake.notifications import SENT_AT, parsed

SQS_RECORD = "sqs-record__goes17-L1b-RadM2__2019-08-06.json"
CHUNK = "sqs-body__nexrad-l2-chunk-filterable__2026-10-09__signature-elided.json"
PUBSUB = "SYNTHETIC__gcp-pubsub-storage-notification.json"
CLOUD_EVENT = "azure-eventgrid-cloudevent__goes16-CMIPM1__2023-04-06.json"
EVENTBRIDGE = "eventbridge-s3-object-created__aws-docs.json"
LAMBDA_SNS = "lambda-sns-event__gfs__2021-11-29__key-edited.json"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A unit as a person reads it off a capture."""

    dataset: str
    uri: str
    start: str
    #: None where the key tells no end: it ends where it starts.
    end: str | None = None
    event_time: str
    sns_id: str | None = None
    reference: ObjectReference


RADM2 = Expected(
    dataset="goes-abi",
    uri="s3://noaa-goes17/ABI-L1b-RadM/2019/218/01/"
    "OR_ABI-L1b-RadM2-M6C03_G17_s20192180138575_e20192180139033_c20192180139080.nc",
    start="2019-08-06T01:38:57.5Z",
    end="2019-08-06T01:39:03.3Z",
    event_time="2019-08-06T01:39:17.337Z",
    reference=ObjectReference(
        etag="7239138a465f83a247851a1a64ac8927", size=1_063_054, sequencer="005D48DA450E238E88"
    ),
)
#: The same by way of SNS, which has a time and an id of its own.
RADM2_BY_SNS = replace(
    RADM2,
    event_time="2019-08-06T01:39:19.120Z",
    sns_id="191c04d9-d428-5417-b457-511b08af29c6",
)
MCMIPF = Expected(
    dataset="goes-abi",
    uri="s3://noaa-goes17/ABI-L2-MCMIPF/2019/216/17/"
    "OR_ABI-L2-MCMIPF-M6_G17_s20192161730341_e20192161739408_c20192161739497.nc",
    start="2019-08-04T17:30:34.1Z",
    end="2019-08-04T17:39:40.8Z",
    event_time="2019-08-05T21:49:59.156Z",
    reference=ObjectReference(
        # Uploaded in parts: no MD5.
        etag="92917931abf93d1adfe0f1d8dce3b293-3",
        size=24_209_676,
        sequencer="005D48A4848C315273",
    ),
)

UNITS: dict[str, list[Expected]] = {
    "sqs-body__goes17-L1b-RadM2__2019-08-06.txt": [RADM2_BY_SNS],
    SQS_RECORD: [RADM2_BY_SNS],
    "raw-delivery-body__goes17-L1b-RadM2__2019-08-06.json": [RADM2],
    "SYNTHETIC__s3-event-two-records.json": [RADM2, MCMIPF],
    "sqs-body__nexrad-l2-archive__2015-12-28.json": [
        Expected(
            dataset="nexrad-l2",
            uri="s3://unidata-nexrad-level2/2015/12/28/KCLE/KCLE20151228_205754_V06.gz",
            start="2015-12-28T20:57:54Z",
            event_time="2015-12-28T21:03:33.603Z",
            sns_id="4881eba1-f3f9-5336-bbd6-a55a561cc9ea",
            reference=ObjectReference(
                etag="29590f045e0e599956cfe9a595945fe8",
                size=20_750_089,
                sequencer="005681A3A47FB77917",
            ),
        )
    ],
    "sqs-body__nexrad-l2-chunk-OLD-S3-event-topic__2015-12-28.json": [
        Expected(
            dataset="nexrad-l2-chunks",
            uri="s3://unidata-nexrad-level2-chunks/KDAX/734/20151228-200051-001-S",
            start="2015-12-28T20:00:51Z",
            event_time="2015-12-28T20:00:53.075Z",
            sns_id="74412159-e129-5807-b697-6fa2761c8a0a",
            reference=ObjectReference(
                etag="e3d721125d839db8337f32636c33d2b9", size=11_714, sequencer="00568194F4F94A44B5"
            ),
        )
    ],
    CHUNK: [
        Expected(
            dataset="nexrad-l2-chunks",
            uri="s3://unidata-nexrad-level2-chunks/KTLX/399/20261009-043037-048-I",
            start="2026-10-09T04:30:37Z",
            event_time="2026-10-09T04:36:44.969Z",
            sns_id="32e4ee51-fd7a-5d65-a74f-8d138ce6e928",
            reference=ObjectReference(),
        )
    ],
    "sns-envelope-lambda-style__gfs__2023-01-22__key-probably-edited.json": [
        Expected(
            dataset="gfs",
            uri="s3://noaa-gfs-bdp-pds/gfs.20230122/18/atmos/gfs.t12z.pgrb2.0p25.f000",
            # Its authors edited the key: folder and name tell different runs. See below.
            start="",
            event_time="2023-01-22T23:37:34.519Z",
            sns_id="4cd796f7-9343-50ec-9a06-cab059bd0fcb",
            reference=ObjectReference(
                etag="80380c641b671c1bd8c92900406b030e", size=62_122, sequencer="0063CDC8BD5633FC1D"
            ),
        )
    ],
    LAMBDA_SNS: [
        Expected(
            dataset="gfs",
            uri="s3://noaa-gfs-bdp-pds/gfs.20211127/12/atmos/gfs.t12z.pgrb2.0p50.f192",
            # 192 hours, that is 8 days, after the run.
            start="2021-12-05T12:00:00Z",
            event_time="2021-11-29T07:55:18.716Z",
            sns_id="4ddb4adc-c245-5f45-bb5b-10c24be3e4b5",
            reference=ObjectReference(
                etag="2e6fa824124d06b1e0af0a6c852f37cc", size=5_242, sequencer="0061A48765785BC5E7"
            ),
        )
    ],
    "SYNTHETIC__s3-event-urlencoded-key-nbm-cog.json": [
        Expected(
            dataset="nbm-cog",
            uri="s3://noaa-nbm-pds/blendv5.0/conus/2026/06/06/1500/spctor4hr/"
            "blendv5.0_conus_spctor4hr_2026-06-06T15:00_2026-06-06T19:00.tif",
            start="2026-06-06T19:00:00Z",
            event_time="2026-06-06T16:05:00Z",
            reference=ObjectReference(
                etag="0" * 32,
                size=1_234_567,
                sequencer="0000000000000000AA",
                version_id="SYNTHETICversion1",
            ),
        )
    ],
    PUBSUB: [
        Expected(
            dataset="goes-abi",
            uri="gs://gcp-public-data-goes-16/ABI-L2-MCMIPF/2017/306/21/"
            "OR_ABI-L2-MCMIPF-M4_G16_s20173062105222_e20173062110034_c20173062110127.nc",
            start="2017-11-02T21:05:22.2Z",
            end="2017-11-02T21:10:03.4Z",
            event_time="2017-11-02T21:11:40Z",
            reference=ObjectReference(
                # 1B2M2Y8AsgTpgAmY7PhCfg== is the MD5 of no bytes, by `md5sum /dev/null`.
                etag="d41d8cd98f00b204e9800998ecf8427e",
                size=1,
                sequencer="0001509657100000000",
                version_id="1509657100000000",
            ),
        )
    ],
    CLOUD_EVENT: [
        Expected(
            dataset="goes-abi",
            uri="az://goeseuwest.noaa-goes16/ABI-L2-CMIPM/2023/096/11/"
            "OR_ABI-L2-CMIPM1-M6C10_G16_s20230961135249_e20230961135321_c20230961135389.nc",
            start="2023-04-06T11:35:24.9Z",
            end="2023-04-06T11:35:32.1Z",
            event_time="2023-04-06T11:35:54.600115Z",
            reference=ObjectReference(
                etag="0x8DB369315269B01",
                size=343_897,
                sequencer="0000000000000000000000000000ECA5000000000000c808",
            ),
        )
    ],
}

TEST_EVENTS = ("SYNTHETIC__sns-envelope-s3-TestEvent.json", "s3-test-event__aws-docs.json")


def message(name: str) -> bytes:
    """Return a captured message."""
    return noaa_data("messages", name).read_bytes()


def loaded(name: str) -> Any:
    """Return a captured message to change."""
    return json.loads(message(name))


def only(body: bytes | str, **changes: Any) -> IngestUnit:
    """Return the one unit of a message that holds nothing else."""
    found = parsed(body, **changes)
    assert (found.ignored, found.poison, found.deferred) == ((), None, None)
    (unit,) = found.units
    return unit


@pytest.mark.parametrize("name", UNITS)
def test_a_real_message_gives_what_it_says(name: str) -> None:
    """Dataset, object, times, ids and object reference are those that the capture tells."""
    found = parsed(message(name))
    assert (found.ignored, found.poison, found.deferred) == ((), None, None)
    assert len(found.units) == len(UNITS[name])
    for unit, expected in zip(found.units, UNITS[name], strict=True):
        assert (unit.dataset, unit.object_uri) == (expected.dataset, expected.uri)
        if expected.start:
            assert unit.time_range_start == parse_instant(expected.start)
            assert unit.time_range_end == parse_instant(expected.end or expected.start)
        assert unit.event.event_time == parse_instant(expected.event_time)
        assert unit.event.sns_message_id == expected.sns_id
        assert unit.event.sqs_message_id == "sqs-1"
        assert unit.object_ref == expected.reference


@pytest.mark.parametrize("name", TEST_EVENTS)
def test_a_real_test_event_is_passed_over(name: str) -> None:
    """A test event is acknowledged and counted."""
    found = parsed(message(name))
    assert (found.units, found.poison) == ((), None)
    assert found.ignored == (Ignored(reason="test_event"),)


def test_a_real_event_of_nobodys_bucket_is_poison() -> None:
    """EventBridge's own example is understood; no dataset has its bucket."""
    found = parsed(message(EVENTBRIDGE))
    assert (found.units, found.ignored) == ((), ())
    assert found.poison is not None
    assert found.poison.code == "unroutable"
    assert "'s3://amzn-s3-demo-bucket1/example-key'" in found.poison.message


def test_every_captured_message_is_expected_here() -> None:
    """No capture is left out."""
    names = {path.name for path in noaa_data("messages").iterdir() if path.is_file()}
    assert names == {*UNITS, *TEST_EVENTS, EVENTBRIDGE}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("notification-v1.json", "invalid_input"),
        ("notification-v1-2026.json", "invalid_input"),
        ("notification-v2.json", "invalid_input"),
        ("notification-v2-subject.json", "invalid_input"),
        ("subscription-confirmation-v1-2026.json", "subscription_unconfirmed"),
    ],
)
def test_signed_messages_of_other_topics_are_poison(name: str, code: str) -> None:
    """An SNS message that holds no event, or asks to confirm a subscription, is kept as poison."""
    found = parsed(message(f"sns-signing/{name}"))
    assert (found.units, found.ignored) == ((), ())
    assert found.poison is not None
    assert found.poison.code == code


# --- messages like them ---------------------------------------------------------------------------


def test_an_eventbridge_event_names_the_same_things_otherwise() -> None:
    """Etag, version, sequencer and size come from its own fields; the key is not decoded."""
    event = loaded(EVENTBRIDGE)
    event["detail"]["bucket"]["name"] = "noaa-nbm-pds"
    event["detail"]["object"]["key"] = UNITS["SYNTHETIC__s3-event-urlencoded-key-nbm-cog.json"][
        0
    ].uri.removeprefix("s3://noaa-nbm-pds/")
    unit = only(json.dumps(event))
    assert unit.dataset == "nbm-cog"
    assert unit.object_uri.endswith("_2026-06-06T15:00_2026-06-06T19:00.tif")
    assert unit.event.event_time == parse_instant("2021-11-12T00:00:00Z")
    assert unit.object_ref == ObjectReference(
        etag="b1946ac92492d2347c6235b4d2611184",
        size=5,
        sequencer="617f08299329d189",
        version_id="IYV3p45BT0ac8hjHg1houSdS1a.Mro8e",
    )


def test_a_received_message_has_an_id_where_the_queue_gave_none() -> None:
    """A file with a received message tells its id; in a queue, the queue's own counts."""
    assert only(message(SQS_RECORD), message_id=None).event.sqs_message_id == (
        "c331898f-4088-4059-9181-e69f2a7f340a"
    )
    assert only(message(SQS_RECORD)).event.sqs_message_id == "sqs-1"


def test_lambdas_records_are_so_many_messages() -> None:
    """A batch of received messages gives the units of each; a broken one spoils no other."""
    record = loaded(SQS_RECORD)
    broken = {**record, "messageId": "broken", "body": "{"}
    found = parsed(json.dumps({"Records": [record, broken, record]}))
    alone = only(record["body"])
    assert found.units == (alone, alone)
    assert found.poison is not None
    assert found.poison.message.startswith("record 2 of 3: not strict JSON")


def test_the_queues_own_spelling_is_lambdas_in_capitals() -> None:
    """MessageId and Body, alone or in the list of a receive call, are the same message."""
    record = loaded(SQS_RECORD)
    received = {
        "MessageId": record["messageId"],
        "ReceiptHandle": record["receiptHandle"],
        "MD5OfBody": record["md5OfBody"],
        "Body": record["body"],
        "Attributes": record["attributes"],
    }
    alone = only(message(SQS_RECORD), message_id=None)
    assert only(json.dumps(received), message_id=None) == alone
    found = parsed(json.dumps({"Messages": [received, received]}), message_id=None)
    assert found.units == (alone, alone)


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "texts"])
def test_a_chunks_numbers_may_be_texts(as_text: bool) -> None:  # noqa: FBT001
    """Volume and chunk may come as numbers or as texts, with the envelope or without it."""
    enveloped = loaded(CHUNK)
    inner = json.loads(enveloped["Message"])
    if as_text:
        inner = {name: str(value) for name, value in inner.items()}
    enveloped["Message"] = json.dumps(inner)
    expected = only(message(CHUNK))
    assert only(json.dumps(enveloped)) == expected
    raw = only(json.dumps(inner))
    # Raw delivery has no time but the queue's.
    assert (raw.event.event_time, raw.event.sns_message_id) == (SENT_AT, None)
    assert replace(raw, event=expected.event) == expected


def test_pubsub_pushes_and_is_asked_alike() -> None:
    """The message pushed, pulled in a list, and alone is one message."""
    pushed = loaded(PUBSUB)
    expected = only(message(PUBSUB))
    pulled = {"receivedMessages": [{"ackId": "a", "message": pushed["message"]}]}
    for form in (pulled, {"ackId": "a", "message": pushed["message"]}, pushed["message"]):
        assert only(json.dumps(form)) == expected


@pytest.mark.parametrize("data", ["absent", None, ""])
def test_pubsub_may_send_attributes_alone(data: str | None) -> None:
    """With payloadFormat NONE only the attributes speak: no size, no hash, and none is guessed."""
    pushed = loaded(PUBSUB)
    pushed["message"]["attributes"]["payloadFormat"] = "NONE"
    pushed["message"]["data"] = data
    if data == "absent":
        del pushed["message"]["data"]
    unit = only(json.dumps(pushed))
    expected = only(message(PUBSUB))
    assert unit.object_ref == ObjectReference(
        sequencer="0001509657100000000", version_id="1509657100000000"
    )
    assert replace(unit, object_ref=expected.object_ref) == expected


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("OBJECT_DELETE", "deletion"),
        ("OBJECT_ARCHIVE", "deletion"),
        ("OBJECT_METADATA_UPDATE", "metadata_update"),
    ],
)
def test_pubsubs_other_events_are_passed_over(kind: str, reason: str) -> None:
    """Deletions and changed metadata are counted by their reason."""
    pushed = loaded(PUBSUB)
    pushed["message"]["attributes"]["eventType"] = kind
    found = parsed(json.dumps(pushed))
    assert (found.units, found.poison) == ((), None)
    assert found.ignored == (Ignored(reason=reason, object_uri=UNITS[PUBSUB][0].uri),)


def test_a_composite_object_has_no_hash() -> None:
    """Without an MD5 the reference has none; the JSON interface's etag is no stand-in."""
    pushed = loaded(PUBSUB)
    described = json.loads(base64.b64decode(pushed["message"]["data"]))
    del described["md5Hash"]
    pushed["message"]["data"] = base64.b64encode(json.dumps(described).encode()).decode()
    assert only(json.dumps(pushed)).object_ref == replace(UNITS[PUBSUB][0].reference, etag=None)


def older_schema(event: dict[str, Any]) -> dict[str, Any]:
    """Return a CloudEvent in the schema that Event Grid had before."""
    names = {"source": "topic", "type": "eventType", "time": "eventTime"}
    renamed = {names.get(name, name): value for name, value in event.items()}
    del renamed["specversion"]
    return {**renamed, "dataVersion": "", "metadataVersion": "1"}


def test_event_grid_is_read_in_both_schemas_alone_and_in_lists() -> None:
    """The same event in the older schema, quoted etag, single or in a list, gives the same unit."""
    event = loaded(CLOUD_EVENT)
    expected = only(message(CLOUD_EVENT))
    old = older_schema(event)
    quoted = {**old, "data": {**old["data"], "eTag": f'"{old["data"]["eTag"]}"'}}
    for form in (old, quoted, [event], [old]):
        assert only(json.dumps(form)) == expected
    assert parsed(json.dumps([event, old])).units == (expected, expected)


@pytest.mark.parametrize(
    ("kind", "reason"), [("BlobDeleted", "deletion"), ("BlobTierChanged", "other_event")]
)
def test_event_grids_other_events_are_passed_over(kind: str, reason: str) -> None:
    """Deletions and changes of the tier are counted by their reason, in both schemas."""
    event = {**loaded(CLOUD_EVENT), "type": f"Microsoft.Storage.{kind}"}
    expected = (Ignored(reason=reason, object_uri=UNITS[CLOUD_EVENT][0].uri),)
    for form in (event, older_schema(event)):
        assert parsed(json.dumps(form)).ignored == expected
