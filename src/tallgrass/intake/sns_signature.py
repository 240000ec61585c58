"""SNS signatures: a message comes in only if Amazon SNS signed it for a topic that may send. Pure.

Everything that can be refused without the certificate is refused first, so that a forged message
makes nobody fetch anything: the topic, the fields, and the certificate's own address, which must
be one that AWS alone can serve. Trust in the certificate rests on that address and on HTTPS, as in
AWS's own libraries.
"""

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from tallgrass.clock import parse_instant
from tallgrass.errors import ConfigError, InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from tallgrass.intake.parse import Admission

#: The region is spelled out: `sns.s3-us-west-2.amazonaws.com` would be somebody's bucket.
_HOST = (
    r"sns\.(?:[a-z]{2}(?:-[a-z]{2,12}){1,2}-[0-9]{1,2}\.amazonaws\.com"
    r"|cn-[a-z]{2,12}-[0-9]{1,2}\.amazonaws\.com\.cn)"
)
#: What may be asked of SNS at all: no port, no user, no fragment.
SNS_ADDRESS = re.compile(rf"https://(?P<host>{_HOST})(?P<target>/[!\"$-~]{{0,2000}})")
_CERTIFICATE_ADDRESS = re.compile(
    rf"https://{_HOST}/SimpleNotificationService-[0-9a-fA-F]{{1,64}}\.pem"
)
_CONFIRMATION_ADDRESS = re.compile(
    rf"https://{_HOST}/\?Action=ConfirmSubscription"
    r"&TopicArn=(?P<topic>[A-Za-z0-9:_.-]{1,400})&Token=(?P<token>[0-9a-fA-F]{1,1000})"
)
_COMMON_NAME = "sns.amazonaws.com"
_KEY_BITS_MIN = 2048

CONFIRMATION = "SubscriptionConfirmation"
_CONFIRMED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
#: What is signed, by the type of message, in the order in which it is signed.
SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    CONFIRMATION: _CONFIRMED,
    "UnsubscribeConfirmation": _CONFIRMED,
}
#: SQS and HTTP spell it in one way, Lambda in the other.
_CERTIFICATE_FIELDS = ("SigningCertURL", "SigningCertUrl")
_VERSIONS = ("1", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningCertificate:
    """What of a certificate a signature is checked with."""

    key: "RSAPublicKey"
    valid_from: datetime
    valid_until: datetime


#: Returns the certificate at an address that was checked. It refuses what is no certificate of SNS
#: (InvalidInput), or cannot get it now (TransientError).
CertificateOf = Callable[[str], SigningCertificate]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """Which messages of a queue may come in."""

    signatures_required: bool = False
    #: ARNs; none allows all.
    topics: frozenset[str] = frozenset()


def admission(rules: AdmissionRules, certificate_of: CertificateOf) -> "Admission | None":
    """Return what judges a message by its SNS envelope, or None where everything may come in."""
    if rules.signatures_required:
        _algorithms()
    elif not rules.topics:
        return None

    def admit(envelope: Mapping[str, Any] | None) -> None:
        if rules.signatures_required and envelope is None:
            raise InvalidInput("raw delivery carries no signature", code="signature_missing")
        topic = None if envelope is None else envelope.get("TopicArn")
        if rules.topics and not (isinstance(topic, str) and topic in rules.topics):
            raise InvalidInput(
                f"the topic {str(topic)[:120]!r} is not in queue.topics", code="topic_not_allowed"
            )
        if rules.signatures_required and envelope is not None:
            require_signature(envelope, certificate_of)

    return admit


def require_signature(envelope: Mapping[str, Any], certificate_of: CertificateOf) -> None:
    """Refuse a message that SNS did not sign just so."""
    signature = envelope.get("Signature")
    if signature is None or signature == "":
        raise InvalidInput("the SNS envelope has no Signature", code="signature_missing")
    version = envelope.get("SignatureVersion")
    if version not in _VERSIONS:
        raise InvalidInput(
            f"the SignatureVersion {str(version)[:20]!r} is neither '1' nor '2'",
            code="signature_version_unsupported",
        )
    text = text_to_sign(envelope)
    decoded = _decoded(signature)
    sent_at = _sent_at(envelope["Timestamp"])
    address = certificate_address(envelope)
    certificate = certificate_of(address)
    if not certificate.valid_from <= sent_at <= certificate.valid_until:
        raise InvalidInput(
            f"the certificate {address!r} was not valid at {envelope['Timestamp']}",
            code="certificate_not_valid_then",
        )
    algorithms = _algorithms()
    try:
        certificate.key.verify(decoded, text, algorithms.padding, algorithms.hashes[str(version)])
    except algorithms.mismatch:
        raise InvalidInput(
            "the signature does not match: SNS did not send it, or somebody changed it",
            code="signature_invalid",
        ) from None


def text_to_sign(envelope: Mapping[str, Any]) -> bytes:
    """Return what SNS signs: names and values, a line each.

    Only Message may hold lines of its own: otherwise two messages could give one text.
    """
    kind = envelope.get("Type")
    names = SIGNED.get(kind) if isinstance(kind, str) else None
    if names is None:
        raise _malformed(f"messages of the type {str(kind)[:60]!r} are not signed")
    lines: list[str] = []
    for name in names:
        value = envelope.get(name)
        if value is None and name == "Subject":
            continue  # also null: so Lambda spells a message without a subject
        if not isinstance(value, str):
            raise _malformed(f"{name} is {'missing' if value is None else 'not a text'}")
        if name != "Message" and "\n" in value:
            raise _malformed(f"{name} has more than one line")
        lines += (name, value)
    return ("\n".join(lines) + "\n").encode()


def certificate_address(envelope: Mapping[str, Any]) -> str:
    """Return the address of the signing certificate; any that is not AWS's own is refused."""
    addresses = [envelope[name] for name in _CERTIFICATE_FIELDS if name in envelope]
    if len(addresses) == 1:
        (address,) = addresses
        if isinstance(address, str) and _CERTIFICATE_ADDRESS.fullmatch(address):
            return address
    told = ", ".join(repr(str(address)[:160]) for address in addresses) or "none"
    raise InvalidInput(
        f"SigningCertURL must be the one address of a certificate of SNS, not {told}",
        code="certificate_address_refused",
    )


def confirmation_address(envelope: Mapping[str, Any]) -> str:
    """Return where a subscription is confirmed; any address but that of its own topic is refused.

    It may be asked only once the envelope's signature is known to be right.
    """
    address = envelope.get("SubscribeURL")
    found = _CONFIRMATION_ADDRESS.fullmatch(address) if isinstance(address, str) else None
    said = (envelope.get("TopicArn"), envelope.get("Token"))
    if found is None or found.group("topic", "token") != said:
        raise InvalidInput(
            f"SubscribeURL does not confirm the message's own topic: {str(address)[:160]!r}",
            code="subscription_refused",
        )
    return found.string


def read_certificate(pem: bytes) -> SigningCertificate:
    """Read a certificate; one that is not of SNS, or whose key is too weak, is refused."""
    from cryptography import x509  # noqa: PLC0415 - optional extra
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415

    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key = certificate.public_key()
        names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except Exception as exc:
        # The library promises no set of errors for bytes of strangers.
        raise _unusable(f"it cannot be read ({type(exc).__name__})") from exc
    if [name.value for name in names] != [_COMMON_NAME]:
        raise _unusable(f"it is not of {_COMMON_NAME}")
    if not isinstance(key, RSAPublicKey) or key.key_size < _KEY_BITS_MIN:
        raise _unusable(f"its key is not RSA of at least {_KEY_BITS_MIN} bits")
    return SigningCertificate(
        key=key,
        valid_from=certificate.not_valid_before_utc,
        valid_until=certificate.not_valid_after_utc,
    )


def _decoded(signature: Any) -> bytes:
    if not isinstance(signature, str):
        raise _malformed("Signature is not a text")
    try:
        return binascii.a2b_base64(signature, strict_mode=True)
    except ValueError as exc:
        raise _malformed("Signature is not base64") from exc


def _sent_at(timestamp: str) -> datetime:
    try:
        return parse_instant(timestamp)
    except InvalidInput as exc:
        raise _malformed(f"Timestamp is no time: {timestamp[:40]!r}") from exc


def _malformed(problem: str) -> InvalidInput:
    return InvalidInput(problem, code="signature_malformed")


def _unusable(problem: str) -> InvalidInput:
    return InvalidInput(f"the signing certificate: {problem}", code="certificate_unusable")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Algorithms:
    """RSA with PKCS #1 v1.5; the hash is that of the signature's version."""

    padding: Any
    hashes: Mapping[str, Any]
    mismatch: type[Exception]


@cache
def _algorithms() -> _Algorithms:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - optional extra
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "queue.signatures: checking signatures needs the package cryptography; "
            "install the extra: pip install 'tallgrass[aws]'"
        ) from exc
    return _Algorithms(
        padding=padding.PKCS1v15(),
        # SHA-1 is what version 1 signs with, and NOAA's topics use it.
        hashes={"1": hashes.SHA1(), "2": hashes.SHA256()},  # noqa: S303
        mismatch=InvalidSignature,
    )
