"""A boto3 client for one queue: region, endpoint and credentials by the standard chain."""

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

import tallgrass
from tallgrass.errors import ConfigError
from tallgrass.queues.sqs_address import SqsAddress

#: Of a request in all: the loop above waits longer, and says so.
_TRIES = 3
_CONNECT_S_MAX = 5
#: Beyond the longest poll; an answer that takes longer is not coming.
_READ_S_MAX = 15


def open_client(
    address: SqsAddress, *, endpoint_url: str | None, connections: int, tries: int = _TRIES
) -> Any:
    """Return a client; nothing is asked of the service yet.

    `endpoint_url` outranks the host of the address, which outranks AWS_ENDPOINT_URL and AWS's own.
    """
    try:
        session = boto3.session.Session()
        region = address.region or session.region_name
        if region is None:
            raise ConfigError(
                f"queue.url: the address of {address.queue} names no region; "
                "give the queue's ARN, or set AWS_REGION"
            )
        return session.client(
            "sqs",
            region_name=region,
            endpoint_url=endpoint_url or address.endpoint_url,
            config=Config(
                connect_timeout=_CONNECT_S_MAX,
                read_timeout=_READ_S_MAX,
                retries={"mode": "standard", "total_max_attempts": tries},
                max_pool_connections=connections,
                user_agent_extra=f"tallgrass/{tallgrass.__version__}",
            ),
        )
    except BotoCoreError as exc:  # for example a profile that is not there
        raise ConfigError(f"queue.url: no client for {address.queue}: {exc}") from exc
