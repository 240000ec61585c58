"""Amazon's services for tests: emulators on loopback, and clients and queues of the test's own.

Nothing here reaches out of the machine: credentials are made up, configuration files of the user
are not read, and no metadata service is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REGION = "us-east-1"
ACCOUNT = "000000000000"
#: What every process of a test must have: made-up credentials, and no way to others.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1,localhost",
}
#: Variables of whoever runs the tests that would lead elsewhere.
UNSET = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN")
END_S_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQueue:
    """A queue on an emulator, with its dead-letter queue."""

    url: str
    arn: str
    dead_url: str
    dead_arn: str


class AwsServer:
    """An emulator in a process of its own; it ends with `close`, or with this process."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.aws_server", kind],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._stopped_at = 0.0
        self._clients: dict[str, Any] = {}
        #: Where it answers, for every service.
        self.url = self._hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        for client in self._clients.values():
            client.close()
        self._process.kill()
        self._process.wait(timeout=END_S_MAX)
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            pipe.close()  # type: ignore[union-attr]

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @cached_property
    def session(self) -> Any:
        """A session with made-up credentials, whatever the environment says."""
        import boto3  # noqa: PLC0415 - half a second that only tests of AWS need

        return boto3.session.Session(
            aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            region_name=REGION,
        )

    def client(self, service: str) -> Any:
        """Return a boto3 client; it is closed with the server."""
        if service not in self._clients:
            self._clients[service] = self.session.client(service, endpoint_url=self.url)
        return self._clients[service]

    def make_queue(
        self,
        *,
        visibility_s: int = 60,
        max_receive_count: int = 5,
        attributes: Mapping[str, str] | None = None,
    ) -> MadeQueue:
        """Create a queue and its dead-letter queue under names of their own."""
        sqs = self.client("sqs")
        name = f"queue-{uuid.uuid4().hex[:12]}"
        dead_url = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
        dead_arn = self.arn_of(dead_url)
        redrive = {"deadLetterTargetArn": dead_arn, "maxReceiveCount": max_receive_count}
        url = sqs.create_queue(
            QueueName=name,
            Attributes={
                "VisibilityTimeout": str(visibility_s),
                "RedrivePolicy": json.dumps(redrive),
                **(attributes or {}),
            },
        )["QueueUrl"]
        return MadeQueue(url=url, arn=self.arn_of(url), dead_url=dead_url, dead_arn=dead_arn)

    def arn_of(self, url: str) -> str:
        """Return the ARN of a queue."""
        attributes = self.client("sqs").get_queue_attributes(
            QueueUrl=url, AttributeNames=["QueueArn"]
        )["Attributes"]
        arn: str = attributes["QueueArn"]
        return arn

    @contextmanager
    def stopped_clock(self) -> Iterator[None]:
        """Stop the emulator's clock; `advance` moves it. A poll that waits would wait for ever."""
        self._stopped_at = time.time()
        self.advance(0)
        try:
            yield
        finally:
            self._tell("real")

    def advance(self, seconds: float) -> None:
        """Let time pass for the emulator while its clock is stopped."""
        self._stopped_at += seconds
        self._tell(repr(self._stopped_at))

    def _tell(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]
        assert self._hear() == "ok"

    def _hear(self) -> str:
        line = self._process.stdout.readline().strip()  # type: ignore[union-attr]
        if not line:
            self._log.seek(0)
            said = self._log.read().decode(errors="replace")
            raise AssertionError(f"{self.kind} ended with {self._process.wait()}: {said}")
        return line
