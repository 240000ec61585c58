"""A small cloud on loopback: buckets that tell a topic, which tells a queue, and workers on it.

S3 ── notification ──► SNS topic ──► SQS queue (and its dead letters) ──► `tallgrass ingest`
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tallgrass.simulate.feed import FeedMessage, FeedObject
from tests.cli.command import PROGRAM, Done, environment
from tests.oracle.tables import QueueContents
from tests.support.aws import ENVIRONMENT, UNSET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.simulate.feed import Feed
    from tests.support.aws import AwsServer, MadeQueue

#: Only a run that is broken waits for so long.
WAIT_S_MAX = 120


@dataclass
class Cloud:
    """A topic with a queue behind it, both of the test's own, and the buckets of the feed."""

    server: AwsServer
    queue: MadeQueue
    topic: str
    buckets: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, server: AwsServer, name: str) -> Self:
        """Create topic and queue, and subscribe the queue."""
        queue = server.make_queue(visibility_s=30, max_receive_count=5)
        sns = server.client("sns")
        topic = sns.create_topic(Name=name)["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn)
        return cls(server, queue, topic)

    def put(self, thing: FeedObject) -> None:
        """Put an object; its bucket tells the topic of every object put."""
        s3 = self.server.client("s3")
        if thing.bucket not in self.buckets:
            self.buckets.add(thing.bucket)
            s3.create_bucket(Bucket=thing.bucket)
            s3.put_bucket_notification_configuration(
                Bucket=thing.bucket,
                NotificationConfiguration={
                    "TopicConfigurations": [
                        {"TopicArn": self.topic, "Events": ["s3:ObjectCreated:*"]}
                    ]
                },
            )
        s3.put_object(Bucket=thing.bucket, Key=thing.key, Body=thing.content)

    def put_objects(self, feed: Feed) -> dict[str, Any]:
        """Put all objects of a feed, and return what must become of them."""
        for step in feed.steps():
            if isinstance(step, FeedObject):
                self.put(step)
        return manifest_of(feed)

    def publish(self, feed: Feed) -> dict[str, Any]:
        """Put the feed's objects silently and publish its own messages to the topic."""
        s3, sns = self.server.client("s3"), self.server.client("sns")
        for step in feed.steps():
            if isinstance(step, FeedMessage):
                sns.publish(TopicArn=self.topic, Message=inner(step.body))
                continue
            if step.bucket not in self.buckets:
                self.buckets.add(step.bucket)
                s3.create_bucket(Bucket=step.bucket)
                s3.put_bucket_notification_configuration(
                    Bucket=step.bucket, NotificationConfiguration={}
                )
            s3.put_object(Bucket=step.bucket, Key=step.key, Body=step.content)
        return manifest_of(feed)

    def peek(self) -> list[dict[str, Any]]:
        """Return the messages that wait, as SQS gives them, and leave them there."""
        sqs, found = self.server.client("sqs"), dict[str, Any]()
        while messages := sqs.receive_message(
            QueueUrl=self.queue.url, MaxNumberOfMessages=10, VisibilityTimeout=60
        ).get("Messages"):
            found |= {message["MessageId"]: message for message in messages}
        for message in found.values():
            sqs.change_message_visibility(
                QueueUrl=self.queue.url,
                ReceiptHandle=message["ReceiptHandle"],
                VisibilityTimeout=0,
            )
        return list(found.values())

    def counts(self) -> tuple[int, int, int]:
        """Count messages that wait, that are hidden and that were given up."""
        waiting, hidden = self._counts(self.queue.url)
        return waiting, hidden, sum(self._counts(self.queue.dead_url))

    def contents(self) -> QueueContents:
        """Take everything out of both queues."""
        return QueueContents(
            waiting=self._bodies(self.queue.url), dead=self._bodies(self.queue.dead_url)
        )

    def _counts(self, url: str) -> tuple[int, int]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.server.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        waiting, hidden = (int(found["Attributes"][name]) for name in names)
        return waiting, hidden

    def _bodies(self, url: str) -> list[bytes]:
        sqs, bodies = self.server.client("sqs"), []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                bodies.append(message["Body"].encode())
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies


def manifest_of(feed: Feed) -> dict[str, Any]:
    """Return what must become of a feed, as JSON."""
    manifest: dict[str, Any] = json.loads(json.dumps(feed.manifest().to_json()))
    return manifest


def inner(body: bytes) -> str:
    """Return what a publisher gave to SNS, without the envelope that SNS makes anew."""
    try:
        return str(json.loads(body)["Message"])
    except (ValueError, KeyError):
        return body.decode(errors="replace")


@dataclass
class Host:
    """A host: its own folder, configuration file and environment, and processes in it."""

    folder: Path
    settings: dict[str, dict[str, Any]]
    #: Of the environment, over what every process of a test has.
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        lines = []
        for table, values in self.settings.items():
            lines += [f"[{table}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
        (self.folder / "tallgrass.toml").write_text("\n".join(lines), encoding="utf-8")

    def run(self, *arguments: str) -> Done:
        """Run a command to its end."""
        with self.start(*arguments) as process:
            return process.end()

    def start(self, *arguments: str) -> Process:
        """Start a command."""
        kept = environment(**ENVIRONMENT, **self.variables)
        log = self.folder / "log"
        with log.open("ab") as said:
            popen = subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=self.folder,
                env={name: value for name, value in kept.items() if name not in UNSET},
                stdout=subprocess.PIPE,
                stderr=said,
            )
        return Process(popen, log)


@dataclass
class Process:
    """A process of a host; it is gone at the end of its block."""

    popen: subprocess.Popen[bytes]
    log: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.popen.stdout is not None
        self.popen.stdout.close()

    def kill(self) -> None:
        """End it with SIGKILL, whatever it does."""
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> Done:
        """Ask it to stop, and wait for that."""
        self.popen.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> Done:
        """Wait for its end; no error may ever show as a traceback."""
        out, _ = self.popen.communicate(timeout=WAIT_S_MAX)
        said = self.log.read_text(encoding="utf-8")
        assert "Traceback" not in said, said
        return Done(self.popen.returncode, out.decode(), said)


def wait_for(condition: Callable[[], object], what: str, *running: Process) -> None:
    """Wait until something holds; a process that ended meanwhile is told at once."""
    end = time.monotonic() + WAIT_S_MAX
    while not condition():
        for each in running:
            assert each.popen.poll() is None, each.log.read_text(encoding="utf-8")
        assert time.monotonic() < end, f"{what}: not in {WAIT_S_MAX} s"
        time.sleep(0.05)
