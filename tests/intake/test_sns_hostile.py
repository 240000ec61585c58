"""The corpus of forged SNS messages: each is refused under its code, and nobody is asked."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tallgrass.error_codes import lookup
from tallgrass.intake.sns_signature import AdmissionRules
from tallgrass.queues.door import build_door
from tallgrass.queues.sns_https import SnsHttps
from tests.intake.notifications import parsed
from tests.intake.sns_corpus import hostile_messages
from tests.support.sns import TOPIC

HOSTILE = hostile_messages()


def test_the_hostile_corpus_is_large_and_knows_its_codes() -> None:
    """At least forty cases, each with a name of its own and a code of the registry."""
    assert len(HOSTILE) >= 40
    assert len({name for name, _, _ in HOSTILE}) == len(HOSTILE)
    assert {lookup(code).code for _, _, code in HOSTILE} >= {
        "topic_not_allowed",
        "signature_missing",
        "signature_version_unsupported",
        "signature_malformed",
        "certificate_address_refused",
        "subscription_refused",
    }


@pytest.mark.parametrize(
    ("body", "code"), [pytest.param(body, code, id=name) for name, body, code in HOSTILE]
)
def test_a_hostile_message_is_refused_and_nobody_is_asked(
    body: bytes, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything switched on: poison under the right code, and no connection anywhere."""
    connections: list[Any] = []

    def connect(*arguments: Any) -> socket.socket:
        connections.append(arguments)
        raise ConnectionRefusedError("the tests connect nowhere")

    monkeypatch.setattr(socket, "getaddrinfo", connect)
    monkeypatch.setattr(socket.socket, "connect", connect)
    door = build_door(
        AdmissionRules(signatures_required=True, topics=frozenset({TOPIC})),
        SnsHttps(connect=connect),
        confirms=True,
        monotonic=lambda: 0.0,
        say=lambda _error: None,
    )
    found = parsed(body, admit=door.admit)
    if found.poison is not None and found.poison.code == "subscription_unconfirmed":
        assert door.confirm is not None
        found = door.confirm(body) or found
    assert (found.units, found.ignored, found.deferred) == ((), (), None)
    assert found.poison is not None
    assert (found.poison.code, found.poison.message.isprintable()) == (code, True), found.poison
    assert connections == []
