"""`tallgrass queue status`: what waits in the configured queue, whichever kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.queues import open_queue
from tallgrass.config import load_config
from tests.cli.command import tallgrass
from tests.support.aws import ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.aws import AwsServer


def test_the_embedded_queue_is_counted(queue: str) -> None:
    """Name, kind, address, counts, age and settings; the flag names the queue to look at."""
    env = {"TALLGRASS_QUEUE_NAME": "second", "TALLGRASS_QUEUE_VISIBILITY_S": "120"}
    done = tallgrass("queue", "status", "--queue", queue, "--output", "json", env=env)
    assert done.code == 0, done.err
    found = done.json
    assert (found["visible"], found["in_flight"], found["dead"]) == (2, 1, 1)
    assert (found["name"], found["kind"], found["url"]) == ("second", "embedded", queue)
    assert 0 <= found["oldest_age_s"] < 600
    assert found["settings"]["visibility_s"] == 120
    assert found["settings"]["max_receive_count"] == 5


def test_people_get_a_table(queue: str) -> None:
    """The same in words, from the configured queue."""
    out = tallgrass("queue", "status", env={"TALLGRASS_QUEUE_URL": queue}).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "Queue nodd-primary", "kind embedded", "visible 2", "in flight 1", "dead letters 1",
        "max_receive_count 5",
    ):  # fmt: skip
        assert line in lines


def test_an_empty_queue_has_no_age(tmp_path: Path) -> None:
    """Nothing waits: there is nothing to be old."""
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    open_queue(load_config(environment={}, flags={"queue.url": url})).close()
    found = tallgrass("queue", "status", "--queue", url, "--output", "json").json
    assert (found["visible"], found["oldest_sent_at"], found["oldest_age_s"]) == (0, None, None)
    assert "nothing waits" in tallgrass("queue", "status", "--queue", url).out


def test_a_queue_that_was_never_made_is_not_made(tmp_path: Path) -> None:
    """It ends with 4, and looking leaves nothing behind."""
    url = f"sqlite:///{tmp_path / 'none.db'}"
    done = tallgrass("queue", "status", "--queue", url, "--output", "json")
    assert done.code == 4
    assert done.error["code"] == "queue_missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("aws_environment")
def test_a_queue_on_sqs_is_counted(ministack: AwsServer) -> None:
    """Counts are the queue's own; how old its messages are SQS does not tell."""
    made = ministack.make_queue()
    sqs = ministack.client("sqs")
    for body in ("waits", "waits too", "flies"):
        sqs.send_message(QueueUrl=made.url, MessageBody=body)
    sqs.receive_message(QueueUrl=made.url, MaxNumberOfMessages=1)
    sqs.send_message(QueueUrl=made.dead_url, MessageBody="died")
    env = {**ENVIRONMENT, "TALLGRASS_QUEUE_ENDPOINT_URL": ministack.url}
    asked = ("queue", "status", "--queue", made.arn)
    done = tallgrass(*asked, "--output", "json", env=env)
    assert done.code == 0, done.err
    found = done.json
    assert (found["visible"], found["in_flight"], found["dead"]) == (2, 1, 1)
    assert (found["kind"], found["url"], found["oldest_age_s"]) == ("sqs", made.arn, None)
    assert found["settings"]["endpoint_url"] == ministack.url
    shown = [" ".join(line.split()) for line in tallgrass(*asked, env=env).out.splitlines()]
    assert "oldest message not told" in shown


@pytest.mark.usefixtures("aws_environment")
def test_a_queue_that_sqs_does_not_know_is_told(ministack: AwsServer) -> None:
    """It ends with 4 and a code of its own."""
    arn = ministack.make_queue().arn + "-not"
    env = {**ENVIRONMENT, "TALLGRASS_QUEUE_ENDPOINT_URL": ministack.url}
    done = tallgrass("queue", "status", "--queue", arn, "--output", "json", env=env)
    assert done.code == 4
    assert done.error["code"] == "queue_missing"
