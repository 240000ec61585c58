"""Looks at an SQS queue and its dead-letter queue, by reading only."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError

from tallgrass.clock import Clock
from tallgrass.errors import QueueDenied, TallgrassError
from tallgrass.queues.queue_facts import SqsFacts
from tallgrass.queues.sqs_address import read_address
from tallgrass.queues.sqs_client import open_client
from tallgrass.queues.sqs_errors import AWS_ERRORS, translate

_QUEUE = (
    "KmsMasterKeyId",
    "MessageRetentionPeriod",
    "Policy",
    "QueueArn",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)


def credentials_from() -> str | None:
    """Return where the standard chain finds credentials; None for nowhere. Never what they are."""
    try:
        found = boto3.session.Session().get_credentials()
    except BotoCoreError as exc:
        raise QueueDenied(f"credentials: {exc}") from exc
    return None if found is None else str(found.method)


def inspect_queue(url: str, *, endpoint_url: str | None, clock: Clock) -> SqsFacts:
    """Return what SQS tells of a queue; errors are Tallgrass's own."""
    address = read_address(url)
    client = open_client(address, endpoint_url=endpoint_url, connections=1)
    try:
        before = clock()
        answer = _attributes(client, address.url_at(client.meta.endpoint_url), _QUEUE)
        ahead_s = _ahead_s(answer, before, clock())
        return _facts(client, answer["Attributes"], ahead_s)
    finally:
        client.close()


def _facts(client: Any, found: Mapping[str, str], ahead_s: float | None) -> SqsFacts:
    redrive = json.loads(found.get("RedrivePolicy") or "{}")
    dead_arn = redrive.get("deadLetterTargetArn")
    retention_s, trouble = (None, None) if dead_arn is None else _dead_letters(client, dead_arn)
    managed = "sqs" if found.get("SqsManagedSseEnabled") == "true" else None
    return SqsFacts(
        arn=found.get("QueueArn", ""),
        visibility_s=int(found["VisibilityTimeout"]),
        retention_s=int(found["MessageRetentionPeriod"]),
        max_receive_count=int(redrive["maxReceiveCount"]) if redrive else None,
        dead_letter_arn=dead_arn,
        dead_letter_retention_s=retention_s,
        dead_letter_trouble=trouble,
        policy=found.get("Policy", ""),
        encryption=found.get("KmsMasterKeyId") or managed,
        clock_ahead_s=ahead_s,
    )


def _dead_letters(client: Any, arn: str) -> tuple[int | None, str | None]:
    """Return the retention of the dead-letter queue, or why it cannot be told."""
    url = read_address(arn).url_at(client.meta.endpoint_url)
    try:
        found = _attributes(client, url, ("MessageRetentionPeriod",))["Attributes"]
    except TallgrassError as error:
        return None, str(error)
    return int(found["MessageRetentionPeriod"]), None


def _attributes(client: Any, url: str, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    except AWS_ERRORS as exc:
        raise translate(exc, f"{url}: get_queue_attributes") from exc
    return answer


def _ahead_s(answer: Mapping[str, Any], before: datetime, after: datetime) -> float | None:
    """Compare the answer's Date, which has whole seconds, with the middle of the question."""
    date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
    if date is None:
        return None
    middle = before + (after - before) / 2
    return (parsedate_to_datetime(date) - middle).total_seconds()
