"""Notifications as AWS writes them, with every part open to change."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.intake.parse import parse_message

if TYPE_CHECKING:
    from tallgrass.intake.message import ParsedMessage

GLM = (
    "GLM-L2-LCFA/2025/097/13/OR_GLM-L2-LCFA_G19_s20250971300200_e20250971300400_c20250971300420.nc"
)
NEXRAD = "2025/01/01/KDMX/KDMX20250101_225441_V06"
HRRR = "hrrr.20240510/conus/hrrr.t12z.wrfsfcf02.grib2"
SENT_AT = datetime(2025, 4, 7, 13, 1, 30, tzinfo=UTC)


def record(key: str = GLM, bucket: str = "noaa-goes19", **changes: Any) -> dict[str, Any]:
    """Return one record of an S3 event; `object` changes fields of the object."""
    described = {
        "key": key,
        "size": 176_998,
        "eTag": "7239138a465f83a247851a1a64ac8927",
        "sequencer": "005D48DA450E238E88",
        **changes.pop("object", {}),
    }
    values: dict[str, Any] = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": "2025-04-07T13:00:45.100Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:EXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.1"},
        "responseElements": {"x-amz-request-id": "EBD615B128A3EBBB", "x-amz-id-2": "4CFJrIHl+c="},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "example",
            "bucket": {
                "name": bucket,
                "ownerIdentity": {"principalId": "A2EXAMPLE"},
                "arn": f"arn:aws:s3:::{bucket}",
            },
            "object": {name: value for name, value in described.items() if value is not ...},
        },
    }
    return {name: value for name, value in {**values, **changes}.items() if value is not ...}


def event(*records: Any) -> str:
    """Return an S3 event as text."""
    return json.dumps({"Records": list(records)}, separators=(",", ":"))


def sns(message: Any, **changes: Any) -> bytes:
    """Return an SNS envelope around a message."""
    values = {
        "Type": "Notification",
        "MessageId": "191c04d9-d428-5417-b457-511b08af29c6",
        "TopicArn": "arn:aws:sns:us-east-1:123901341784:NewGOES19Object",
        "Subject": "Amazon S3 Notification",
        "Message": message,
        "Timestamp": "2025-04-07T13:00:47.250Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE==",
        "SigningCertURL": "https://sns.us-east-1.amazonaws.com/example.pem",
        "UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe",
        **changes,
    }
    kept = {name: value for name, value in values.items() if value is not ...}
    return json.dumps(kept, indent=2).encode()


def parsed(body: bytes | str, **changes: Any) -> ParsedMessage:
    """Return what a body says to the shipped catalogue."""
    data = body.encode() if isinstance(body, str) else body
    values: dict[str, Any] = {
        "message_id": "sqs-1",
        "sent_at": SENT_AT,
        "queue": "nodd-primary",
        "catalogue": default_catalogue(),
        **changes,
    }
    return parse_message(data, **values)
