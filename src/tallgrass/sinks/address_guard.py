"""Which addresses a request may go to: no way from outside into our own network.

A host is resolved once, every address that it has is judged, and the connection goes to one of
those and no other: a name that changes its mind meanwhile leads nowhere else. A host with a single
address that is not allowed is refused as a whole.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from tallgrass.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: All addresses of a host and port, at once; OSError where it has none.
Resolve = Callable[[str, int], Sequence[Address]]

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!$-;=?-\[\]_a-z~]*)?"
)
_DEFAULT_PORTS = {"https": 443, "http": 80}
_PORT_MAX = 65_535
_HOST_CHARS_MAX = 253
#: A last label that is a number makes an IPv4 address of a host for some readers, in their own way:
#: 127.1, 2130706433, 0x7f000001, 0177.0.0.1.
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")

#: Global unicast; whatever else IPv6 has is not.
_GLOBAL_V6 = IPv6Network("2000::/3")
#: Translated to IPv4 on the way: as good as the address that it carries.
_NAT64 = IPv6Network("64:ff9b::/96")
#: Refused beside what `ipaddress` itself calls not global: some of it is newer than the oldest
#: Python that this runs on, multicast it calls global, and tunnels lead to an address of IPv4.
_NOT_GLOBAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # IETF protocols
        "192.88.99.0/24",  # 6to4 relays
        "224.0.0.0/4",  # multicast
        "2001::/23",  # IETF protocols, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
#: ISATAP carries an IPv4 address behind these middle bits.
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpUrl:
    """Where requests go, taken apart once."""

    scheme: str
    #: As it stands in the address; an IPv6 address without brackets.
    host: str
    port: int
    #: Path and query.
    target: str
    #: The address that the host is itself, if it is no name.
    literal: Address | None

    @property
    def host_header(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """The address without path and query, which may hold a secret, for messages."""
        return f"{self.scheme}://{self.host_header}"


class AddressRefused(OSError):
    """A host has an address that requests must not go to."""


def read_url(text: str) -> HttpUrl:
    """Take an address apart; whatever two readers could understand in two ways is refused."""
    found = _URL.fullmatch(text)
    if found is None:
        raise ConfigError(
            "url must be https://HOST[:PORT][/PATH][?QUERY] in plain ASCII, without a user, "
            "a password or a fragment"
        )
    host, port = found["host"], int(found["port"] or _DEFAULT_PORTS[found["scheme"]])
    if not 1 <= port <= _PORT_MAX:
        raise ConfigError(f"url: there is no port {port}")
    bare = host.strip("[]")
    literal = _literal(bare) if host[0] == "[" or _is_numeric(host) else None
    if literal is None and not _is_name(bare):
        raise ConfigError(f"url: {bare!r} is not the name of a host")
    return HttpUrl(
        scheme=found["scheme"],
        host=bare.lower(),
        port=port,
        target=_path(found["target"] or ""),
        literal=literal,
    )


def _path(target: str) -> str:
    return target if target.startswith("/") else f"/{target}"


def _is_name(host: str) -> bool:
    labels = host.split(".")
    return len(host) <= _HOST_CHARS_MAX and all(
        label and len(label) < 64 and not label.startswith("-")  # noqa: PLR2004 - of DNS
        for label in labels
    )


def _is_numeric(host: str) -> bool:
    return _NUMERIC_LABEL.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def _literal(host: str) -> Address:
    """Return the address that a host is; other forms than the usual one are refused."""
    try:
        return ip_address(host)
    except ValueError as exc:
        raise ConfigError(
            f"url: {host!r} is not an address in its usual form, such as 203.0.113.7"
        ) from exc


def read_networks(texts: Sequence[str], name: str) -> tuple[Network, ...]:
    """Read a list of networks and single addresses."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as exc:
        raise ConfigError(f"{name}: {exc}") from exc


def is_global(address: Address) -> bool:
    """Tell whether an address is one of the public Internet, however it is wrapped."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_global(address.ipv4_mapped)
        if address in _NAT64:
            return is_global(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_V6 or address.scope_id is not None:
            return False
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return False
    return address.is_global and not any(address in each for each in _NOT_GLOBAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressGuard:
    """What may be connected to: global addresses by HTTPS, and what is allowed by name."""

    #: Networks of our own that requests may go to, also without TLS.
    allowed: tuple[Network, ...] = ()

    def addresses(self, url: HttpUrl, resolve: Resolve) -> Sequence[Address]:
        """Return the addresses of a host; AddressRefused if one of them is not allowed."""
        found = [url.literal] if url.literal is not None else resolve(url.host, url.port)
        for address in found:
            if (refusal := self.refusal(url, address)) is not None:
                raise AddressRefused(refusal)
        if not found:
            raise OSError(f"{url.host} has no address")
        return found

    def require(self, url: HttpUrl) -> None:
        """Refuse at once what need not be resolved."""
        if url.literal is not None and (refusal := self.refusal(url, url.literal)) is not None:
            raise ConfigError(f"url: {refusal}")
        if url.scheme == "http" and not self.allowed:
            raise ConfigError("url: must begin with https:// (allow_addresses would allow http)")

    def refusal(self, url: HttpUrl, address: Address) -> str | None:
        """Say why an address may not be connected to; None if it may."""
        plain = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        if any((plain or address) in network for network in self.allowed):
            return None
        if not is_global(address):
            return (
                f"{url.host} has an address that is not of the public Internet; allow_addresses "
                "can list networks of your own"
            )
        if url.scheme != "https":
            return f"{url.host} is to be reached by https alone"
        return None
