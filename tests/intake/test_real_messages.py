from __future__ import annotations

import json

import pytest

from tallgrass.clock import parse_instant
from tallgrass.intake.message import Ignored
from tests.datasets.noaa_data import noaa_data
from tests.intake.notifications import parsed

GOES17 = "s3://noaa-goes17/"
RADM2 = (
    f"{GOES17}ABI-L1b-RadM/2019/218/01/"
    "OR_ABI-L1b-RadM2-M6C03_G17_s20192180138575_e20192180139033_c20192180139080.nc"
)
MCMIPF = (
    f"{GOES17}ABI-L2-MCMIPF/2019/216/17/"
    "OR_ABI-L2-MCMIPF-M6_G17_s20192161730341_e20192161739408_c20192161739497.nc"
)


def message(name: str) -> bytes:
    """Return a captured message."""
    return noaa_data("messages", name).read_bytes()


def test_a_real_notification_of_a_volume_is_read() -> None:
    """A captured NEXRAD notification of 2015 gives its unit, by values read off the capture."""
    found = parsed(message("sqs-body__nexrad-l2-archive__2015-12-28.json"))
    assert (found.ignored, found.poison) == ((), None)
    (unit,) = found.units
    assert unit.dataset == "nexrad-l2"
    assert unit.object_uri == ("s3://noaa-nexrad-level2/2015/12/28/KCLE/KCLE20151228_205754_V06.gz")
    assert unit.time_range_start == parse_instant("2015-12-28T20:57:54Z")
    assert unit.time_range_end == unit.time_range_start
    assert unit.event.event_time == parse_instant("2015-12-28T21:03:33.603Z")
    assert unit.event.sns_message_id == "4881eba1-f3f9-5336-bbd6-a55a561cc9ea"
    assert unit.object_ref.etag == "29590f045e0e599956cfe9a595945fe8"
    assert unit.object_ref.size == 20_750_089
    assert unit.object_ref.sequencer == "005681A3A47FB77917"
    assert unit.object_ref.version_id is None


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("sqs-body__goes17-L1b-RadM2__2019-08-06.txt", [("not_ingestable", RADM2)]),
        ("raw-delivery-body__goes17-L1b-RadM2__2019-08-06.json", [("not_ingestable", RADM2)]),
        (
            "SYNTHETIC__s3-event-two-records.json",
            [("not_ingestable", RADM2), ("not_ingestable", MCMIPF)],
        ),
        ("SYNTHETIC__sns-envelope-s3-TestEvent.json", [("test_event", None)]),
        ("s3-test-event__aws-docs.json", [("test_event", None)]),
    ],
)
def test_real_messages_that_are_passed_over(
    name: str, ignored: list[tuple[str, str | None]]
) -> None:
    """Other products of a known bucket, and test events, are ignored and counted."""
    found = parsed(message(name))
    assert (found.units, found.poison) == ((), None)
    assert found.ignored == tuple(Ignored(reason=why, object_uri=uri) for why, uri in ignored)


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        (
            "SYNTHETIC__s3-event-urlencoded-key-nbm-cog.json",
            "unroutable",
            "_2026-06-06T15:00_2026-06-06T19:00.tif",
        ),
        (
            "sqs-body__nexrad-l2-chunk-OLD-S3-event-topic__2015-12-28.json",
            "unroutable",
            "s3://unidata-nexrad-level2-chunks/KDAX/734/20151228-200051-001-S",
        ),
        (
            "sns-envelope-lambda-style__gfs__2023-01-22__key-probably-edited.json",
            "unroutable",
            "s3://noaa-gfs-bdp-pds/",
        ),
        (
            "sqs-body__nexrad-l2-chunk-filterable__2026-10-09__signature-elided.json",
            "invalid_input",
            "no known form of message",
        ),
        ("eventbridge-s3-object-created__aws-docs.json", "invalid_input", "no known form"),
        (
            "azure-eventgrid-cloudevent__goes16-CMIPM1__2023-04-06.json",
            "invalid_input",
            "no known form",
        ),
        ("SYNTHETIC__gcp-pubsub-storage-notification.json", "invalid_input", "no known form"),
        (
            "lambda-sns-event__gfs__2021-11-29__key-edited.json",
            "missing_required_field",
            "eventVersion",
        ),
    ],
)
def test_real_messages_of_unknown_buckets_and_forms(name: str, code: str, text: str) -> None:
    """A message of a bucket or form that nothing reads is poison that says so."""
    found = parsed(message(name))
    assert (found.units, found.ignored) == ((), ())
    assert found.poison is not None
    assert (found.poison.code, text in found.poison.message) == (code, True), found.poison


def test_the_body_inside_a_received_record_is_the_same_message() -> None:
    """The body that a queue hands over parses as the body that was captured by itself."""
    received = json.loads(message("sqs-record__goes17-L1b-RadM2__2019-08-06.json"))
    alone = message("sqs-body__goes17-L1b-RadM2__2019-08-06.txt")
    assert parsed(received["body"]) == parsed(alone)


@pytest.mark.parametrize(
    "name",
    ["notification-v1.json", "notification-v2.json", "subscription-confirmation-v1-2026.json"],
)
def test_signed_messages_of_other_topics_are_poison(name: str) -> None:
    """An SNS message that holds no event, or asks to confirm a subscription, is kept as poison."""
    found = parsed(message(f"sns-signing/{name}"))
    assert (found.units, found.ignored) == ((), ())
    assert found.poison is not None
    assert found.poison.code == "invalid_input"
