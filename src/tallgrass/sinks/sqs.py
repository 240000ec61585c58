"""Sends events to an SQS queue, in batches; see `aws_batch`.

To a FIFO queue, the dataset is the message group and the idempotency key tells repetitions apart.
"""

from collections.abc import Mapping

from tallgrass.queues.sqs_address import read_address
from tallgrass.sinks.aws_batch import AwsSink, BatchSender, open_client
from tallgrass.sinks.options import Options
from tallgrass.sinks.resources import SinkResources


def open_sqs(settings: Mapping[str, object], resources: SinkResources) -> AwsSink:
    """Make the sink: `url` (the queue's address or ARN), `endpoint_url`."""
    options = Options(settings, environment=resources.environment)
    address = read_address(options.text("url"))
    endpoint_url = options.optional("endpoint_url")
    options.done()
    client = open_client(
        "sqs",
        region=address.region,
        endpoint_url=endpoint_url or address.endpoint_url,
        send_s_max=resources.send_s_max,
    )
    url = address.url_at(client.meta.endpoint_url)
    return AwsSink(
        client,
        BatchSender(
            what=f"the queue {address.queue}",
            body="MessageBody",
            fifo=address.is_fifo,
            call=lambda entries: client.send_message_batch(QueueUrl=url, Entries=entries),
            monotonic=resources.monotonic,
            send_s_max=resources.send_s_max,
        ),
    )
