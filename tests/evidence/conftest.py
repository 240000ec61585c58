"""A bucket of the test's own, and an environment that names no proxy and no account."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.aws import AwsServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the environment says of proxies and AWS away from loopback."""
    for name in list(os.environ):
        if name.upper().endswith("_PROXY") or name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def bucket(ministack: AwsServer) -> str:
    """Return an empty bucket of the test's own."""
    name = f"noaa-{uuid.uuid4().hex[:12]}"
    ministack.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture
def put(ministack: AwsServer, bucket: str) -> Callable[[str, bytes], str]:
    """Return a function that puts an object into the bucket and returns its address."""

    def put(key: str, content: bytes) -> str:
        ministack.client("s3").put_object(Bucket=bucket, Key=key, Body=content)
        return f"s3://{bucket}/{key}"

    return put
