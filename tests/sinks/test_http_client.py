"""The client against real sockets: every wait ends, every flood is cut off, nothing is followed."""

from __future__ import annotations

import socket
import threading
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.sinks.address_guard import read_url
from tallgrass.sinks.http import undelivered_by
from tallgrass.sinks.http_client import HEAD_BYTES_MAX, Answer, HttpClient, look_up
from tests.sinks.receiver import (
    PATIENCE_S,
    Receiver,
    breaks_off,
    repeats,
    respond,
    write_authority,
    write_chain,
    writes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "hooks.example"


class Clock:
    """A monotonic clock that ticks a little with each look and jumps when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def client_of(receiver: Receiver, **changes: Any) -> HttpClient:
    """Return a client of a receiver."""
    return HttpClient(read_url(receiver.url), **{"timeout_s": PATIENCE_S, **changes})


def named(receiver: Receiver, **changes: Any) -> HttpClient:
    """Return a client that knows a receiver by the name in its certificate."""
    url = read_url(f"https://{HOST}:{receiver.port}/hook")
    found = {"look_up": lambda *_: [ip_address("127.0.0.1")], "timeout_s": PATIENCE_S}
    return HttpClient(url, **{**found, **changes})


def post(client: HttpClient, body: bytes = b"{}", **changes: Any) -> Answer:
    """Send a request and let the connections go."""
    wanted = {"ends_at": client.deadline(), **changes}
    return client.ask("POST", client.url.target, body, {}, **wanted)


def failure(client: HttpClient) -> tuple[str, str]:
    """Return code and message of a request that gets no answer."""
    with pytest.raises(OSError) as caught:
        post(client)
    client.close()
    told = undelivered_by(caught.value, client.url.place)
    return told.code, told.message


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with Receiver() as made:
        yield made


# --- what works -----------------------------------------------------------------------------------


def test_a_request_names_host_length_and_program(receiver: Receiver) -> None:
    """The receiver gets the bytes as they are."""
    client = client_of(receiver)
    assert post(client, b"\x00\xff").status == 204
    client.close()
    [request] = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/", b"\x00\xff")
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["user-agent"].startswith("tallgrass/")


def test_a_connection_is_kept_for_the_next_request(receiver: Receiver) -> None:
    """Five requests, one connection; it is closed with the client."""
    receiver.answer = (200, {}, b"thanks")
    client = client_of(receiver)
    assert [post(client).status for _ in range(5)] == [200] * 5
    client.close()
    assert (receiver.connections, len(receiver.requests)) == (1, 5)


def test_what_only_announces_an_answer_is_none(receiver: Receiver) -> None:
    """Early hints are passed over; each request has its own answer, however late that comes."""

    def hints_then_answers(handler: Any) -> None:
        for _ in range(3):
            handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")
        respond(handler, 500 if len(receiver.requests) == 1 else 200, {}, b"body")

    receiver.answer = hints_then_answers
    client = client_of(receiver)
    assert [post(client).status for _ in range(3)] == [500, 200, 200]
    client.close()
    assert receiver.connections == 1


def test_a_connection_that_goes_over_to_another_protocol_is_not_kept(receiver: Receiver) -> None:
    """Nobody asked for it: it is no success, and the next request has a connection of its own."""
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    receiver.answer = lambda handler: handler.wfile.write(head)
    client = client_of(receiver)
    assert [post(client).status for _ in range(2)] == [101, 101]
    client.close()
    assert receiver.connections == 2


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(receiver: Receiver) -> None:
    """The request goes out on a new one: the receiver gets it once."""

    def answers_and_leaves(handler: Any) -> None:
        respond(handler, 200, {}, b"")  # promises to keep the connection
        handler.close_connection = True

    receiver.answer = answers_and_leaves
    client = client_of(receiver)
    assert [post(client, b"%d" % number).status for number in range(3)] == [200] * 3
    client.close()
    assert [request.body for request in receiver.requests] == [b"0", b"1", b"2"]
    assert receiver.connections == 3


def test_a_connection_that_was_idle_for_long_is_not_used(receiver: Receiver) -> None:
    """After half a minute the name is asked anew."""
    clock = Clock()
    client = client_of(receiver, monotonic=clock)
    post(client)
    clock.now += 31
    post(client)
    client.close()
    assert receiver.connections == 2


def test_a_body_is_returned_only_if_it_was_wanted(receiver: Receiver) -> None:
    """Up to the size that was named."""
    receiver.answer = (200, {"Retry-After": "3"}, b"x" * 100)
    client = client_of(receiver)
    assert post(client) == Answer(status=200, retry_after="3", body=None)
    assert post(client, wanted_bytes_max=100).body == b"x" * 100
    assert post(client, wanted_bytes_max=99).body is None
    client.close()


def test_many_threads_share_a_client(receiver: Receiver) -> None:
    """Each request has a connection to itself; all are answered."""
    client = client_of(receiver)
    threads = [threading.Thread(target=post, args=(client,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert len(receiver.requests) == 20


def test_the_next_address_is_tried(receiver: Receiver) -> None:
    """A host with an address that refuses is reached by another."""
    tried = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(address[0])
        if address[0] == "127.0.0.2":
            raise ConnectionRefusedError(111, "Connection refused")
        return socket.create_connection(address, timeout)

    both = [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    url = read_url(f"http://{HOST}:{receiver.port}")
    client = HttpClient(url, timeout_s=PATIENCE_S, look_up=lambda *_: both, connect=connect)
    assert post(client).status == 204
    client.close()
    assert tried == ["127.0.0.2", "127.0.0.1"]
    assert receiver.requests[0].headers["host"] == f"{HOST}:{receiver.port}"


def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the machine leads no event elsewhere."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    client = client_of(receiver)
    assert post(client).status == 204
    client.close()


# --- what fails -----------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    """It is told at once."""
    with Receiver() as receiver:
        client = client_of(receiver)
    code, message = failure(client)
    assert code == "sink_unreachable"
    assert "Connection refused" in message


def test_a_receiver_that_breaks_off_is_told(receiver: Receiver) -> None:
    """A new connection that ends without an answer is not tried again here."""
    receiver.answer = breaks_off
    assert failure(client_of(receiver))[0] == "sink_unreachable"
    assert len(receiver.requests) == 1


def test_what_is_no_http_is_told(receiver: Receiver) -> None:
    """The bytes that came are not repeated."""
    receiver.answer = writes(b"SECRET nonsense\r\n\r\n")
    code, message = failure(client_of(receiver))
    assert code == "sink_unreachable"
    assert "SECRET" not in message


def test_a_receiver_that_hangs_is_left_in_time(receiver: Receiver) -> None:
    """No answer within the limit is a timeout."""
    over = threading.Event()
    receiver.answer = lambda _handler: over.wait(PATIENCE_S)
    client = client_of(receiver, timeout_s=0.2)
    assert failure(client) == (
        "sink_timeout",
        f"http://127.0.0.1:{receiver.port} did not answer in time",
    )
    over.set()


def test_a_listener_that_never_accepts_is_left_in_time() -> None:
    """The system accepts for it, and no byte comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listening:
        url = read_url(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert failure(HttpClient(url, timeout_s=0.2))[0] == "sink_timeout"


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 100 Continue\r\n\r\n", b""],
    ids=["header", "interim answers", "status line"],
)
def test_an_answer_that_trickles_in_is_left_in_time(receiver: Receiver, head: bytes) -> None:
    """Each byte comes in time, the whole head never would: the limit is of the whole."""
    clock = Clock()

    def pass_time() -> None:
        clock.now += 1.0

    part = b"HTTP/1.1 100 Continue\r\n\r\n" if b"100" in head else b"x"
    receiver.answer = repeats(head, part, pass_time)
    client = client_of(receiver, timeout_s=20.0, monotonic=clock)
    assert failure(client)[0] == "sink_timeout"


def test_a_flood_of_headers_is_cut_off(receiver: Receiver) -> None:
    """Less than a megabyte is read of it."""
    line = b"X-Flood: " + b"x" * 60_000 + b"\r\n"
    receiver.answer = writes(b"HTTP/1.1 200 OK\r\n" + line * 50)
    code, message = failure(client_of(receiver))
    assert code == "sink_unreachable"
    assert "too long" in message
    assert len(line) * 50 > HEAD_BYTES_MAX


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["until the end", "length", "chunks"],
)
def test_an_endless_body_takes_nothing_back(receiver: Receiver, head: bytes) -> None:
    """The status was told; the body is read to a bound, and the connection dropped."""
    part = b"400\r\n" + b"x" * 1024 + b"\r\n" if b"chunked" in head else b"x" * 1024
    receiver.answer = repeats(head, part, lambda: None)
    client = client_of(receiver)
    assert post(client) == Answer(status=200, retry_after=None, body=None)
    assert post(client, wanted_bytes_max=2048).body is None
    client.close()
    assert receiver.connections == 2


def test_a_body_that_stops_in_the_middle_takes_nothing_back(receiver: Receiver) -> None:
    """The answer stands, without its body."""
    receiver.answer = writes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    client = client_of(receiver)
    assert post(client, wanted_bytes_max=100) == Answer(status=200, retry_after=None, body=None)
    client.close()


def test_a_redirect_is_an_answer(receiver: Receiver) -> None:
    """Nobody goes where it leads."""
    with Receiver() as elsewhere:
        receiver.answer = (302, {"Location": elsewhere.url}, b"")
        client = client_of(receiver)
        assert post(client).status == 302
        client.close()
        assert elsewhere.connections == 0


def test_an_early_refusal_of_a_long_body_is_heard(receiver: Receiver) -> None:
    """A receiver may answer before it has read all."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(1024)
                line.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
                line.shutdown(socket.SHUT_WR)
                while line.recv(65_536):  # as a lingering close does
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        url = read_url(f"http://127.0.0.1:{listening.getsockname()[1]}")
        client = HttpClient(url, timeout_s=PATIENCE_S)
        assert post(client, b"x" * 1_000_000).status == 413
        client.close()
        thread.join()


# --- TLS ------------------------------------------------------------------------------------------


def test_the_name_of_the_target_is_what_tls_checks(tmp_path: Path) -> None:
    """The connection goes to an address; name and Host are the target's."""
    with Receiver(chain=write_chain(tmp_path, HOST)) as receiver:
        client = named(receiver, ca_file=str(write_authority(tmp_path)))
        assert post(client).status == 204
        client.close()
    assert receiver.requests[0].headers["host"] == f"{HOST}:{receiver.port}"


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ({"self_signed": True}, "self-signed certificate"),
        ({"days": -1}, "certificate has expired"),
        ({"names": ("other.example",)}, "Hostname mismatch"),
    ],
    ids=["self-signed", "expired", "of another host"],
)
def test_a_wrong_certificate_gets_no_request(
    tmp_path: Path, chain: dict[str, Any], reason: str
) -> None:
    """The message says what is wrong with it."""
    names = chain.pop("names", (HOST,))
    with Receiver(chain=write_chain(tmp_path, *names, **chain)) as receiver:
        code, message = failure(named(receiver, ca_file=str(write_authority(tmp_path))))
    assert code == "sink_misconfigured"
    assert reason in message
    assert receiver.requests == []


def test_an_authority_that_nobody_named_is_not_trusted(tmp_path: Path) -> None:
    """Without ca_file the machine's authorities count."""
    with Receiver(chain=write_chain(tmp_path, HOST)) as receiver:
        assert failure(named(receiver))[0] == "sink_misconfigured"
    assert receiver.requests == []


def test_a_target_without_tls_is_told(receiver: Receiver) -> None:
    """Nothing is sent in the clear to a plain server."""
    url = read_url(f"https://127.0.0.1:{receiver.port}")
    code, message = failure(HttpClient(url, timeout_s=PATIENCE_S))
    assert code == "sink_misconfigured"
    assert "speaks no TLS" in message
    assert receiver.requests == []


def test_a_handshake_that_hangs_is_left_in_time() -> None:
    """A server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = read_url(f"https://127.0.0.1:{listening.getsockname()[1]}")
        assert failure(HttpClient(url, timeout_s=0.2))[0] == "sink_timeout"


# --- names ----------------------------------------------------------------------------------------


def test_a_name_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As unreachable, with the name."""

    def none(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    code, message = failure(HttpClient(read_url(f"http://{HOST}"), timeout_s=PATIENCE_S))
    assert (code, message) == ("sink_unreachable", f"http://{HOST}: {HOST} cannot be resolved")


def test_a_resolver_that_hangs_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own limit may be minutes."""
    over = threading.Event()

    def hangs(*_: Any, **__: Any) -> list[Any]:
        over.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    code, _ = failure(HttpClient(read_url(f"http://{HOST}"), timeout_s=0.1))
    over.set()
    assert code == "sink_timeout"


def test_all_addresses_of_a_name_are_returned_once() -> None:
    """The system's answer for a name that it knows by itself."""
    found = look_up("localhost", 80, PATIENCE_S)
    assert ip_address("127.0.0.1") in found
    assert len(set(found)) == len(found)
