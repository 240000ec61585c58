"""A queue that requires signatures, from end to end: real queue, real TLS, real ledger."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.door import open_door
from tallgrass.errors import ConfigError
from tallgrass.ingest_loop import Until
from tallgrass.queues.acknowledgement import deferral_s
from tallgrass.telemetry import names
from tests.intake.sns_corpus import hostile_messages
from tests.pipeline.scene import Pipeline, Thing, message_of, thing
from tests.support.recording import MemoryRecorder
from tests.support.sns import (
    HOST,
    PATH,
    TOPIC,
    SnsServer,
    body_of,
    pem_of,
    signed,
    signed_confirmation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.backends import Backend

CONFIRMATION = signed_confirmation()
CONFIRM_PATH = CONFIRMATION["SubscribeURL"].removeprefix(f"https://{HOST}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SnsServer]:
    """A server that has the certificate and takes confirmations."""
    answers: dict[str, Any] = {
        PATH: (200, {}, pem_of()),
        CONFIRM_PATH: (200, {}, b"<ConfirmSubscriptionResponse/>"),
    }
    made = SnsServer(answers, tmp_path)
    made.start()
    yield made
    made.stop()


class Guarded:
    """A pipeline whose worker judges messages at its door."""

    def __init__(self, backend: Backend, folder: Path, server: SnsServer, **changes: Any) -> None:
        self.pipeline = Pipeline(backend, folder)
        values = {"queue.signatures": "required", "queue.topics": TOPIC, **changes}
        config = self.pipeline.config
        self.pipeline.config = replace(config, values={**config.values, **values})
        self.recorder = MemoryRecorder()
        self.now = 0.0
        door = open_door(
            self.pipeline.config, self.recorder, ask=server.ask(), monotonic=lambda: self.now
        )
        self.pipeline.new_worker("guard", door=door, recorder=self.recorder)

    def wait(self, seconds: float) -> None:
        """Let time pass for the queue and the certificates."""
        self.now += seconds
        self.pipeline.clock.advance(seconds)

    def poison(self) -> list[tuple[str, bytes]]:
        """Return code and body of each stored message, as the table holds them."""
        rows = self.pipeline.backend.rows("SELECT * FROM poison_messages ORDER BY poison_id")
        return [(row["error_code"], bytes(row["body"])) for row in rows]

    def events(self, name: str) -> list[Any]:
        """Return what the log says under a name."""
        return [fields for event, fields in self.recorder.events if event == name]


def announced(given: Thing, **changes: Any) -> dict[str, Any]:
    """Return a signed envelope that announces an object."""
    message = json.loads(message_of(given.event()))["Message"]
    return signed(Message=message, **changes)


def test_signed_messages_are_taken_and_forged_ones_stored(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """Of two messages the forged one is poison with its code; its neighbour is not harmed."""
    guarded = Guarded(backend, tmp_path, server)
    pipeline = guarded.pipeline
    good, bad = thing(0), thing(1)
    pipeline.put(good, bad)
    forged = {**announced(good), "Message": announced(bad)["Message"]}
    raw = json.loads(message_of(bad.event()))["Message"].encode()
    pipeline.queue.send([body_of(announced(good)), body_of(forged), raw])
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 1}
    assert pipeline.row(good)["status"] == "succeeded"
    assert guarded.poison() == [
        ("signature_invalid", body_of(forged)),
        ("signature_missing", raw),
    ]
    assert pipeline.left() == (0, 0, 0)
    assert server.requests == [(HOST, PATH)]
    assert guarded.recorder.by_labels(names.PARSE_FAILURES) == {
        ("signature_invalid",): 1,
        ("signature_missing",): 1,
    }


def test_a_message_waits_until_its_certificate_can_be_had(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """While SNS does not answer the message stays, later each time; then it is taken."""
    guarded = Guarded(backend, tmp_path, server)
    pipeline = guarded.pipeline
    given = thing(0)
    pipeline.put(given)
    pipeline.queue.send([body_of(announced(given))])
    server.stop()
    for wait_s in (15.0, 60.0, 240.0):
        batch = pipeline.worker.run_messages()
        assert (len(batch.messages), batch.kept, batch.deleted) == (1, 1, 0)
        guarded.wait(wait_s - 1)
        assert pipeline.worker.run_messages().is_empty
        guarded.wait(1)
    assert pipeline.statuses() == {}
    assert guarded.poison() == []
    server.start()
    batch = pipeline.worker.run_messages()
    assert (len(batch.claims), batch.deleted) == (1, 1)
    assert pipeline.statuses() == {"succeeded": 1}
    assert pipeline.left() == (0, 0, 0)
    (told,) = guarded.events(names.STORE_WAITED_FOR)
    assert told["error_code"] == "certificate_unreachable"
    assert guarded.recorder.by_labels(names.MESSAGES_DEFERRED) == {("certificate_unreachable",): 3}


def test_five_deliveries_outlast_twenty_minutes() -> None:
    """The waits between the deliveries of a message that cannot be judged, and their bound."""
    waits = [deferral_s(count) for count in range(1, 6)]
    assert waits == [15.0, 60.0, 240.0, 900.0, 900.0]
    assert sum(waits[:4]) >= 20 * 60
    assert deferral_s(10_000) == 900.0


def test_the_hostile_corpus_reaches_the_poison_store_and_nobody_else(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """Every hostile message is stored with its code and leaves the queue; no connection is made."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    hostile = hostile_messages()
    guarded.pipeline.queue.send([body for _, body, _ in hostile])
    guarded.pipeline.drain()
    found = {body: code for code, body in guarded.poison()}
    assert found == {body: code for _, body, code in hostile}
    assert guarded.pipeline.left() == (0, 0, 0)
    assert server.connects == []


def test_other_topics_are_refused_without_signatures_too(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """The list of topics alone needs no certificate."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.signatures": "off"})
    pipeline = guarded.pipeline
    listed, other = thing(0), thing(1)
    pipeline.put(listed, other)
    stranger = body_of(announced(other, TopicArn=TOPIC + "2"))
    pipeline.queue.send([message_of(listed.event()), stranger])
    pipeline.drain()
    assert pipeline.statuses() == {"succeeded": 1}
    assert guarded.poison() == [("topic_not_allowed", stranger)]
    assert server.connects == []


# --- subscriptions --------------------------------------------------------------------------------


def test_a_subscription_is_not_confirmed_unless_that_is_asked_for(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """By default even a signed confirmation is kept for a person, with its address."""
    guarded = Guarded(backend, tmp_path, server)
    guarded.pipeline.queue.send([body_of(CONFIRMATION)])
    guarded.pipeline.drain()
    ((code, body),) = guarded.poison()
    assert code == "subscription_unconfirmed"
    assert json.loads(body)["SubscribeURL"] == CONFIRMATION["SubscribeURL"]
    assert server.connects == []


def test_a_signed_subscription_of_a_listed_topic_is_confirmed(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """One question at its own address; then the message goes and is counted."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    guarded.pipeline.queue.send([body_of(CONFIRMATION)])
    batch = guarded.pipeline.worker.run_messages()
    assert batch.deleted == 1
    assert server.requests == [(HOST, PATH), (HOST, CONFIRM_PATH)]
    assert guarded.poison() == []
    assert guarded.recorder.by_labels(names.RECORDS_IGNORED) == {("subscription_confirmed",): 1}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Message": "forged"}, "signature_invalid"),
        ({"Timestamp": "2030-01-01T00:00:00.000Z"}, "certificate_not_valid_then"),
    ],
)
def test_a_forged_subscription_is_not_confirmed(
    backend: Backend, tmp_path: Path, server: SnsServer, change: dict[str, str], code: str
) -> None:
    """Without a right signature its address is never asked."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    guarded.pipeline.queue.send([body_of({**CONFIRMATION, **change})])
    guarded.pipeline.drain()
    assert [found for found, _ in guarded.poison()] == [code]
    assert server.requests == [(HOST, PATH)]


@pytest.mark.parametrize(
    ("status", "deferred"), [(500, True), (429, True), (302, True), (400, False), (403, False)]
)
def test_a_confirmation_that_fails(
    backend: Backend,
    tmp_path: Path,
    server: SnsServer,
    status: int,
    deferred: bool,  # noqa: FBT001
) -> None:
    """What may pass keeps the message in the queue; a token that SNS refuses makes it poison."""
    server.answers[CONFIRM_PATH] = (status, {"Location": f"https://{HOST}/elsewhere"}, b"")
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    guarded.pipeline.queue.send([body_of(CONFIRMATION)])
    batch = guarded.pipeline.worker.run_messages()
    assert (batch.kept, batch.deleted) == ((1, 0) if deferred else (0, 1))
    assert [code for code, _ in guarded.poison()] == ([] if deferred else ["subscription_refused"])
    assert server.requests[1:] == [(HOST, CONFIRM_PATH)]
    if deferred:
        server.answers[CONFIRM_PATH] = (200, {}, b"")
        guarded.wait(15)
        assert guarded.pipeline.worker.run_messages().deleted == 1
        assert guarded.poison() == []


@pytest.mark.parametrize("down_from", ["the start", "the certificate on"])
def test_a_confirmation_waits_while_nobody_answers(
    backend: Backend, tmp_path: Path, server: SnsServer, down_from: str
) -> None:
    """A server that is down keeps the message, whether before or after the certificate came."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    code = "certificate_unreachable"
    if down_from == "the certificate on":
        guarded.pipeline.queue.send([body_of({**CONFIRMATION, "Message": "forged"})])
        guarded.pipeline.drain()
        code = "subscription_unanswered"
    server.stop()
    guarded.pipeline.queue.send([body_of(CONFIRMATION)])
    assert guarded.pipeline.worker.run_messages().kept == 1
    assert guarded.recorder.by_labels(names.MESSAGES_DEFERRED) == {(code,): 1}
    server.start()
    guarded.wait(15)
    assert guarded.pipeline.worker.run_messages().deleted == 1


def test_a_confirmation_among_other_messages_does_not_swallow_them(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """In a body of several envelopes it is kept for a person; the units beside it are made."""
    guarded = Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True})
    given = thing(0)
    guarded.pipeline.put(given)
    records = [{"Sns": CONFIRMATION}, {"Sns": announced(given)}]
    guarded.pipeline.queue.send([body_of({"Records": records})])
    guarded.pipeline.drain()
    assert guarded.pipeline.statuses() == {"succeeded": 1}
    assert [code for code, _ in guarded.poison()] == ["subscription_unconfirmed"]
    assert server.requests == [(HOST, PATH)]


@pytest.mark.parametrize("missing", [{"queue.signatures": "off"}, {"queue.topics": ""}])
def test_confirming_needs_signatures_and_topics(
    backend: Backend, tmp_path: Path, server: SnsServer, missing: dict[str, str]
) -> None:
    """A configuration by which anybody could subscribe the queue is refused."""
    with pytest.raises(ConfigError, match=r"queue\.signatures.*queue\.topics"):
        Guarded(backend, tmp_path, server, **{"queue.confirm_subscriptions": True, **missing})


def test_a_loop_with_messages_that_wait_comes_to_its_end(
    backend: Backend, tmp_path: Path, server: SnsServer
) -> None:
    """A drain ends while a message waits for its certificate; it does not turn in circles."""
    guarded = Guarded(backend, tmp_path, server)
    server.stop()
    guarded.pipeline.queue.send([body_of(announced(thing(0)))])
    report = guarded.pipeline.loop(monotonic=time.monotonic).run(Until.DRAINED)
    assert (report.messages, report.poison, report.deferred) == (1, 0, 1)
    assert guarded.pipeline.left() == (0, 1, 0)
