"""`tallgrass ingest` with rules for who may send, as a real process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command import tallgrass
from tests.cli.pipeline import make_feed, shares

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

OTHER_TOPIC = "arn:aws:sns:us-east-1:123901341784:SomethingElse"


@pytest.mark.parametrize(
    ("feed_shares", "variable", "value", "code"),
    [
        ({"raw_delivery": "1"}, "SIGNATURES", "required", "signature_missing"),
        ({}, "TOPICS", OTHER_TOPIC, "topic_not_allowed"),
    ],
)
def test_what_may_not_come_in_is_stored(
    backend: Backend,
    tmp_path: Path,
    feed_shares: dict[str, str],
    variable: str,
    value: str,
    code: str,
) -> None:
    """The setting decides: without it all units are made, with it each message is poison."""
    feed = make_feed(tmp_path, 5, *shares(**feed_shares))
    done = feed.ingest(backend, "--drain", **{f"TALLGRASS_QUEUE_{variable}": value})
    assert done.code == 0, done.err
    assert (done.json["poison"], done.json["units"], done.json["deferred"]) == (5, 0, 0)
    assert backend.sql("SELECT DISTINCT error_code FROM poison_messages") == [(code,)]
    assert backend.sql("SELECT count(*) FROM wal_records") == [(0,)]
    assert feed.in_queue() == 0
    again = make_feed(tmp_path / "again", 5, *shares(**feed_shares))
    assert again.ingest(backend, "--drain").json["by_verdict"] == {"succeeded": 5}


def test_confirming_everybodys_subscription_is_refused(backend: Backend, tmp_path: Path) -> None:
    """The command ends at once, says which settings are missing, and registers no worker."""
    feed = make_feed(tmp_path, 1, *shares())
    done = feed.ingest(backend, "--once", TALLGRASS_QUEUE_CONFIRM_SUBSCRIPTIONS="true")
    assert done.code == 2
    assert done.error["code"] == "config_invalid"
    assert "queue.signatures" in done.error["message"]
    assert "queue.topics" in done.error["message"]
    assert backend.sql("SELECT count(*) FROM workers") == [(0,)]
    assert feed.in_queue() == 1


@pytest.mark.parametrize(
    "topics",
    ["NewGOES19Object", f"{OTHER_TOPIC},{OTHER_TOPIC}", "arn:aws:sqs:us-east-1:123901341784:q"],
)
def test_topics_that_are_none_are_refused(tmp_path: Path, topics: str) -> None:
    """A list that could never match is found by `config check`, with its variable."""
    done = tallgrass(
        "config", "check", "--output", "json", env={"TALLGRASS_QUEUE_TOPICS": topics}, cwd=tmp_path
    )
    assert done.code == 2
    assert "TALLGRASS_QUEUE_TOPICS" in done.error["message"]
    both = f"{OTHER_TOPIC} {OTHER_TOPIC}2"
    good = tallgrass("config", "check", env={"TALLGRASS_QUEUE_TOPICS": both}, cwd=tmp_path)
    assert good.code == 0, good.err
