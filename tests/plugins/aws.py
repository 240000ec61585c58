"""The fixtures `ministack` and `moto`: one emulator of each a test process, started when asked for.

Every test takes queues, topics and buckets of its own (`AwsServer.make_queue`), so that they share
the emulators without meeting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.aws import ENVIRONMENT, UNSET, AwsServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def ministack() -> Iterator[AwsServer]:
    """SQS, SNS and S3 by ministack: quick."""
    with AwsServer("ministack") as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[AwsServer]:
    """All services by moto: slow with many messages, but a second opinion."""
    with AwsServer("moto") as server:
        yield server


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process and its children credentials that are made up, and nothing else."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
