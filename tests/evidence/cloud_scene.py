"""Objects of a store on loopback, and what it holds."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

from tallgrass.evidence.cloud_objects import CloudObjects, Patience
from tests.support.odd_store import Answer, OddStore, Request, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.aws import AwsServer


TAIL = 1024
#: One repeat, at once.
HASTE = Patience(
    connect_s=30, request_s=30, repeats=1, repeat_within_s=60,
    first_pause_s=0.01, longest_pause_s=0.01,
)  # fmt: skip
CONTENT = random.Random(4).randbytes(200_000)


def s3(at: AwsServer | OddStore, **settings: Any) -> CloudObjects:
    """Return the objects of a store on loopback."""
    return CloudObjects(endpoint_url=at.url, **{"patience": HASTE, **settings})


def giving(content: bytes) -> Callable[[int, Request], Answer]:
    """Return the script of a store that has this content and no fault."""
    return lambda _, request: part(content, request, "one")


def md5(content: bytes) -> str:
    """Return the etag that S3 gives an object that was put in one piece."""
    return hashlib.md5(content).hexdigest()  # noqa: S324 - what S3 uses
