from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tallgrass.errors import ConfigError
from tallgrass.sinks.cloud_event import cloud_event
from tallgrass.sinks.protocol import Delivered, Undelivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.sinks.signature import read_secret, signed_headers
from tallgrass.sinks.webhook import WebhookSink, open_webhook
from tests.corpora.reading import cases
from tests.sinks.receiver import EVENT, PATIENCE_S, PAYLOAD, Receiver, breaks_off, event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()
OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
ENVIRONMENT = {"NEW_SECRET": NEW, "OLD_SECRET": OLD, "TOKEN": "t0ken-canary"}

TOKEN: dict[str, Any] = {"token_env": "TOKEN"}


def open_at(url: str, **settings: Any) -> WebhookSink:
    """Open a webhook to a receiver on loopback."""
    usual: dict[str, Any] = {
        "url": url,
        "secret_env": "NEW_SECRET",
        "allow_addresses": ["127.0.0.1"],
        "timeout_s": PATIENCE_S,
    }
    return open_webhook({**usual, **settings}, SinkResources(environment=ENVIRONMENT))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with Receiver() as made:
        yield made


def send(receiver: Receiver, **settings: Any) -> Delivered | Undelivered:
    """Send one event."""
    sink = open_at(f"{receiver.url}/in?tenant=7", **settings)
    [delivery] = sink.send([EVENT])
    sink.close()
    return delivery


# --- the signature --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("webhooks.toml", "vector"), ids=lambda case: case["id"])
def test_the_specification_s_own_vector_is_signed_alike(case: dict[str, Any]) -> None:
    """Secret, id, time, body and signature: Standard Webhooks' own, and what openssl computes."""
    then = datetime.fromtimestamp(case["time"], UTC)
    body = case["body"].encode()
    assert signed_headers([read_secret(case["secret"])], case["id"], then, body) == {
        "webhook-id": case["id"],
        "webhook-timestamp": str(case["time"]),
        "webhook-signature": case["signature"],
    }


@pytest.mark.parametrize("size", [24, 32, 64])
@pytest.mark.parametrize("body", [b"{}", PAYLOAD, '{"é":"\u2028"}'.encode()])
def test_the_library_of_standard_webhooks_verifies_what_we_sign(size: int, body: bytes) -> None:
    """And refuses it when a byte is changed, or with another secret."""
    key = bytes(range(size))
    secret = "whsec_" + base64.b64encode(key).decode()
    headers = dict(signed_headers([read_secret(secret)], "id-1", datetime.now(UTC), body))
    Webhook(secret).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body, headers)


@pytest.mark.parametrize("case", cases("webhooks.toml", "forged"), ids=lambda case: case["what"])
def test_a_forged_request_is_refused_by_a_receiver(case: dict[str, Any]) -> None:
    """Everything is signed: whatever is changed, made up, or played again later."""
    body, now = b"{}", datetime.now(UTC)
    then = now + timedelta(seconds=case.get("seconds", 0))
    honest = dict(signed_headers([read_secret(NEW)], "id-1", then, body))
    changed = {**honest, **case.get("headers", {})}
    forged = {name: value for name, value in changed.items() if value}
    with pytest.raises(WebhookVerificationError):
        Webhook(case.get("secret", NEW)).verify(body + case.get("body_adds", "").encode(), forged)
    if "seconds" not in case:  # the premise: it is refused for what was changed
        Webhook(NEW).verify(body, honest)


@pytest.mark.parametrize("text", [case["text"] for case in cases("webhooks.toml", "secret")])
def test_a_secret_that_is_none_is_refused_without_being_told(text: str) -> None:
    """Neither base64 nor of 24 to 64 bytes."""
    with pytest.raises(ConfigError) as caught:
        read_secret(text)
    assert text.removeprefix("whsec_") not in str(caught.value) or not text


# --- over the wire --------------------------------------------------------------------------------


@pytest.mark.conformance("OB-2.4", "OB-4.3")
def test_a_receiver_gets_the_event_as_it_is_stored(receiver: Receiver) -> None:
    """One POST: the CloudEvent, whose data are the payload's bytes, under a valid signature."""
    assert send(receiver) == Delivered()
    [request] = receiver.requests
    assert (request.method, request.path) == ("POST", "/in?tenant=7")
    assert request.headers["content-type"] == "application/cloudevents+json; charset=UTF-8"
    assert request.body == cloud_event(EVENT)
    assert request.body.endswith(b'"data":' + PAYLOAD + b"}")
    assert request.headers["webhook-id"] == EVENT.outbox_id
    Webhook(NEW).verify(request.body, request.headers)


def test_two_secrets_sign_at_the_same_time(receiver: Receiver) -> None:
    """A receiver with the old one and a receiver with the new one both accept."""
    assert send(receiver, secret_env=["NEW_SECRET", "OLD_SECRET"]) == Delivered()
    [request] = receiver.requests
    assert len(request.headers["webhook-signature"].split()) == 2
    for secret in (NEW, OLD):
        Webhook(secret).verify(request.body, request.headers)


def test_a_secret_may_stand_in_a_file(receiver: Receiver, tmp_path: Path) -> None:
    """With the line end that editors add."""
    file = tmp_path / "secret"
    file.write_text(f"{OLD}\n", encoding="utf-8")
    assert send(receiver, secret_env=[], secret_file=str(file)) == Delivered()
    Webhook(OLD).verify(receiver.requests[0].body, receiver.requests[0].headers)


@pytest.mark.conformance("OB-4.11")
def test_a_repetition_has_the_same_id_and_key(receiver: Receiver) -> None:
    """The receiver can tell it from another event, whatever became of the first try."""
    receiver.answer = [breaks_off, (503, {}, b""), (204, {}, b"")]
    sink = open_at(receiver.url)
    outcomes = [sink.send([event(7, attempt=attempt)])[0] for attempt in (1, 2, 3)]
    sink.close()
    assert [isinstance(each, Delivered) for each in outcomes] == [False, False, True]
    ids = {request.headers["webhook-id"] for request in receiver.requests}
    keys = {json.loads(request.body)["idempotencykey"] for request in receiver.requests}
    assert (len(receiver.requests), len(ids), len(keys)) == (3, 1, 1)


def test_a_token_may_prove_the_sender_too(receiver: Receiver) -> None:
    """As a bearer token, or alone in a header of another name."""
    send(receiver, **TOKEN)
    send(receiver, **TOKEN, auth_header="X-Api-Key")
    first, second = receiver.requests
    assert first.headers["authorization"] == "Bearer t0ken-canary"
    assert second.headers["x-api-key"] == "t0ken-canary"
    assert "authorization" not in second.headers


@pytest.mark.parametrize(
    ("answer", "code", "permanent", "wait_s"),
    [
        ((429, {"Retry-After": "17"}, b""), "sink_throttled", False, 17.0),
        ((503, {}, b""), "sink_unreachable", False, None),
        ((400, {}, b"body-canary"), "sink_refused", True, None),
        ((301, {"Location": "http://127.0.0.1:1/"}, b""), "sink_misconfigured", False, None),
        (breaks_off, "sink_unreachable", False, None),
    ],
)
def test_an_answer_that_is_no_success_is_told(
    receiver: Receiver,
    answer: Any,
    code: str,
    permanent: bool,  # noqa: FBT001 - a table
    wait_s: float | None,
) -> None:
    """With its code; the message holds nothing secret and nothing of the answer."""
    receiver.answer = answer
    result = send(receiver, **TOKEN)
    assert isinstance(result, Undelivered)
    assert (result.code, result.permanent, result.retry_after_s) == (code, permanent, wait_s)
    for canary in ("canary", "tenant", NEW):
        assert canary not in result.message


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"url": None}, "url must be text"),
        ({"secret_env": []}, "must name one secret, or two"),
        ({"secret_env": ["NEW_SECRET", "OLD_SECRET", "TOKEN"]}, "must name one secret, or two"),
        ({"secret_env": "NOT_SET"}, "the variable NOT_SET, which is to hold a secret, is not set"),
        ({"secret_env": "TOKEN"}, "a secret is whsec_ and base64"),
        ({"secret_file": "no-such-file"}, "cannot read the secret file no-such-file"),
        ({"timeout_s": 31}, "timeout_s must be between 0.1 and 30, not 31"),
        ({"timeout_s": True}, "timeout_s must be between"),
        ({"ca_file": "no-such-file"}, "ca_file"),
        ({"timout_s": 3}, "unknown setting 'timout_s'; did you mean 'timeout_s'?"),
        ({"token_env": "TOKEN", "auth_header": "X:Y"}, "'X:Y' is not the name of a header"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    """Each with its name; no secret is told."""
    usual = {"url": "https://example.com/"}
    if settings.get("url", "") is None:
        usual, settings = {}, {"url": 7}
    with pytest.raises(ConfigError) as caught:
        open_at(**{**usual, **settings}).close()
    assert text in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_send_is_over_before_the_lease() -> None:
    """The longest time limit is half of the lease, whatever a target asks for."""
    resources = SinkResources(environment=ENVIRONMENT, lease_s=4.0)
    settings = {"url": "https://example.com/", "secret_env": "NEW_SECRET"}
    with pytest.raises(ConfigError, match=r"timeout_s must be between 0\.1 and 2, not 3"):
        open_webhook({**settings, "timeout_s": 3}, resources)
    sink = open_webhook(settings, resources)
    assert sink._client.timeout_s == 2.0
    sink.close()
