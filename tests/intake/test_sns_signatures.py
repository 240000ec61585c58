"""Signatures of SNS: what SNS signed comes in, anything else does not."""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallgrass.error_codes import lookup
from tallgrass.errors import CertificateUnreachable, ConfigError, InvalidInput
from tallgrass.intake import sns_signature
from tallgrass.intake.sns_signature import (
    AdmissionRules,
    admission,
    confirmation_address,
    read_certificate,
    require_signature,
)
from tests.datasets.noaa_data import noaa_data
from tests.intake.notifications import event, parsed, record
from tests.support.sns import (
    ADDRESS,
    ENVELOPE,
    PATH,
    TOPIC,
    CertificateShelf,
    body_of,
    pem_of,
    rsa_key,
    signature,
    signed,
    signed_confirmation,
    string_to_sign,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.intake.sns_signature import SigningCertificate


REAL = (
    "notification-v1.json",
    "notification-v1-2026.json",
    "notification-v2.json",
    "notification-v2-subject.json",
    "subscription-confirmation-v1-2026.json",
)
REAL_CERTIFICATES = (
    "SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem",
    "SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
)
NOTIFIED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
CONFIRMED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
REQUIRED = AdmissionRules(signatures_required=True)
#: What JSON can hold: no lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=40)


def real(name: str) -> dict[str, Any]:
    """Return a message that SNS signed."""
    envelope: dict[str, Any] = json.loads(noaa_data("messages", "sns-signing", name).read_bytes())
    return envelope


def real_shelf() -> CertificateShelf:
    """Return the certificates of SNS that signed them."""
    shelf = CertificateShelf()
    for name in REAL_CERTIFICATES:
        shelf.pems[name] = noaa_data("messages", "sns-signing", name).read_bytes()
    return shelf


def refusal(envelope: dict[str, Any], certificate_of: Any = None) -> str | None:
    """Return the code under which an envelope is refused, None if it is taken."""
    try:
        require_signature(envelope, certificate_of or CertificateShelf())
    except InvalidInput as exc:
        return exc.code
    return None


def admitted(envelope: dict[str, Any] | None, rules: AdmissionRules) -> str | None:
    """Return the code under which an admission refuses an envelope, None if it is taken."""
    admit = admission(rules, CertificateShelf())
    assert admit is not None
    try:
        admit(envelope)
    except InvalidInput as exc:
        return exc.code
    return None


# --- messages that SNS signed ---------------------------------------------------------------------


@pytest.mark.parametrize("name", REAL)
def test_what_sns_signed_is_taken(name: str) -> None:
    """Real messages of both versions, with and without a subject, and a confirmation."""
    assert refusal(real(name), real_shelf()) is None


@pytest.mark.parametrize("name", REAL)
def test_a_real_message_with_any_signed_field_changed_is_refused(name: str) -> None:
    """Every field that is signed counts, to the last character; the others do not."""
    envelope = real(name)
    shelf = real_shelf()
    fields = NOTIFIED if envelope["Type"] == "Notification" else CONFIRMED
    for field in fields:
        if field not in envelope:
            continue
        text = envelope[field]
        for other in (text + "x", text[1:], "X" + text[1:], ""):
            assert refusal({**envelope, field: other}, shelf) in {
                "signature_invalid",
                "signature_malformed",
            }, (field, other)
        gone = {name: value for name, value in envelope.items() if name != field}
        assert refusal(gone, shelf) in {"signature_invalid", "signature_malformed"}, field
    assert refusal({**envelope, "UnsubscribeURL": "https://elsewhere.example/"}, shelf) is None


@pytest.mark.parametrize("name", ["notification-v1.json", "notification-v2.json"])
def test_a_subject_that_was_not_signed_is_refused(name: str) -> None:
    """A message without a subject cannot be given one, nor can the version be changed."""
    envelope = real(name)
    shelf = real_shelf()
    other = {"1": "2", "2": "1"}[envelope["SignatureVersion"]]
    assert refusal({**envelope, "Subject": "Amazon S3 Notification"}, shelf) == "signature_invalid"
    assert refusal({**envelope, "SignatureVersion": other}, shelf) == "signature_invalid"
    assert refusal({**envelope, "Subject": None}, shelf) is None


def test_the_message_whose_key_was_edited_is_refused() -> None:
    """A real NODD notification whose authors changed its object's key, in Lambda's spelling."""
    name = "lambda-sns-event__gfs__2021-11-29__key-edited.json"
    envelope = json.loads(noaa_data("messages", name).read_bytes())["Records"][0]["Sns"]
    assert "SigningCertURL" not in envelope
    assert refusal(envelope, real_shelf()) == "signature_invalid"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("sns-envelope-lambda-style__gfs__2023-01-22__key-probably-edited.json", None),
        ("sqs-body__goes17-L1b-RadM2__2019-08-06.txt", None),
        ("sqs-body__nexrad-l2-archive__2015-12-28.json", None),
        ("sqs-body__nexrad-l2-chunk-OLD-S3-event-topic__2015-12-28.json", None),
        (
            "sqs-body__nexrad-l2-chunk-filterable__2026-10-09__signature-elided.json",
            "signature_malformed",
        ),
        ("SYNTHETIC__sns-envelope-s3-TestEvent.json", None),
    ],
)
def test_a_message_does_not_pass_by_another_certificate(name: str, code: str | None) -> None:
    """Captures whose certificate is gone pass by no other, even one that was valid then."""
    envelope = json.loads(noaa_data("messages", name).read_bytes())
    shelf = real_shelf()
    for certificate in REAL_CERTIFICATES:
        wrong = replace(
            shelf(f"https://sns.us-east-1.amazonaws.com/{certificate}"),
            valid_from=datetime(2000, 1, 1, tzinfo=UTC),
            valid_until=datetime(2030, 1, 1, tzinfo=UTC),
        )
        assert refusal(envelope, lambda _, wrong=wrong: wrong) == (code or "signature_invalid")
    if code is None:
        assert refusal(envelope, shelf) == "certificate_unusable"


# --- messages signed with a key of ours -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    message=TEXTS, message_id=LINES, subject=st.none() | LINES, version=st.sampled_from(["1", "2"])
)
def test_whatever_is_signed_rightly_is_taken(
    message: str, message_id: str, subject: str | None, version: str
) -> None:
    """Any text may stand in a message, with or without a subject, in both versions."""
    envelope = signed(
        Message=message,
        MessageId=message_id,
        Subject=... if subject is None else subject,
        SignatureVersion=version,
    )
    # As it comes from the queue: through JSON, and in either spelling.
    assert refusal(json.loads(body_of(envelope))) is None
    address = envelope.pop("SigningCertURL")
    assert refusal({**envelope, "SigningCertUrl": address}) is None


@settings(max_examples=150, deadline=None)
@given(data=st.data(), confirmation=st.booleans(), version=st.sampled_from(["1", "2"]))
def test_any_change_of_a_signed_field_is_refused(
    data: st.DataObject,
    confirmation: bool,  # noqa: FBT001 - drawn
    version: str,
) -> None:
    """However a signed field is changed, the message is refused."""
    make: Callable[..., dict[str, Any]] = signed_confirmation if confirmation else signed
    envelope = make(SignatureVersion=version)
    field = data.draw(st.sampled_from(CONFIRMED if confirmation else NOTIFIED))
    text = envelope[field]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    changed = text[:start] + data.draw(TEXTS) + text[end:]
    assume(changed != text)
    assert refusal({**envelope, field: changed}) in {"signature_invalid", "signature_malformed"}


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 255), bit=st.integers(0, 7))
def test_any_change_of_the_signature_is_refused(position: int, bit: int) -> None:
    """A signature with one bit changed does not match."""
    envelope = signed()
    decoded = bytearray(base64.b64decode(envelope["Signature"]))
    decoded[position] ^= 1 << bit
    changed = base64.b64encode(decoded).decode()
    assert refusal({**envelope, "Signature": changed}) == "signature_invalid"


def test_fields_cannot_be_moved_into_their_neighbours() -> None:
    """Two messages never give the same text: only Message may hold lines of its own."""
    envelope = signed(Subject="Amazon S3 Notification")
    moved = {**envelope, "MessageId": f"{envelope['MessageId']}\nSubject\n{envelope['Subject']}"}
    del moved["Subject"]
    assert string_to_sign(moved) == string_to_sign(envelope)
    assert refusal(moved) == "signature_malformed"
    evil = signed(Message=f"A\nMessageId\n1\nTimestamp\n2\nTopicArn\n{TOPIC}\nType\nNotification")
    split = {**evil, "Message": "A", "MessageId": evil["Message"][len("A\nMessageId\n") :]}
    assert refusal(split) == "signature_malformed"


@settings(max_examples=150, deadline=None)
@given(
    changes=st.dictionaries(
        st.sampled_from([*CONFIRMED, "Subject", "Signature", "SignatureVersion", "SigningCertUrl"]),
        st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS, max_size=2),
        min_size=1,
        max_size=4,
    ),
    confirmation=st.booleans(),
)
def test_no_envelope_breaks_the_check(
    changes: dict[str, Any],
    confirmation: bool,  # noqa: FBT001 - drawn
) -> None:
    """Whatever stands in the fields, only the message that was signed is taken.

    A null subject is as good as none, and fields of the other type of message are not signed.
    """
    envelope = signed_confirmation() if confirmation else signed(Subject=...)
    unsigned = {"Subject"} if confirmation else {"Token", "SubscribeURL"}
    same = all(
        name in unsigned or (name != "SigningCertUrl" and envelope.get(name) == value)
        for name, value in changes.items()
    )
    assert (refusal({**envelope, **changes}) is None) == same


@pytest.mark.parametrize("key", ["another", "signer-of-1024-bits"])
def test_a_signature_by_another_key_is_refused(key: str) -> None:
    """Whoever holds another key signs in vain."""
    bits = 1024 if "1024" in key else 2048
    assert refusal(signed(rsa_key(key, bits))) == "signature_invalid"


@pytest.mark.parametrize("kind", ["Notification", "SubscriptionConfirmation", "Other"])
def test_the_type_decides_what_is_signed(kind: str) -> None:
    """A notification that is turned into another type is refused."""
    expected = None if kind == "Notification" else "signature_malformed"
    assert refusal({**signed(), "Type": kind}) == expected


# --- the certificate ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "code"),
    [
        ("2024-12-31T23:59:59.999Z", "certificate_not_valid_then"),
        ("2025-01-01T00:00:00.000Z", None),
        ("2027-01-01T00:00:00.000Z", None),
        ("2027-01-01T00:00:00.001Z", "certificate_not_valid_then"),
    ],
)
def test_a_certificate_must_have_been_valid_when_the_message_was_sent(
    timestamp: str, code: str | None
) -> None:
    """The message's own time counts, to the border of the validity."""
    assert refusal(signed(Timestamp=timestamp)) == code


def test_a_certificate_that_has_expired_since_still_counts() -> None:
    """A message that waited for years is as good as on its first day."""
    valid = (datetime(2015, 1, 1, tzinfo=UTC), datetime(2016, 1, 1, tzinfo=UTC))
    shelf = CertificateShelf(**{PATH[1:]: pem_of(valid=valid)})
    assert valid[1] < datetime.now(UTC)
    assert refusal(signed(Timestamp="2015-12-28T21:03:33.603Z"), shelf) is None
    assert refusal(signed(), shelf) == "certificate_not_valid_then"


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>not found</html>", id="no PEM"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", id="no X.509"
        ),
        pytest.param(pem_of("sns.amazonaws.com.evil.example"), id="another name"),
        pytest.param(pem_of("SNS.amazonaws.com"), id="a name in capitals"),
        pytest.param(pem_of(key=rsa_key("weak", 1024)), id="a weak key"),
        pytest.param(pem_of(key=ec.generate_private_key(ec.SECP256R1())), id="another kind of key"),
    ],
)
def test_what_is_no_certificate_of_sns_is_refused(pem: bytes) -> None:
    """Only an RSA certificate in the name of SNS is used, wherever it was found."""
    with pytest.raises(InvalidInput) as caught:
        read_certificate(pem)
    assert caught.value.code == "certificate_unusable"
    assert refusal(signed(), CertificateShelf(**{PATH[1:]: pem})) == "certificate_unusable"


@pytest.mark.parametrize(
    "address",
    [
        ADDRESS,
        ADDRESS.replace("us-east-1", "us-gov-west-1"),
        ADDRESS.replace("us-east-1", "ap-southeast-4"),
        ADDRESS.replace("us-east-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"),
    ],
)
def test_certificates_of_all_regions_are_asked_for(address: str) -> None:
    """The address is given on as it stands in the message."""
    shelf = CertificateShelf()
    assert refusal(signed(SigningCertURL=address), shelf) is None
    assert shelf.asked == [address]


# --- who may come in ------------------------------------------------------------------------------


def test_without_rules_nothing_is_judged() -> None:
    """The default asks for nothing and costs nothing."""
    assert admission(AdmissionRules(), CertificateShelf()) is None


@pytest.mark.parametrize("signatures", [False, True])
def test_only_listed_topics_come_in(signatures: bool) -> None:  # noqa: FBT001
    """The list holds with and without signatures; what names no topic is not on it."""
    rules = AdmissionRules(signatures_required=signatures, topics=frozenset({TOPIC, "another"}))
    assert admitted(signed(), rules) is None
    assert admitted(signed(TopicArn=TOPIC + "x"), rules) == "topic_not_allowed"
    assert admitted(None, rules) == ("signature_missing" if signatures else "topic_not_allowed")


def test_raw_delivery_is_refused_where_signatures_are_required() -> None:
    """A message without an envelope has no signature: it says so, with a code of its own."""
    assert admitted(None, REQUIRED) == "signature_missing"
    assert "aw message delivery" in lookup("signature_missing").remedy


def test_the_topic_is_judged_before_anybody_is_asked() -> None:
    """A message of another topic makes nobody look for its certificate."""
    shelf = CertificateShelf()
    rules = AdmissionRules(signatures_required=True, topics=frozenset({TOPIC}))
    admit = admission(rules, shelf)
    assert admit is not None
    with pytest.raises(InvalidInput):
        admit(signed(TopicArn=TOPIC + "x"))
    assert shelf.asked == []
    admit(signed())
    assert shelf.asked == [ADDRESS]


def test_a_signed_message_gives_its_units() -> None:
    """Signed and unchanged: its unit is made. One character changed: poison, no unit."""
    admit = admission(REQUIRED, CertificateShelf())
    envelope = signed(Message=event(record()))
    found = parsed(body_of(envelope), admit=admit)
    assert (len(found.units), found.poison, found.deferred) == (1, None, None)
    forged = {**envelope, "Message": envelope["Message"].replace("176998", "176999")}
    assert forged != envelope
    found = parsed(body_of(forged), admit=admit)
    assert found.units == ()
    assert found.poison is not None
    assert found.poison.code == "signature_invalid"


def test_a_certificate_that_cannot_be_had_defers_the_message() -> None:
    """Nothing is known of the message then, so it is neither taken nor refused."""

    def unreachable(address: str) -> SigningCertificate:
        raise CertificateUnreachable(address)

    found = parsed(body_of(signed(Message=event(record()))), admit=admission(REQUIRED, unreachable))
    assert (found.units, found.ignored, found.poison) == ((), (), None)
    assert found.deferred is not None
    assert found.deferred.code == "certificate_unreachable"


def test_without_the_library_the_configuration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever requires signatures is told at once what to install; no message is called poison."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    sns_signature._algorithms.cache_clear()
    with pytest.raises(ConfigError, match=r"tallgrass\[aws\]"):
        admission(REQUIRED, CertificateShelf())
    monkeypatch.undo()
    assert admission(REQUIRED, CertificateShelf()) is not None


# --- confirmations --------------------------------------------------------------------------------


def test_the_address_of_a_real_confirmation_is_taken() -> None:
    """The address that SNS wrote confirms the topic of its message."""
    envelope = real("subscription-confirmation-v1-2026.json")
    assert confirmation_address(envelope) == envelope["SubscribeURL"]


@pytest.mark.parametrize(
    "change", [{"TopicArn": TOPIC + "x"}, {"Token": "00"}, {"SubscribeURL": ADDRESS}]
)
def test_an_address_that_confirms_something_else_is_refused(change: dict[str, str]) -> None:
    """Address, topic and token belong together."""
    with pytest.raises(InvalidInput) as caught:
        confirmation_address({**signed_confirmation(), **change})
    assert caught.value.code == "subscription_refused"


def test_the_corpus_is_refused_for_its_faults_alone() -> None:
    """What the hostile corpus changes would pass if SNS had signed it as it is."""
    text = string_to_sign(ENVELOPE)
    assert refusal({**ENVELOPE, "Signature": signature(text, "1", rsa_key("signer"))}) is None
    assert refusal({**ENVELOPE, "Signature": "RVhBTVBMRQ=="}) == "signature_invalid"
