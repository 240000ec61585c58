"""The place of dead letters, the same on the embedded queue and on SQS."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.dead_letters import (
    make_replay_queue,
    open_dead_letters,
    remove_replay_queue,
)
from tallgrass.bootstrap.queues import open_queue, read_queue_status
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.clock import system_clock
from tallgrass.config import load_config
from tallgrass.errors import ConfigError, DatabaseUnreachable, DatabaseUnusable, QueueMissing
from tallgrass.queues.limits import is_sendable
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.queues.sqs import SqsQueue
from tallgrass.storage.migrations import migrate, shipped_migrations
from tallgrass.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.config import Config
    from tallgrass.queues.dead_letters import DeadLetterPlace
    from tallgrass.queues.protocol import QueueMessage
    from tests.support.aws import AwsServer

LETTERS = 25


@pytest.fixture(params=["embedded", "sqs"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """A queue of the test's own whose messages die after one delivery, with letters in it."""
    flags: dict[str, str | int | float] = {
        "queue.url": f"sqlite:///{tmp_path / 'queue.db'}",
        "queue.max_receive_count": 1,
        "queue.visibility_s": 60,
        "queue.wait_s": 0,
    }
    if request.param == "sqs":
        request.getfixturevalue("aws_environment")
        server: AwsServer = request.getfixturevalue("ministack")
        made = server.make_queue(max_receive_count=1)
        flags |= {"queue.url": made.arn, "queue.endpoint_url": server.url}
    config = load_config(environment={}, flags=flags)
    with contextlib.closing(open_queue(config)) as queue:
        queue.send([f"letter {number}".encode() for number in range(LETTERS)])
        messages: list[QueueMessage] = []
        while found := queue.receive(LETTERS):
            messages += found
        queue.change_visibility([(message.receipt, 0) for message in messages])
        assert queue.receive(LETTERS) == []
    return config


@pytest.fixture
def places(config: Config) -> Iterator[tuple[DeadLetterPlace, DeadLetterPlace]]:
    """Two that look at the same place."""
    with (
        contextlib.closing(open_dead_letters(config)) as one,
        contextlib.closing(open_dead_letters(config)) as other,
    ):
        yield one, other


def taken(place: DeadLetterPlace) -> dict[str, str]:
    """Take all that is free, each with its receipt."""
    found: dict[str, str] = {}
    for _ in range(LETTERS + 1):
        messages = place.receive(LETTERS)
        found |= {message.message_id: message.receipt for message in messages}
        if not messages:
            return found
    raise AssertionError("letters in hand are handed out again")


def test_to_browse_takes_nothing_away(places: tuple[DeadLetterPlace, DeadLetterPlace]) -> None:
    """Each letter is told once, as it was sent; afterwards all are free again."""
    one, other = places
    bodies = sorted(message.body for message in one.browse(100))
    assert bodies == sorted(f"letter {number}".encode() for number in range(LETTERS))
    assert len(list(one.browse(7))) == 7
    assert (one.status().visible, one.status().in_flight) == (LETTERS, 0)
    assert len(taken(other)) == LETTERS


def test_a_browse_that_is_broken_off_frees_what_it_held(
    places: tuple[DeadLetterPlace, DeadLetterPlace],
) -> None:
    """Also one whose reader failed in the middle."""
    one, other = places
    letters = one.browse(100)
    next(letters)
    letters.close()  # type: ignore[attr-defined]
    assert len(taken(other)) == LETTERS


@pytest.mark.conformance("RP-5.5")
def test_a_letter_in_hand_is_nobody_elses(places: tuple[DeadLetterPlace, DeadLetterPlace]) -> None:
    """Hidden from others until it is given back; deleted it is gone for all."""
    one, other = places
    mine = taken(one)
    assert len(mine) == LETTERS
    assert taken(other) == {}
    assert one.status().in_flight == LETTERS
    first, *rest = mine.values()
    assert list(one.delete([first])) == []
    one.release(rest)
    theirs = taken(other)
    assert set(theirs) == set(list(mine)[1:])
    other.release(list(theirs.values()))
    assert other.status().visible == LETTERS - 1


def test_a_queue_of_a_run_is_made_once_and_removed_when_empty(config: Config) -> None:
    """What is in it keeps it; to make it again changes nothing."""
    url = make_replay_queue(config, "run-1")
    assert url == replay_queue_url(config.text("queue.url"), "run-1")
    with contextlib.closing(open_queue(config, url=url)) as queue:
        queue.send([b"a message"])
    assert make_replay_queue(config, "run-1") == url
    assert remove_replay_queue(config, "run-1") is False
    with contextlib.closing(open_queue(config, url=url, wait_s=1)) as queue:
        queue.delete([message.receipt for message in queue.receive(10)])
    assert remove_replay_queue(config, "run-1") is True
    assert remove_replay_queue(config, "run-1") is None


@pytest.mark.usefixtures("aws_environment")
def test_the_queue_of_a_run_dies_where_the_main_one_dies(ministack: AwsServer) -> None:
    """On SQS it has the main queue's redrive policy, and says whose it is."""
    made = ministack.make_queue(visibility_s=45)
    config = load_config(
        environment={}, flags={"queue.url": made.arn, "queue.endpoint_url": ministack.url}
    )
    make_replay_queue(config, "run-1")
    sqs = ministack.client("sqs")
    address = made.url + "-replay-run-1"
    found = sqs.get_queue_attributes(QueueUrl=address, AttributeNames=["All"])["Attributes"]
    assert made.dead_arn in found["RedrivePolicy"]
    assert found["VisibilityTimeout"] == "45"
    assert sqs.list_queue_tags(QueueUrl=address)["Tags"] == {"tallgrass-replay-run": "run-1"}


@pytest.mark.usefixtures("aws_environment")
def test_a_queue_without_a_place_for_dead_letters_is_told(
    ministack: AwsServer, tmp_path: Path
) -> None:
    """No redrive policy, or no queue at all."""
    made = ministack.make_queue()
    config = load_config(
        environment={}, flags={"queue.url": made.dead_arn, "queue.endpoint_url": ministack.url}
    )
    with pytest.raises(ConfigError, match="no dead-letter queue"):
        open_dead_letters(config)
    never = {**config.values, "queue.url": f"sqlite:///{tmp_path / 'never.db'}"}
    with pytest.raises(QueueMissing):
        open_dead_letters(replace(config, values=never))
    assert list(tmp_path.iterdir()) == []


def test_letters_of_an_older_queue_are_kept(tmp_path: Path) -> None:
    """`db migrate` brings a queue's file up to date; what died before can be taken in hand."""
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    database = SqliteDatabase(tmp_path / "queue.db", clock=system_clock, schema="sqlite_queue")
    migrate(database, shipped_migrations("sqlite_queue")[:1])
    database.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        connection.execute(
            "INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)"
            " VALUES ('m', '2026-06-01T00:00:00.000000Z', '2026-06-01T00:00:00.000000Z', 5, x'61')"
        )
    flags = {"queue.url": url, "database.url": f"sqlite:///{tmp_path / 'ledger.db'}"}
    config = load_config(environment={}, flags=flags)
    with pytest.raises(DatabaseUnusable, match="0002_dead_letters"):
        read_queue_status(config)
    migrate_database(config)
    status = read_queue_status(config)
    assert status is not None
    assert status.dead == 1
    with contextlib.closing(open_dead_letters(config)) as place:
        assert [message.body for message in place.receive(5)] == [b"a"]
        assert place.receive(5) == []


@pytest.mark.usefixtures("aws_environment")
def test_a_count_of_nothing_is_not_believed(
    ministack: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQS's counts lag: a queue of a run that still gives out a message is not removed."""
    made = ministack.make_queue()
    flags: dict[str, str | int | float] = {
        "queue.url": made.arn, "queue.endpoint_url": ministack.url
    }  # fmt: skip
    config = load_config(environment={}, flags=flags)
    url = make_replay_queue(config, "run-1")
    with contextlib.closing(open_queue(config, url=url, wait_s=1)) as queue:
        queue.send([b"a message"])
        nothing = replace(queue.status(), visible=0, in_flight=0)
        with monkeypatch.context() as patched:
            patched.setattr(SqsQueue, "status", lambda _: nothing)
            assert remove_replay_queue(config, "run-1") is False
        assert [message.body for message in queue.receive(1)] == [b"a message"]


def test_nobody_writes_to_a_queue_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """Whoever waited for the lock while the file went away is told, and holds no lock."""
    config = load_config(environment={}, flags={"queue.url": f"sqlite:///{tmp_path / 'queue.db'}"})
    url = make_replay_queue(config, "run-1")
    path = tmp_path / "queue-replay-run-1.db"
    database = SqliteDatabase(path, clock=system_clock, schema="sqlite_queue")
    with contextlib.closing(database), database.reading():
        pass
    with contextlib.closing(database):
        lock: Any = database._lock
        acquire = lock.acquire

        def acquire_late(timeout_s: float) -> None:
            assert remove_replay_queue(config, "run-1") is True
            acquire(timeout_s)

        lock.acquire = acquire_late
        with pytest.raises(DatabaseUnreachable, match="deleted"), database.transaction():
            raise AssertionError(url)
        assert lock._descriptor is None


@pytest.mark.parametrize(
    ("body", "on_sqs", "embedded"),
    [
        (b"", False, False),
        (b"text \t\r\n", True, True),
        (b"\xff", False, True),
        (b"\x0b", False, True),
        ("\ufffe".encode(), False, True),
        (b"x" * 1_048_576, True, True),
        (b"x" * 1_048_577, False, False),
    ],
    ids=["empty", "text", "no-utf8", "control", "no-character", "longest", "too-long"],
)
def test_what_a_queue_takes_is_known_before_it_is_asked(
    body: bytes, *, on_sqs: bool, embedded: bool
) -> None:
    """SQS takes 1 to 1,048,576 bytes of text, the embedded queue of anything."""
    assert (is_sendable(body, as_text=True), is_sendable(body, as_text=False)) == (on_sqs, embedded)
