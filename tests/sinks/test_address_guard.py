"""No address of a stranger leads into our own network."""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import ConfigError
from tallgrass.sinks.address_guard import AddressGuard, is_global, read_networks, read_url
from tallgrass.sinks.protocol import Undelivered
from tallgrass.sinks.resources import SinkResources
from tallgrass.sinks.webhook import open_webhook
from tests.corpora.reading import cases
from tests.sinks.receiver import EVENT, PATIENCE_S, Receiver, write_authority, write_chain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = {"HOOK_SECRET": "whsec_" + "QUJD" * 10}
#: What a refusal says, by the reason that the corpus gives for it.
SAYS = {
    "public": "is not of the public Internet",
    "usual": "is not an address in its usual form",
    "form": "url must be https://HOST",
    "https": "must begin with https://",
    "port": "there is no port",
    "host": "is not the name of a host",
}
#: Names and what a hostile name service says of them; a list of lists changes with each answer.
NAMES: dict[str, Any] = {
    case["host"]: case["answers"] for case in cases("webhook_addresses.toml", "name")
}
BY_NAME = [f"https://{name}/hook" for name in NAMES]
#: Each address, when it is refused, and why.
HOSTILE = [(url, "send", "public") for url in BY_NAME] + [
    (case["url"], "config", case["refused"]) for case in cases("webhook_addresses.toml", "address")
]

#: Every connection that this process opens or tries to open, while somebody listens.
_seen: list[Any] = []
_listening = [False]


def _hear(name: str, arguments: tuple[Any, ...]) -> None:
    if _listening[0] and name in {"socket.connect", "socket.sendto", "socket.getaddrinfo"}:
        _seen.append((name, arguments))


sys.addaudithook(_hear)


@pytest.fixture
def sockets() -> Iterator[list[Any]]:
    """What the interpreter itself reports of sockets, whoever uses them."""
    _seen.clear()
    _listening[0] = True
    yield _seen
    _listening[0] = False


class Names:
    """A name service that lies, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, seconds: float) -> list[Any]:
        """Answer as planned."""
        self.asked.append(host)
        answers = NAMES[host]
        if isinstance(answers[0], list):
            answers = answers[min(self.asked.count(host), len(answers)) - 1]
        return [ip_address(each) for each in answers]


def send(url: str, **settings: Any) -> str:
    """Open a webhook and send an event; return how it was refused."""
    resources = SinkResources(environment=SECRET, look_up=Names())
    try:
        sink = open_webhook({"url": url, "secret_env": "HOOK_SECRET", **settings}, resources)
    except ConfigError as error:
        return f"config: {error}"
    [delivery] = sink.send([EVENT])
    sink.close()
    assert isinstance(delivery, Undelivered), url
    assert delivery.code == "sink_misconfigured"
    return f"send: {delivery.message}"


def test_there_are_at_least_sixty_hostile_addresses() -> None:
    """Each differs from the others."""
    assert len({url for url, _, _ in HOSTILE}) == len(HOSTILE) >= 60


@pytest.mark.parametrize(("url", "when", "why"), HOSTILE, ids=[url for url, _, _ in HOSTILE])
def test_no_request_leaves_for_a_hostile_address(
    url: str, when: str, why: str, sockets: list[Any]
) -> None:
    """Nothing is connected to, the system's name service is not asked, and the reason is said."""
    said = send(url)
    assert said.startswith(f"{when}: ")
    assert SAYS[why] in said
    assert sockets == []


@pytest.mark.parametrize("url", BY_NAME)
def test_an_allowed_network_allows_no_other(url: str, sockets: list[Any]) -> None:
    """A list that names one private network opens that one alone."""
    said = send(url, allow_addresses=["10.99.0.0/16"])
    assert "is not of the public Internet" in said
    assert sockets == []


def test_the_recorder_hears_real_connections(sockets: list[Any]) -> None:
    """A recorder that heard nothing would prove nothing."""
    with Receiver() as receiver:
        socket.create_connection(("127.0.0.1", receiver.port), PATIENCE_S).close()
    assert any(name == "socket.connect" for name, _ in sockets)


def test_a_name_that_changes_its_mind_is_asked_once(tmp_path: Path) -> None:
    """The connection goes to the address that was judged, not to what the name says next."""
    connected: list[Any] = []
    asked: list[str] = []

    def look_up(host: str, port: int, seconds: float) -> list[Any]:
        asked.append(host)
        return [ip_address("93.184.215.14" if len(asked) == 1 else "127.0.0.1")]

    with Receiver(chain=write_chain(tmp_path, "hooks.example")) as receiver:

        def connect(address: tuple[str, int], timeout: float) -> socket.socket:
            connected.append(address)
            return socket.create_connection(("127.0.0.1", receiver.port), timeout)

        sink = open_webhook(
            {
                "url": "https://hooks.example/in",
                "secret_env": "HOOK_SECRET",
                "ca_file": str(write_authority(tmp_path)),
                "timeout_s": PATIENCE_S,
            },
            SinkResources(environment=SECRET, look_up=look_up, connect=connect),
        )
        [delivery] = sink.send([EVENT])
        sink.close()
    assert not isinstance(delivery, Undelivered)
    assert (asked, connected) == (["hooks.example"], [("93.184.215.14", 443)])
    assert receiver.requests[0].headers["host"] == "hooks.example"


def test_a_network_of_our_own_can_be_allowed() -> None:
    """Then also without TLS."""
    with Receiver() as receiver:
        settings = {
            "url": f"http://127.0.0.1:{receiver.port}/in",
            "secret_env": "HOOK_SECRET",
            "allow_addresses": ["127.0.0.0/8"],
            "timeout_s": PATIENCE_S,
        }
        sink = open_webhook(settings, SinkResources(environment=SECRET))
        [delivery] = sink.send([EVENT])
        sink.close()
    assert not isinstance(delivery, Undelivered)
    assert len(receiver.requests) == 1


def test_an_allowed_list_does_not_allow_http_to_the_public_internet(sockets: list[Any]) -> None:
    """Without TLS only the listed networks are reached."""
    public = {"plain.example": ["93.184.215.14"]}
    NAMES.update(public)
    said = send("http://plain.example/", allow_addresses=["10.99.0.0/16"])
    assert "by https alone" in said
    assert sockets == []


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "93.184.215.14",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_addresses_of_the_public_internet_are_global(address: str) -> None:
    """Also where IPv6 carries one of IPv4."""
    assert is_global(ip_address(address))


def test_an_allowed_address_may_be_written_as_ipv6() -> None:
    """A list that names an address of IPv4 holds for its mapped form too."""
    guard = AddressGuard(allowed=read_networks(["10.0.0.7"], "allow_addresses"))
    url = read_url("https://[::ffff:10.0.0.7]/")
    assert guard.addresses(url, lambda *_: []) == [ip_address("::ffff:10.0.0.7")]


def test_a_wrong_network_is_refused() -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=r"allow_addresses: 10\.0\.0\.1/8 has host bits set"):
        read_networks(["10.0.0.1/8"], "allow_addresses")


@pytest.mark.parametrize(
    ("text", "host_header", "target"),
    [
        ("https://example.com", "example.com", "/"),
        ("https://Example.COM:443/a/b?c=d%20e", "example.com", "/a/b?c=d%20e"),
        ("https://example.com:8443?x", "example.com:8443", "/?x"),
        ("https://[2606:4700::1111]:9/x", "[2606:4700::1111]:9", "/x"),
        ("https://xn--bcher-kva.example/~me/[1]", "xn--bcher-kva.example", "/~me/[1]"),
    ],
)
def test_a_plain_address_is_taken_as_it_stands(text: str, host_header: str, target: str) -> None:
    """Host, port, path and query."""
    url = read_url(text)
    assert (url.host_header, url.target) == (host_header, target)
