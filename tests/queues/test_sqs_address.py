"""What an ARN or an address of SQS says, and which place and region follow from it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tallgrass.errors import ConfigError
from tallgrass.queues.sqs_address import read_address
from tallgrass.queues.sqs_client import open_client

if TYPE_CHECKING:
    from tests.support.aws import AwsServer

ACCOUNT = "123456789012"
#: As written → region, endpoint that the address itself asks for.
ADDRESSES: dict[str, tuple[str | None, str | None]] = {
    f"arn:aws:sqs:us-west-2:{ACCOUNT}:nodd": ("us-west-2", None),
    f"arn:aws-us-gov:sqs:us-gov-west-1:{ACCOUNT}:nodd": ("us-gov-west-1", None),
    f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/nodd": ("eu-central-1", None),
    f"https://sqs.cn-north-1.amazonaws.com.cn/{ACCOUNT}/nodd": ("cn-north-1", None),
    f"https://queue.amazonaws.com/{ACCOUNT}/nodd": ("us-east-1", None),
    f"https://us-west-1.queue.amazonaws.com/{ACCOUNT}/nodd": ("us-west-1", None),
    f"https://vpce-1.sqs.us-east-2.vpce.amazonaws.com/{ACCOUNT}/nodd": (
        "us-east-2",
        "https://vpce-1.sqs.us-east-2.vpce.amazonaws.com",
    ),
    f"https://sqs-fips.us-east-1.amazonaws.com/{ACCOUNT}/nodd": (
        "us-east-1",
        "https://sqs-fips.us-east-1.amazonaws.com",
    ),
    f"http://127.0.0.1:4566/{ACCOUNT}/nodd": (None, "http://127.0.0.1:4566"),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_tells_its_region_and_place(text: str) -> None:
    """Region, account and name are read from every form that AWS writes."""
    address = read_address(text)
    assert (address.region, address.endpoint_url) == ADDRESSES[text]
    assert (address.account, address.queue) == (ACCOUNT, "nodd")
    assert address.url_at("https://sqs.test/").endswith(f"/{ACCOUNT}/nodd")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nodd",
        f"arn:aws:sns:us-east-1:{ACCOUNT}:nodd",
        "arn:aws:sqs:us-east-1:1:nodd",
        f"ftp://sqs.us-east-1.amazonaws.com/{ACCOUNT}/nodd",
        f"http://evil.example/sqs.us-east-1.amazonaws.com/{ACCOUNT}/nodd",
        "https://sqs.us-east-1.amazonaws.com/nodd",
    ],
)
def test_what_is_no_queue_is_refused(text: str) -> None:
    """A text that names no queue of SQS is a mistake in the configuration."""
    with pytest.raises(ConfigError, match="neither the ARN nor the address"):
        read_address(text)


@pytest.mark.parametrize(
    ("text", "given", "variable", "place"),
    [
        ("arn:aws:sqs:us-west-2:{}:nodd", None, None, "https://sqs.us-west-2.amazonaws.com"),
        ("arn:aws:sqs:us-west-2:{}:nodd", None, "http://a.test", "http://a.test"),
        ("arn:aws:sqs:us-west-2:{}:nodd", "http://b.test", "http://a.test", "http://b.test"),
        ("http://c.test/{}/nodd", None, "http://a.test", "http://c.test"),
        ("http://c.test/{}/nodd", "http://b.test", None, "http://b.test"),
    ],
)
def test_the_setting_outranks_the_address_and_that_the_variable(
    aws_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    given: str | None,
    variable: str | None,
    place: str,
) -> None:
    """Where SQS is asked follows from the setting, the address, the variable, in this order."""
    if variable is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", variable)
    client = open_client(read_address(text.format(ACCOUNT)), endpoint_url=given, connections=1)
    assert client.meta.endpoint_url == place
    client.close()


def test_an_address_without_a_region_needs_the_environment(
    aws_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The region of an address that names none is the environment's; without one it is told."""
    address = read_address(f"http://127.0.0.1:1/{ACCOUNT}/nodd")
    client = open_client(address, endpoint_url=None, connections=1)
    assert client.meta.region_name == "us-east-1"
    client.close()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigError, match="names no region"):
        open_client(address, endpoint_url=None, connections=1)


def test_a_profile_that_is_not_there_is_told(
    aws_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in the standard chain is a mistake in the configuration."""
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    address = read_address(f"arn:aws:sqs:us-west-2:{ACCOUNT}:nodd")
    with pytest.raises(ConfigError, match="nobody"):
        open_client(address, endpoint_url=None, connections=1)


@pytest.mark.parametrize("form", ["arn", "url"])
def test_a_queue_is_the_same_by_arn_and_by_address(
    ministack: AwsServer, aws_environment: None, form: str
) -> None:
    """Both forms lead to the same messages; an address needs no endpoint beside it."""
    made = ministack.make_queue()
    ministack.client("sqs").send_message(QueueUrl=made.url, MessageBody="one")
    flags: dict[str, str | int] = {"queue.url": getattr(made, form), "queue.wait_s": 0}
    if form == "arn":
        flags["queue.endpoint_url"] = ministack.url
    queue = open_queue(load_config(environment={}, flags=flags))
    assert [message.body for message in queue.receive(1)] == [b"one"]
    queue.close()


def test_a_missing_library_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without boto3 the error names the extra to install."""
    for name in ("tallgrass.queues.sqs", "tallgrass.queues.sqs_client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "boto3", None)
    config = load_config(
        environment={}, flags={"queue.url": f"arn:aws:sqs:us-east-1:{ACCOUNT}:nodd"}
    )
    with pytest.raises(ConfigError) as caught:
        open_queue(config)
    assert (caught.value.code, caught.value.about.remedy) == (
        "aws_missing",
        "pip install 'tallgrass[aws]'",
    )
