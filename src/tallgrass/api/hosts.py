"""By which names the server may be addressed, and from which pages it may be written to.

A stranger's page can let the name of its own host point to this machine (DNS rebinding). The
browser then sends that name as Host, so a request under an unknown name is refused before anything
else is looked at. Writes and the API can be used only from pages of this very origin; another port
of this machine is another origin.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from tallgrass.api.problems import RequestRefused, is_for_programs

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str | None:
    """Return the name of a Host header without its port; None where it is none."""
    if not header or any(c in header for c in "/@\\?# ,") or not header.isascii():
        return None
    try:
        parts = urlsplit(f"//{header}")
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".").lower() or None


def require_host(headers: Iterable[tuple[bytes, bytes]], allowed: frozenset[str]) -> None:
    """Refuse a request that does not name this server, or names two."""
    names = [value.decode("latin-1") for name, value in headers if name == b"host"]
    name = host_name(names[0]) if len(names) == 1 else None
    if name is None or name not in allowed:
        shown = ", ".join(repr(each[:80]) for each in names[:2]) or "none"
        raise RequestRefused(
            f"this server is not addressed by the host {shown}",
            status=HTTPStatus.MISDIRECTED_REQUEST,
            code="host_refused",
        )


def require_origin(method: str, scheme: str, path: str, headers: Mapping[str, str]) -> None:
    """Refuse a write, or a look at the API, that comes from a page of another origin."""
    writes = method not in _SAFE
    site = headers.get("sec-fetch-site")
    if not writes and not (is_for_programs(path) and headers.get("sec-fetch-mode") != "navigate"):
        return
    origin = headers.get("origin")
    if origin is not None and _origin(origin) != _origin(f"{scheme}://{headers.get('host', '')}"):
        raise _refused(f"the page of {origin[:80]!r} may not ask for this")
    if site is not None and site not in {"same-origin", "none"}:
        raise _refused(f"a {site[:20]!r} request may not ask for this")
    by_cookie = "cookie" in headers and "authorization" not in headers
    if writes and by_cookie and origin is None and site != "same-origin":
        raise _refused("a browser's write must say where it comes from")


def _origin(text: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.hostname is None or parts.scheme not in _DEFAULT_PORTS:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme]


def _refused(message: str) -> RequestRefused:
    return RequestRefused(message, status=HTTPStatus.FORBIDDEN, code="origin_refused")
