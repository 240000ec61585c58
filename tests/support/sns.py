"""SNS as tests need it: keys and certificates of our own, messages signed with them, and a server.

The text that is signed is put together here by hand, from AWS's description, not by the package.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tallgrass.errors import InvalidInput
from tallgrass.intake.sns_signature import read_certificate
from tallgrass.queues.sns_https import SnsHttps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

    from tallgrass.intake.sns_signature import SigningCertificate

HOST = "sns.us-east-1.amazonaws.com"
PATH = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
ADDRESS = f"https://{HOST}{PATH}"
TOPIC = "arn:aws:sns:us-east-1:123901341784:NewGOES19Object"
TOKEN = "2336412f37fb687f5d51e6e2425929f52e8e353134fe72d5"  # noqa: S105 - no secret
VALID_FROM = datetime(2025, 1, 1, tzinfo=UTC)
VALID_UNTIL = datetime(2027, 1, 1, tzinfo=UTC)
ENVELOPE: dict[str, Any] = {
    "Type": "Notification",
    "MessageId": "191c04d9-d428-5417-b457-511b08af29c6",
    "TopicArn": TOPIC,
    "Subject": "Amazon S3 Notification",
    "Message": '{"Records":[]}',
    "Timestamp": "2025-04-07T13:00:47.250Z",
    "SignatureVersion": "1",
    "SigningCertURL": ADDRESS,
    "UnsubscribeURL": f"https://{HOST}/?Action=Unsubscribe",
}


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return a key, the same for the same name: making one takes a while."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


def certificate(
    common_name: str,
    key: CertificateIssuerPrivateKeyTypes,
    *,
    issuer: x509.Certificate | None = None,
    issuer_key: CertificateIssuerPrivateKeyTypes | None = None,
    valid: tuple[datetime, datetime] = (VALID_FROM, VALID_UNTIL),
    dns: tuple[str, ...] = (),
) -> x509.Certificate:
    """Return a certificate; without an issuer it signs itself and is an authority."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if dns:
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256())


def pem_of(common_name: str = "sns.amazonaws.com", key: Any = None, **changes: Any) -> bytes:
    """Return a certificate of ours as SNS serves its own."""
    made = certificate(common_name, key or rsa_key("signer"), **changes)
    return made.public_bytes(serialization.Encoding.PEM)


def string_to_sign(envelope: dict[str, Any]) -> str:
    """Return the text as AWS describes it."""
    if envelope["Type"] == "Notification":
        subject = envelope.get("Subject")
        return (
            f"Message\n{envelope['Message']}\nMessageId\n{envelope['MessageId']}\n"
            + ("" if subject is None else f"Subject\n{subject}\n")
            + f"Timestamp\n{envelope['Timestamp']}\nTopicArn\n{envelope['TopicArn']}\n"
            f"Type\n{envelope['Type']}\n"
        )
    return (
        f"Message\n{envelope['Message']}\nMessageId\n{envelope['MessageId']}\n"
        f"SubscribeURL\n{envelope['SubscribeURL']}\nTimestamp\n{envelope['Timestamp']}\n"
        f"Token\n{envelope['Token']}\nTopicArn\n{envelope['TopicArn']}\nType\n{envelope['Type']}\n"
    )


def signature(text: str, version: str, key: rsa.RSAPrivateKey) -> str:
    """Sign a text as SNS does."""
    algorithm = hashes.SHA256() if version == "2" else hashes.SHA1()  # noqa: S303 - version 1
    return base64.b64encode(key.sign(text.encode(), padding.PKCS1v15(), algorithm)).decode()


def signed(key: rsa.RSAPrivateKey | None = None, **changes: Any) -> dict[str, Any]:
    """Return a signed envelope; a change to `...` leaves a field out."""
    values = {**ENVELOPE, **changes}
    envelope = {name: value for name, value in values.items() if value is not ...}
    text = string_to_sign(envelope)
    version = envelope["SignatureVersion"]
    return {**envelope, "Signature": signature(text, version, key or rsa_key("signer"))}


def signed_confirmation(**changes: Any) -> dict[str, Any]:
    """Return a signed message that asks for a confirmation."""
    topic, token = changes.get("TopicArn", TOPIC), changes.get("Token", TOKEN)
    address = f"https://{HOST}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
    values: dict[str, Any] = {
        "Type": "SubscriptionConfirmation",
        "Subject": ...,
        "UnsubscribeURL": ...,
        "Message": f"You have chosen to subscribe to the topic {topic}.\nVisit the SubscribeURL.",
        "Token": token,
        "SubscribeURL": address,
        **changes,
    }
    return signed(**values)


def body_of(envelope: dict[str, Any]) -> bytes:
    """Return an envelope as SNS writes it."""
    return json.dumps(envelope, indent=2).encode()


class CertificateShelf:
    """Certificates by address, without any network; counts who asks."""

    def __init__(self, **by_name: bytes) -> None:
        #: The last part of the address → PEM.
        self.pems: dict[str, bytes] = {PATH[1:]: pem_of(), **by_name}
        self.asked: list[str] = []

    def __call__(self, address: str) -> SigningCertificate:
        """Return the certificate."""
        self.asked.append(address)
        pem = self.pems.get(address.rpartition("/")[2])
        if pem is None:
            raise InvalidInput(f"{address}: there is none", code="certificate_unusable")
        return read_certificate(pem)


@dataclass
class SnsServer:
    """A real HTTPS server on the loopback that answers as hosts of SNS, by an authority of ours."""

    #: Path → (status, headers, body); a callable writes what it likes.
    answers: dict[str, Any]
    folder: Path
    names: tuple[str, ...] = (HOST,)
    requests: list[tuple[str, str]] = field(default_factory=list)
    #: What somebody wanted to connect to.
    connects: list[tuple[str, int]] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen on a port of its own."""
        handler = type("Handler", (_Handler,), {"sns": self})
        server = _Server(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._chain())
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening: from now on nobody answers."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        self._server = None

    def connect(self, address: tuple[str, int], timeout: float) -> socket.socket:
        """Stand in for the name service: every host is here."""
        self.connects.append(address)
        if self._server is None:
            raise ConnectionRefusedError("nobody listens")
        return socket.create_connection(("127.0.0.1", self._server.server_port), timeout)

    def ask(self, **changes: Any) -> SnsHttps:
        """Return what asks this server, trusting its authority alone."""
        context = ssl.create_default_context(cadata=_authority()[1].decode())
        return SnsHttps(**{"connect": self.connect, "context": context, **changes})

    def _chain(self) -> Path:
        path = self.folder / "server.pem"
        key = rsa_key("server")
        now = datetime.now(UTC)
        made = certificate(
            "server of the tests",
            key,
            issuer=_authority()[0],
            issuer_key=rsa_key("authority"),
            valid=(now - timedelta(days=1), now + timedelta(days=1)),
            dns=self.names,
        )
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + made.public_bytes(serialization.Encoding.PEM)
        )
        return path


@cache
def _authority() -> tuple[x509.Certificate, bytes]:
    now = datetime.now(UTC)
    valid = (now - timedelta(days=1), now + timedelta(days=1))
    made = certificate("authority of the tests", rsa_key("authority"), valid=valid)
    return made, made.public_bytes(serialization.Encoding.PEM)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that breaks off is what some tests want."""


class _Handler(BaseHTTPRequestHandler):
    sns: SnsServer

    def do_GET(self) -> None:
        """Answer as the test wrote down."""
        self.sns.requests.append((self.headers["Host"], self.path))
        answer = self.sns.answers.get(self.path, (404, {}, b"no such thing"))
        if callable(answer):
            write: Callable[[BaseHTTPRequestHandler], None] = answer
            write(self)
            return
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Keep the tests' output clean."""
