"""Listings of S3 through boto3, for buckets with keys that obstore cannot name.

One key with an empty or dotted part, such as ``a//b``, makes obstore refuse its whole page. Such a
key is no unit, but its neighbours may be.
"""

from collections.abc import Iterator
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tallgrass.errors import ListingBroken, ListingRefused
from tallgrass.evidence.listing import Page, PlainPages
from tallgrass.inventory.listed import ListedObject

_CONNECT_S_MAX = 5
_READ_S_MAX = 15
_TRIES = 4
_SERVER_ERROR = 500


def plain_listing(
    *, endpoint_url: str = "", signed: bool = False, tries: int = _TRIES
) -> PlainPages:
    """Return what lists buckets of S3: bucket as ``s3://name``, prefix, the key to go on after."""
    signature: dict[str, Any] = {} if signed else {"signature_version": UNSIGNED}
    client = boto3.session.Session().client(
        "s3",
        region_name=None if signed else "us-east-1",
        endpoint_url=endpoint_url or None,
        config=Config(
            connect_timeout=_CONNECT_S_MAX,
            read_timeout=_READ_S_MAX,
            retries={"mode": "standard", "total_max_attempts": tries},
            **signature,
        ),
    )

    def pages(bucket: str, prefix: str, after: str) -> Iterator[Page]:
        name = bucket.partition("://")[2]
        found = client.get_paginator("list_objects_v2").paginate(
            Bucket=name, Prefix=prefix, StartAfter=after
        )
        try:
            for page in found:
                objects = [_listed(bucket, each) for each in page.get("Contents", ())]
                if objects:
                    yield objects
        except ClientError as exc:
            status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            told = f"{bucket} cannot be listed: the store answers with {status}"
            raise (ListingBroken if status >= _SERVER_ERROR else ListingRefused)(told) from exc
        except BotoCoreError as exc:
            raise ListingBroken(f"{bucket} cannot be listed: {type(exc).__name__}") from exc

    return pages


def _listed(bucket: str, found: dict[str, Any]) -> ListedObject:
    return ListedObject(
        f"{bucket}/{found['Key']}",
        found["Size"],
        found["ETag"].strip('"') or None,
        found["LastModified"],
    )
