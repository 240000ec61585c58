"""What a setting is, and what its value must be.

A check returns what is wrong with a value, or None.
"""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

#: Of the environment variables.
PREFIX = "TALLGRASS_"

Value = str | int | float | bool
Check = Callable[[Value], str | None]

_IP_ADDRESS = re.compile(r"(?<!\d)\d{1,3}(?:[.-]\d{1,3}){3}(?!\d)")
#: An ARN, or the address that SQS gives a queue: .../ACCOUNT/NAME.
_SQS_QUEUE = re.compile(
    r"arn:aws[a-z-]*:sqs:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,80}(?:\.fifo)?"
    r"|https?://[^/\s@]+/\d{12}/[A-Za-z0-9_-]{1,80}(?:\.fifo)?"
)
_SNS_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?")
_ENDPOINT = re.compile(r"https?://[^/\s@]+/?")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting with a single value."""

    key: str
    default: Value
    doc: str
    #: Whether it can change what the pipeline writes, and so counts in config_version.
    shapes_output: bool = False
    check: Check = lambda _value: None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.key.upper().replace(".", "_")


def between(low: float, high: float) -> Check:
    """Take numbers from one to another, both included."""

    def check(value: Value) -> str | None:
        # Without making it a float: not every whole number can be one.
        inside = not isinstance(value, str) and low <= value <= high
        return None if inside else f"must be between {low:g} and {high:g}"

    return check


def label(value: Value) -> str | None:
    """Take one word."""
    text = str(value)
    allowed = text and all(c.isalnum() or c in "._-" for c in text)
    return None if allowed else "must be a word of letters, digits, '.', '_' and '-'"


def logical_name(value: Value) -> str | None:
    """Refuse names of machines: a record tells which worker, never where it ran."""
    text = str(value).lower()
    host = socket.gethostname().lower()
    if text in {host, host.split(".")[0]} or _IP_ADDRESS.search(text):
        return "must be a logical name such as worker-a, never a host name or an address"
    return label(value)


def database_url(value: Value) -> str | None:
    """Take the address of a database."""
    known = str(value).startswith(("sqlite:///", "postgresql://", "postgres://"))
    return None if known else "must begin with sqlite:/// or postgresql://"


def queue_url(value: Value) -> str | None:
    """Take the address of a queue."""
    known = str(value).startswith("sqlite:///") or _SQS_QUEUE.fullmatch(str(value))
    return None if known else "must be sqlite:///FILE, or the ARN or address of an SQS queue"


def objects_url(value: Value) -> str | None:
    """Take where objects are read."""
    known = value in {"event", "cloud"} or str(value).startswith("file:")
    return None if known else "must be event, cloud, or file: and a folder"


def endpoint_url(value: Value) -> str | None:
    """Take the address of a service, or none."""
    known = not value or _ENDPOINT.fullmatch(str(value))
    return None if known else "must be empty, or http(s)://HOST[:PORT]"


def topics(value: Value) -> str | None:
    """Take ARNs of topics, or none."""
    known = all(_SNS_TOPIC.fullmatch(word) for word in str(value).split())
    return None if known else "must be ARNs of SNS topics, separated by blanks"


def host_names(value: Value) -> str | None:
    """Take names of hosts, or none."""
    known = all(_HOST_NAME.fullmatch(word) for word in str(value).split())
    return None if known else "must be host names without ports, separated by blanks"


def one_of(*words: str) -> Check:
    """Take one of some words."""

    def check(value: Value) -> str | None:
        return None if value in words else f"must be {' or '.join(words)}"

    return check
