"""Fetching certificates from SNS: over real TLS, from a server of our own on the loopback."""

from __future__ import annotations

import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import CertificateUnreachable, InvalidInput, TallgrassError, TransientError
from tallgrass.intake.sns_signature import AdmissionRules, admission
from tallgrass.queues.certificates import (
    KEPT_MAX,
    REFUSED_FOR_S,
    UNREACHABLE_FOR_S,
    Certificates,
)
from tallgrass.queues.sns_https import BYTES_MAX, Answer, SnsHttps
from tests.support.sns import ADDRESS, HOST, PATH, TOPIC, SnsServer, pem_of, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

RULES = AdmissionRules(signatures_required=True, topics=frozenset({TOPIC}))
OTHER_PATH = PATH.replace("0123", "aaaa")


class Seconds:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SnsServer]:
    """A server that has the certificate."""
    made = SnsServer({PATH: (200, {}, pem_of())}, tmp_path)
    made.start()
    yield made
    made.stop()


def fault(certificates: Certificates, address: str = ADDRESS) -> tuple[str, bool]:
    """Return the code of a failure, and whether it may pass."""
    with pytest.raises(TallgrassError) as caught:
        certificates(address)
    return caught.value.code, isinstance(caught.value, TransientError)


UNREACHABLE = ("certificate_unreachable", True)
UNUSABLE = ("certificate_unusable", False)


# --- one question over the network ----------------------------------------------------------------


def test_an_answer_comes_over_checked_tls(server: SnsServer) -> None:
    """The host of the address is the one that is connected to and whose certificate is checked."""
    assert server.ask()(ADDRESS) == Answer(status=200, body=pem_of_server(server))
    assert server.connects == [(HOST, 443)]
    assert server.requests == [(HOST, PATH)]


def pem_of_server(server: SnsServer) -> bytes:
    """Return what the server serves."""
    body: bytes = server.answers[PATH][2]
    return body


def test_a_server_with_another_name_is_refused(server: SnsServer) -> None:
    """A server that cannot prove to be the host gets no request."""
    elsewhere = ADDRESS.replace("us-east-1", "us-west-2")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"us-west-2"):
        server.ask()(elsewhere)
    assert server.requests == []


def test_a_server_of_an_unknown_authority_is_refused(server: SnsServer) -> None:
    """By default the authorities of the machine are trusted, and no others."""
    with pytest.raises(ssl.SSLCertVerificationError):
        server.ask(context=None)(ADDRESS)
    assert server.requests == []


def test_a_redirect_is_not_followed(server: SnsServer) -> None:
    """A redirect is an answer; where it points nobody looks."""
    server.answers[PATH] = (302, {"Location": f"https://{HOST}{OTHER_PATH}"}, b"")
    server.answers[OTHER_PATH] = (200, {}, pem_of())
    assert server.ask()(ADDRESS).status == 302
    assert fault(Certificates(server.ask(), monotonic=Seconds())) == UNREACHABLE
    assert {path for _, path in server.requests} == {PATH}


def test_too_long_an_answer_is_given_up(server: SnsServer) -> None:
    """The largest answer is read, one byte more is not."""
    server.answers[PATH] = (200, {}, b"x" * BYTES_MAX)
    assert len(server.ask()(ADDRESS).body) == BYTES_MAX
    server.answers[PATH] = (200, {}, b"x" * (BYTES_MAX + 1))
    with pytest.raises(OSError, match="more than 65536 bytes"):
        server.ask()(ADDRESS)


def test_an_answer_without_an_end_is_given_up(server: SnsServer) -> None:
    """A server that never stops sending is cut off by the number of bytes."""

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 8192)
        except OSError:
            handler.close_connection = True

    server.answers[PATH] = endless
    with pytest.raises(OSError, match="more than 65536 bytes"):
        server.ask()(ADDRESS)


def test_an_answer_that_trickles_in_is_given_up(server: SnsServer) -> None:
    """Each byte may come in time and the whole still too late."""
    # Eleven seconds are over once the request has arrived.
    ask = server.ask(monotonic=lambda: 11.0 * len(server.requests))
    with pytest.raises(TimeoutError, match="within 10 s"):
        ask(ADDRESS)


def test_a_server_that_says_nothing_is_given_up(server: SnsServer) -> None:
    """A silent server costs one timeout."""
    hold = threading.Event()
    server.answers[PATH] = lambda _handler: hold.wait(30)
    try:
        with pytest.raises(TimeoutError):
            server.ask(timeout_s=0.2)(ADDRESS)
    finally:
        hold.set()


def test_what_is_no_http_is_no_answer(server: SnsServer) -> None:
    """Whatever a broken server sends becomes one kind of error."""
    server.answers[PATH] = lambda handler: handler.wfile.write(b"SMTP ready\r\n\r\n")
    with pytest.raises(OSError, match="no HTTP"):
        server.ask()(ADDRESS)


@pytest.mark.parametrize(
    "address",
    [
        "http://sns.us-east-1.amazonaws.com/",
        "https://127.0.0.1/",
        "https://sns.us-east-1.amazonaws.com:8443/",
        "https://sns.us-east-1.amazonaws.com@evil.example/",
        "https://sns.us-east-1.amazonaws.com.evil.example/",
        "https://sns.us-east-1.amazonaws.com/x#y",
        "https://sns.us-east-1.amazonaws.com/ HTTP/1.1\r\nX: y",
        "https://sns.us-east-1.amazonaws.com",
        "",
    ],
)
def test_no_other_host_is_ever_connected_to(address: str) -> None:
    """Whoever asks: only SNS itself is asked, at the usual port."""
    connects: list[Any] = []

    def connect(where: tuple[str, int], _timeout: float) -> Any:
        connects.append(where)
        raise ConnectionRefusedError

    with pytest.raises(InvalidInput):
        SnsHttps(connect=connect)(address)
    assert connects == []


# --- what is kept ---------------------------------------------------------------------------------


def test_a_thousand_messages_need_one_fetch(server: SnsServer) -> None:
    """A certificate is fetched once and used for every message that it signed."""
    admit = admission(RULES, Certificates(server.ask(), monotonic=Seconds()))
    assert admit is not None
    envelope = signed()
    for _ in range(1000):
        admit(envelope)
    assert len(server.requests) == len(server.connects) == 1


def test_threads_that_ask_together_fetch_once(server: SnsServer) -> None:
    """Who comes second waits for the first and gets the same certificate."""
    certificates = Certificates(server.ask(), monotonic=Seconds())
    together = threading.Barrier(8)

    def ask(_: int) -> Any:
        together.wait(30)
        return certificates(ADDRESS)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(server.requests) == 1
    assert all(one is found[0] for one in found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, {}, b"no"), UNUSABLE),
        ((403, {}, b"no"), UNUSABLE),
        ((410, {}, b"no"), UNUSABLE),
        ((200, {}, b"<html>hello</html>"), UNUSABLE),
        ((200, {}, pem_of("evil.example")), UNUSABLE),
        ((500, {}, b"no"), UNREACHABLE),
        ((503, {}, b"no"), UNREACHABLE),
        ((429, {}, b"no"), UNREACHABLE),
        ((407, {}, b"no"), UNREACHABLE),
        ((301, {"Location": ADDRESS}, b""), UNREACHABLE),
    ],
)
def test_what_is_no_certificate_is_told_from_no_answer(
    server: SnsServer, answer: Any, expected: tuple[str, bool]
) -> None:
    """SNS's word that there is none refuses the message; anything that may pass puts it off."""
    server.answers[PATH] = answer
    assert fault(Certificates(server.ask(), monotonic=Seconds())) == expected


def test_a_refusal_is_remembered_for_a_while(server: SnsServer) -> None:
    """A made-up address is asked for once a minute, and other addresses at any time."""
    clock = Seconds()
    certificates = Certificates(server.ask(), monotonic=clock)
    missing = ADDRESS.replace("0123", "ffff")
    for _ in range(5):
        assert fault(certificates, missing) == UNUSABLE
    assert len(server.requests) == 1
    assert certificates(ADDRESS).key.key_size == 2048
    clock.now += REFUSED_FOR_S
    assert fault(certificates, missing) == UNUSABLE
    assert len(server.requests) == 3


def test_a_host_that_does_not_answer_is_left_alone_and_told_of_once(server: SnsServer) -> None:
    """An outage costs one try every few seconds, whatever the address, and one line of the log."""
    clock = Seconds()
    told: list[CertificateUnreachable] = []
    certificates = Certificates(server.ask(), monotonic=clock, say=told.append)
    server.stop()
    for address in (ADDRESS, ADDRESS.replace("0123", "aaaa"), ADDRESS):
        assert fault(certificates, address) == UNREACHABLE
    assert len(server.connects) == 1
    clock.now += UNREACHABLE_FOR_S
    assert fault(certificates) == UNREACHABLE
    assert len(server.connects) == 2
    assert [error.code for error in told] == ["certificate_unreachable"]
    server.start()
    assert fault(certificates) == UNREACHABLE
    clock.now += UNREACHABLE_FOR_S
    assert certificates(ADDRESS).key.key_size == 2048
    server.stop()
    assert fault(certificates, ADDRESS.replace("0123", "bbbb")) == UNREACHABLE
    assert len(told) == 2
    # What is known needs no server.
    assert certificates(ADDRESS).key.key_size == 2048


def test_an_outage_of_one_region_leaves_the_others(server: SnsServer) -> None:
    """Another host is asked at once."""
    certificates = Certificates(server.ask(), monotonic=Seconds())
    assert fault(certificates, ADDRESS.replace("us-east-1", "us-west-2")) == UNREACHABLE
    assert certificates(ADDRESS).key.key_size == 2048


def test_no_table_grows_without_bound() -> None:
    """However many addresses are made up, only so many are remembered, and the known one stays."""
    pem = pem_of()

    def get(address: str) -> Answer:
        if "us-east-1" in address:
            status = 200 if address == ADDRESS else 404
            return Answer(status=status, body=pem)
        raise ConnectionRefusedError

    certificates = Certificates(get, monotonic=Seconds())
    certificates(ADDRESS)
    for number in range(KEPT_MAX + 50):
        assert fault(certificates, ADDRESS.replace("0123", f"{number:04x}f")) == UNUSABLE
        region = f"us-{'abcdefghij'[number // 100]}{'abcdefghij'[number // 10 % 10]}-{number % 10}"
        assert fault(certificates, ADDRESS.replace("us-east-1", region)) == UNREACHABLE
    tables = (certificates._kept, certificates._refused, certificates._down)
    assert [len(table) for table in tables] == [1, KEPT_MAX, KEPT_MAX]
    assert certificates(ADDRESS).key.key_size == 2048
