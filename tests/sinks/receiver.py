"""Receivers of events on loopback: they answer as told and write down what they were asked."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from cryptography.hazmat.primitives import serialization

from tallgrass.outbox.event import OutboxEvent
from tests.support.sns import certificate, rsa_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Canonical but for the number, which no writer of JSON would write so.
PAYLOAD = b'{"collection_id":"c","event":"nodd.item.created","item_id":"i","n":1.50}'
EVENT = OutboxEvent(
    outbox_id="0197a1b2-0000-7000-8000-000000000001",
    subject="3a192283-3ea0-8e34-9bfa-f20e8ae00627",
    pipeline_id="kfm-nodd-ingest",
    event_name="nodd.item.created",
    dataset_id="goes-glm",
    version="1.0.0+0123456789abcdef",
    idempotency_key="sha256:" + "ab" * 32,
    target="partner",
    payload=PAYLOAD,
    care_label="public",
    governance_ref=None,
    created_at=datetime(2026, 6, 1, 12, 30, 45, 123456, tzinfo=UTC),
    attempt=1,
)
#: Long enough for a loaded machine, short enough for a hang to show.
PATIENCE_S = 30.0


def event(number: int = 1, **changes: Any) -> OutboxEvent:
    """Return an event with an id and a key of its own."""
    named = {
        "outbox_id": f"0197a1b2-0000-7000-8000-{number:012d}",
        "idempotency_key": f"sha256:{number:064x}",
    }
    return EVENT._replace(**{**named, **changes})


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A real HTTP(S) server on an ephemeral port; use it as a context manager."""

    #: Makes each answer: a status, headers and body, or a callable that writes what it likes.
    answer: Any = (204, {}, b"")
    #: A PEM file with key and certificate; plain HTTP without.
    chain: Path | None = None
    requests: list[Request] = field(default_factory=list)
    #: Sockets that were accepted.
    connections: int = 0
    _server: Any = None
    _thread: Any = None

    def __enter__(self) -> Self:
        receiver = self

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def get_request(self) -> Any:
                accepted = super().get_request()
                receiver.connections += 1
                return accepted

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing: clients that break off are what some tests want."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = PATIENCE_S

            def handle_any(self) -> None:
                receiver.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.chain is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.chain)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.server_port
        return port

    @property
    def url(self) -> str:
        """Its address by number."""
        return f"{'https' if self.chain else 'http'}://127.0.0.1:{self.port}"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Write a request down and answer it."""
        length = int(handler.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(length)
        self.requests.append(Request(str(handler.command), handler.path, headers, body))
        answer = self.answer
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer(handler)
            return
        respond(handler, *answer)


def respond(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
) -> None:
    """Write a usual answer."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if status != 204:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def writes(data: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return an answer of exactly these bytes, after which the connection is closed."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.wfile.write(data)

    return answer


def repeats(head: bytes, part: bytes, pause: Callable[[], object]) -> Any:
    """Return an answer that never ends; `pause` is called before each part."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.wfile.write(head)
        while True:
            pause()
            handler.wfile.write(part)

    return answer


@cache
def authority(name: str = "authority of the sinks' tests") -> Any:
    """Return the certificate of an authority of ours."""
    now = datetime.now(UTC)
    valid = (now - timedelta(days=1), now + timedelta(days=1))
    return certificate(name, rsa_key("authority"), valid=valid)


def write_authority(folder: Path) -> Path:
    """Write the authority's certificate; return the file."""
    path = folder / "authority.pem"
    path.write_bytes(authority().public_bytes(serialization.Encoding.PEM))
    return path


def write_chain(folder: Path, *names: str, days: int = 1, self_signed: bool = False) -> Path:
    """Write key and certificate of a server with these names; `days` below 0 have passed."""
    now = datetime.now(UTC)
    key = rsa_key("server")
    made = certificate(
        "server of the tests",
        key,
        issuer=None if self_signed else authority(),
        issuer_key=None if self_signed else rsa_key("authority"),
        valid=(now - timedelta(days=3), now + timedelta(days=days)),
        dns=names,
    )
    path = folder / f"server-{'-'.join(names)}-{days}-{self_signed}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
