"""Publishes events to an SNS topic, in batches; see `aws_batch`.

Subscriptions can filter by the attributes event_name, dataset_id, care_label and idempotency_key.
"""

import re
from collections.abc import Mapping

from tallgrass.errors import ConfigError
from tallgrass.sinks.aws_batch import AwsSink, BatchSender, open_client
from tallgrass.sinks.options import Options
from tallgrass.sinks.resources import SinkResources

_TOPIC = re.compile(
    r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]+):\d{12}:(?P<name>[A-Za-z0-9_-]{1,256}(?:\.fifo)?)"
)


def open_sns(settings: Mapping[str, object], resources: SinkResources) -> AwsSink:
    """Make the sink: `topic` (its ARN), `endpoint_url`."""
    options = Options(settings, environment=resources.environment)
    topic = options.text("topic")
    endpoint_url = options.optional("endpoint_url")
    options.done()
    found = _TOPIC.fullmatch(topic)
    if found is None:
        raise ConfigError(f"topic: {topic!r} is not the ARN of an SNS topic")
    client = open_client(
        "sns",
        region=found["region"],
        endpoint_url=endpoint_url,
        send_s_max=resources.send_s_max,
    )
    return AwsSink(
        client,
        BatchSender(
            what=f"the topic {found['name']}",
            body="Message",
            fifo=found["name"].endswith(".fifo"),
            call=lambda entries: client.publish_batch(
                TopicArn=topic, PublishBatchRequestEntries=entries
            ),
            monotonic=resources.monotonic,
            send_s_max=resources.send_s_max,
        ),
    )
