"""What an HTTP target's answer means for an event, the same for every sink that speaks HTTP.

2xx delivers. 408, 409, 425, 429 and 5xx may pass; a redirect and a certificate that is not trusted
may be mended: the event is tried again. Every other 4xx is final. Messages hold the target's host
and the status, never a path, a header or a word of the answer.
"""

import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from tallgrass.clock import Clock
from tallgrass.errors import ConfigError
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.address_guard import AddressGuard, AddressRefused, HttpUrl
from tallgrass.sinks.http_client import Answer, HttpClient
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import RETRY_AFTER_S_MAX, Delivered, Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources

TIMEOUT_S = 5.0

_OK = range(200, 300)
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)
#: Answers beside those of 5xx that may pass.
_MAY_PASS = {408: "sink_timeout", 409: "sink_refused", 425: "sink_refused", 429: "sink_throttled"}
_NO_RIGHT = frozenset({401, 403, 407})


def trace_headers(event: OutboxEvent) -> Mapping[str, str]:
    """Return the header by which the target's own spans can stand below the span of this send."""
    return {} if event.trace is None else {"traceparent": event.trace.sent}


def delivery_of(answer: Answer, place: str, clock: Clock) -> Delivery:
    """Say what became of an event by the target's answer."""
    status = answer.status
    if status in _OK:
        return Delivered()
    said = f"{place} answered {status}{_phrase(status)}"
    if status in _REDIRECTS:
        return Undelivered(
            code="sink_misconfigured",
            message=f"{said}: redirects are not followed, give the address itself",
        )
    wait_s = retry_after_s(answer.retry_after, clock())
    if (code := _MAY_PASS.get(status)) is not None:
        return Undelivered(code=code, message=said, retry_after_s=wait_s)
    if status in _NO_RIGHT:
        return Undelivered(code="sink_misconfigured", message=said, permanent=True)
    if status in _SERVER_ERRORS:
        return Undelivered(code="sink_unreachable", message=said, retry_after_s=wait_s)
    return Undelivered(code="sink_refused", message=said, permanent=True)


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Return how long a target asks to be left alone: it says seconds, or a date."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        # Cut first: to Python a number of 5,000 digits is an error.
        return min(float(text[:9]), RETRY_AFTER_S_MAX)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_S_MAX)


def undelivered_by(error: OSError, place: str) -> Undelivered:
    """Say why there was no answer."""
    if isinstance(error, AddressRefused):
        return Undelivered(code="sink_misconfigured", message=str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        return Undelivered(
            code="sink_misconfigured", message=f"{place}: its certificate is not trusted: {reason}"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        reason = (getattr(error, "reason", None) or "no handshake").replace("_", " ").lower()
        return Undelivered(code="sink_misconfigured", message=f"{place} speaks no TLS: {reason}")
    if isinstance(error, TimeoutError):
        return Undelivered(code="sink_timeout", message=f"{place} did not answer in time")
    reason = error.strerror or str(error) or type(error).__name__
    return Undelivered(code="sink_unreachable", message=f"{place}: {reason}")


def deliver(url: HttpUrl, send: Callable[[OutboxEvent], Delivery], event: OutboxEvent) -> Delivery:
    """Send an event; what is raised because there is no answer is told as undelivered."""
    try:
        return send(event)
    except OSError as error:
        return undelivered_by(error, url.place)


def open_http(
    options: Options, url: HttpUrl, resources: SinkResources, guard: AddressGuard | None = None
) -> HttpClient:
    """Return a client by the settings that all HTTP sinks share: timeout_s and ca_file."""
    highest = resources.send_s_max
    timeout_s = options.number("timeout_s", min(TIMEOUT_S, highest), low=0.1, high=highest)
    ca_file = options.optional("ca_file")
    try:
        return HttpClient(
            url,
            timeout_s=timeout_s,
            guard=guard,
            ca_file=ca_file,
            look_up=resources.look_up,
            connect=resources.connect,
            monotonic=resources.monotonic,
        )
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"ca_file: {ca_file} cannot be used: {exc.strerror}") from exc


def authorization(options: Options) -> Mapping[str, str]:
    """Return the header that proves who sends, by `token_env` or `token_file` and `auth_header`.

    `Authorization` gets the word Bearer before the token, any other header the token alone.
    """
    token, header = options.secret("token"), options.text("auth_header", "Authorization")
    if token is None:
        return {}
    if not (header.isascii() and header.replace("-", "").isalnum()):
        raise ConfigError(f"auth_header: {header!r} is not the name of a header")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("token: a token is printable ASCII")
    return {header: f"Bearer {token}" if header.lower() == "authorization" else token}


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""
