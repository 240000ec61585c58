"""What an SQS queue's ARN or address says: region, account and name, and where it answers."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from tallgrass.errors import ConfigError

_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):sqs:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):"
    r"(?P<name>[A-Za-z0-9_-]{1,80}(?:\.fifo)?)"
)
_PATH = re.compile(r"/(?P<account>\d{12})/(?P<name>[A-Za-z0-9_-]{1,80}(?:\.fifo)?)")
#: Where boto3 itself would ask: such an address needs no endpoint of its own.
_OWN_HOST = re.compile(
    r"sqs\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
    r"|(?:(?P<old>[a-z0-9-]+)\.)?queue\.amazonaws\.com(?:\.cn)?"
)
#: Other hosts of AWS that name a region: private endpoints, FIPS, both kinds of IP.
_OTHER_HOST = re.compile(
    r"(?:.+\.)?sqs(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:vpce\.amazonaws\.com(?:\.cn)?"
    r"|amazonaws\.com(?:\.cn)?|api\.aws)"
)
#: The one region whose oldest host names none.
_FIRST_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsAddress:
    """One queue, however it was written."""

    account: str
    queue: str
    #: None where the address does not tell: then the environment must.
    region: str | None
    #: Where the service answers, if the address says so and it is not AWS's own place.
    endpoint_url: str | None
    #: The address as it was given; None for an ARN.
    url: str | None

    @property
    def is_fifo(self) -> bool:
        """Whether messages come in order, by group."""
        return self.queue.endswith(".fifo")

    def url_at(self, endpoint_url: str) -> str:
        """Return the queue's address at a service."""
        return self.url or f"{endpoint_url.rstrip('/')}/{self.account}/{self.queue}"


def read_address(text: str) -> SqsAddress:
    """Read an ARN or an address."""
    arn = _ARN.fullmatch(text)
    if arn:
        return SqsAddress(
            account=arn["account"],
            queue=arn["name"],
            region=arn["region"],
            endpoint_url=None,
            url=None,
        )
    unknown = ConfigError(f"queue.url: {text} is neither the ARN nor the address of an SQS queue")
    try:
        parts = urlsplit(text)
    except ValueError as exc:  # a bracket that is no IPv6 address
        raise unknown from exc
    path = _PATH.fullmatch(parts.path)
    if path is None or not parts.hostname or parts.scheme not in {"http", "https"}:
        raise unknown
    own = _OWN_HOST.fullmatch(parts.hostname)
    other = _OTHER_HOST.fullmatch(parts.hostname)
    if own:
        region = own["region"] or own["old"] or _FIRST_REGION
    else:
        region = other["region"] if other else None
    return SqsAddress(
        account=path["account"],
        queue=path["name"],
        region=region,
        endpoint_url=None if own else f"{parts.scheme}://{parts.netloc}",
        url=text,
    )
