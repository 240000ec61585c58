"""Queues of SQS that a drain needs beside the main one: its dead letters, and the run's own."""

import json
from typing import Any

from tallgrass.errors import ConfigError, QueueMissing
from tallgrass.queues.sqs_address import SqsAddress
from tallgrass.queues.sqs_errors import AWS_ERRORS, translate

#: What a run's queue has from the main one: above all, where its own dead letters go.
_LIKE_MAIN = ("MessageRetentionPeriod", "RedrivePolicy", "VisibilityTimeout")
_TAG = "tallgrass-replay-run"


def dead_letter_arn(client: Any, address: SqsAddress) -> str:
    """Return the queue that a queue's redrive policy names."""
    found = _attributes(client, address, ("RedrivePolicy",))
    arn = json.loads(found.get("RedrivePolicy") or "{}").get("deadLetterTargetArn")
    if not arn:
        message = f"queue.url: {address.queue} has no dead-letter queue (no RedrivePolicy)"
        raise ConfigError(message)
    return str(arn)


def make_replay_queue(
    client: Any, main: SqsAddress, address: SqsAddress, replay_run_id: str
) -> None:
    """Make the queue of a run, if it is not there; what dies there goes where the main's goes."""
    try:
        _attributes(client, address, ("QueueArn",))
    except QueueMissing:
        found = _attributes(client, main, _LIKE_MAIN)
        attributes = {name: found[name] for name in _LIKE_MAIN if found.get(name)}
        try:
            client.create_queue(
                QueueName=address.queue, Attributes=attributes, tags={_TAG: replay_run_id}
            )
        except AWS_ERRORS as exc:
            raise translate(exc, f"queue {address.queue}: create_queue") from exc


def remove_queue(client: Any, address: SqsAddress) -> None:
    """Delete a queue."""
    try:
        client.delete_queue(QueueUrl=address.url_at(client.meta.endpoint_url))
    except AWS_ERRORS as exc:
        raise translate(exc, f"queue {address.queue}: delete_queue") from exc


def _attributes(client: Any, address: SqsAddress, names: tuple[str, ...]) -> dict[str, str]:
    url = address.url_at(client.meta.endpoint_url)
    try:
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    except AWS_ERRORS as exc:
        raise translate(exc, f"queue {address.queue}: get_queue_attributes") from exc
    attributes: dict[str, str] = answer.get("Attributes", {})
    return attributes
