"""The edges of what an address may be: ports, lengths of names, forms that carry another one."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from tallgrass.errors import ConfigError
from tallgrass.sinks.address_guard import AddressGuard, is_global, read_networks, read_url

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

PUBLIC = ip_address("93.184.215.14")


def nobody(_host: str, _port: int) -> list[IPv4Address | IPv6Address]:
    """Know no address of anything."""
    return []


@pytest.mark.parametrize("port", [1, 65_535])
def test_the_first_and_the_last_port_are_ports(port: int) -> None:
    """0 and 65,536 are none: they are among the hostile addresses."""
    assert read_url(f"https://example.com:{port}/").port == port


def test_a_default_port_is_not_named() -> None:
    """443 by HTTPS, 80 without; any other stands in the request."""
    assert read_url("https://example.com:443/").host_header == "example.com"
    assert read_url("http://example.com/").host_header == "example.com"
    assert read_url("http://example.com/").port == 80
    assert read_url("http://example.com:81/").host_header == "example.com:81"
    assert read_url("https://example.com:80/").host_header == "example.com:80"


def test_a_name_is_as_long_as_dns_allows() -> None:
    """A label has at most 63 characters, a name 253."""
    label = "a" * 63
    longest = ".".join([label, label, label, "b" * 61])
    assert len(longest) == 253
    assert read_url(f"https://{longest}/").host == longest
    for host in (f"{label}a.example", f"{longest}b", f"b.{longest}"):
        with pytest.raises(ConfigError, match="is not the name of a host"):
            read_url(f"https://{host}/")


def test_a_zone_belongs_to_our_own_network() -> None:
    """An address that names an interface of this machine is nobody else's, whatever it begins."""
    assert is_global(ip_address("2606:4700::1111"))
    assert is_global(ip_address("2606:4700::1111%eth0")) is False


@pytest.mark.parametrize("address", ["2600:1:2:3:0:5efe:7f00:1", "2600:1:2:3:200:5efe:7f00:1"])
def test_a_tunnel_of_isatap_is_not_global(address: str) -> None:
    """Both forms, that of private and that of global addresses, carry one of IPv4."""
    assert is_global(ip_address(address)) is False


def test_a_host_without_an_address_is_told() -> None:
    """Nothing to connect to is an error of the line, to be tried again, and no refusal."""
    with pytest.raises(OSError, match=r"^hooks\.example has no address$"):
        AddressGuard().addresses(read_url("https://hooks.example/"), nobody)


def test_what_need_not_be_resolved_is_refused_at_once() -> None:
    """An address of our own network, and a scheme without TLS; both can be allowed."""
    with pytest.raises(ConfigError, match="is not of the public Internet"):
        AddressGuard().require(read_url("https://10.0.0.7/"))
    with pytest.raises(ConfigError, match="must begin with https"):
        AddressGuard().require(read_url("http://example.com/"))
    own = AddressGuard(allowed=read_networks(["10.0.0.0/8"], "allow_addresses"))
    own.require(read_url("http://10.0.0.7/"))
    own.require(read_url("http://example.com/"))
    AddressGuard().require(read_url(f"https://{PUBLIC}/"))
