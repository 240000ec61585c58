"""The messages of the simulated feed, in the forms that S3 and SNS give them."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from urllib.parse import quote_plus

CREATED = "ObjectCreated:Put"
REMOVED = "ObjectRemoved:Delete"
SUBJECT = "Amazon S3 Notification"

_CERTIFICATE = (
    "https://sns.us-east-1.amazonaws.com/"
    "SimpleNotificationService-6aad65c2f9911b05cd53efda11f913f9.pem"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Event:
    """What S3 tells of one object; a deletion has neither size nor etag."""

    name: str
    bucket: str
    key: str
    time: datetime
    sequencer: str
    size: int | None = None
    etag: str | None = None


def s3_message(events: Sequence[S3Event], random: Random) -> str:
    """Return a notification with one record an event, as raw delivery brings it."""
    return _compact({"Records": [_record(event, random) for event in events]})


def s3_test_message(bucket: str, time: datetime, random: Random) -> str:
    """Return what S3 sends when somebody configures the notifications of a bucket."""
    return _compact(
        {
            "Service": "Amazon S3",
            "Event": "s3:TestEvent",
            "Time": _milliseconds(time),
            "Bucket": bucket,
            "RequestId": f"{random.getrandbits(64):016X}",
            "HostId": f"{random.getrandbits(256):064x}",
        }
    )


def sns_envelope(message: str, topic: str, sent: datetime, random: Random) -> bytes:
    """Return the body that SNS gives to SQS: two blanks, spaced colons, the message as text.

    The signature is made up, as no key of SNS is to be had.
    """
    region = topic.split(":")[3]
    subscription = f"{topic}:{_uuid(random)}"
    unsubscribe = f"https://sns.{region}.amazonaws.com/?Action=Unsubscribe&SubscriptionArn="
    fields = {
        "Type": "Notification",
        "MessageId": _uuid(random),
        "TopicArn": topic,
        "Subject": SUBJECT,
        "Message": message,
        "Timestamp": _milliseconds(sent),
        "SignatureVersion": "1",
        "Signature": f"{random.getrandbits(2040):0340x}==",
        "SigningCertURL": _CERTIFICATE,
        "UnsubscribeURL": unsubscribe + subscription,
    }
    lines = ",\n".join(f'  "{name}" : {json.dumps(value)}' for name, value in fields.items())
    return f"{{\n{lines}\n}}".encode()


def _record(event: S3Event, random: Random) -> dict[str, object]:
    described: dict[str, object] = {"key": quote_plus(event.key, safe="/")}
    if event.size is not None:
        described["size"] = event.size
    if event.etag is not None:
        described["eTag"] = event.etag
    described["sequencer"] = event.sequencer
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": _milliseconds(event.time),
        "eventName": event.name,
        "userIdentity": {"principalId": "AWS:AIDASIMULATEDFEED0000"},
        "requestParameters": {"sourceIPAddress": "198.51.100.7"},
        "responseElements": {
            "x-amz-request-id": f"{random.getrandbits(64):016X}",
            "x-amz-id-2": f"{random.getrandbits(256):064x}",
        },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "simulated-feed",
            "bucket": {
                "name": event.bucket,
                "ownerIdentity": {"principalId": "A2SIMULATEDFEED"},
                "arn": f"arn:aws:s3:::{event.bucket}",
            },
            "object": described,
        },
    }


def _compact(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _milliseconds(instant: datetime) -> str:
    rounded = instant - timedelta(microseconds=instant.microsecond % 1000)
    return f"{rounded:%Y-%m-%dT%H:%M:%S}.{rounded.microsecond // 1000:03}Z"


def _uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))
