"""Requests to one HTTP target: bounded in time and bytes, no redirect, no proxy, one address.

The standard library's connection over a socket that is opened here: so the address is the one that
was judged, the name that TLS checks is the target's, and each wait ends with the request's time.
Connections are kept for the next request: with a far target, opening one costs three round trips.
"""

import contextlib
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address
from typing import Protocol

import tallgrass
from tallgrass.sinks.address_guard import Address, AddressGuard, HttpUrl

#: Of an answer's head; http.client alone would take 6 MB.
HEAD_BYTES_MAX = 65_536
#: Of an answer's body that nobody wants: read so that the connection can be kept, else dropped.
DRAINED_BYTES_MAX = 65_536
_PART_BYTES = 16_384
_IDLE_MAX = 16
_IDLE_S_MAX = 30.0
#: Statuses that a further one follows; after 101 another protocol would.
_ANNOUNCING = range(102, 200)
_FINAL = range(200, 600)
_AGENT = f"tallgrass/{tallgrass.__version__}"


class Connect(Protocol):
    """`socket.create_connection`, or what takes its place in a test."""

    def __call__(self, address: tuple[str, int], timeout: float) -> socket.socket:
        """Return a connected socket."""


class Lookup(Protocol):
    """Returns all addresses of a host within so many seconds."""

    def __call__(self, host: str, port: int, seconds: float) -> Sequence[Address]:
        """Return them; OSError where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. The body is None unless it was wanted and came whole."""

    status: int
    retry_after: str | None
    body: bytes | None


def look_up(host: str, port: int, seconds: float) -> Sequence[Address]:
    """Ask the system; it knows no time limit, so it is asked on a thread that may be left."""
    found: list[Address] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(ip_address(str(entry[4][0])) for entry in entries))
        except (OSError, ValueError) as exc:  # ValueError: a name that cannot be encoded
            failure.append(exc)

    thread = threading.Thread(target=ask, name="tallgrass-resolve", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if failure:
        raise OSError(f"{host} cannot be resolved") from failure[0]
    if not found:
        raise TimeoutError(f"{host} was not resolved in time")
    return found


class HttpClient:
    """Asks one target; safe for several threads."""

    def __init__(
        self,
        url: HttpUrl,
        *,
        timeout_s: float,
        guard: AddressGuard | None = None,
        ca_file: str | None = None,
        look_up: Lookup = look_up,
        connect: Connect = socket.create_connection,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.timeout_s = timeout_s
        self._guard = guard
        # Reading the machine's authorities takes 20 ms.
        self._context = (
            ssl.create_default_context(cafile=ca_file) if url.scheme == "https" else None
        )
        self._look_up = look_up
        self._connect = connect
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle: list[_Line] = []

    def deadline(self) -> float:
        """Return when a request, or a row of them, that begins now must be over."""
        return self._monotonic() + self.timeout_s

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        ends_at: float,
        wanted_bytes_max: int = 0,
    ) -> Answer:
        """Return the answer; OSError where there is none, or none in time."""
        request = _Request(
            method=method,
            target=target,
            body=body,
            headers={"Host": self.url.host_header, "User-Agent": _AGENT, **headers},
            wanted_bytes_max=wanted_bytes_max,
        )
        kept = self._take()
        if kept is not None:
            try:
                return self._ask_on(kept, request, ends_at)
            except _ClosedMeanwhile:
                pass  # as any server may do with a connection that was idle
        return self._ask_on(self._open(ends_at), request, ends_at)

    def close(self) -> None:
        """Let all connections go."""
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.hang_up()

    # --- connections ------------------------------------------------------------------------------

    def _take(self) -> "_Line | None":
        """Return the connection that was used last, if it is fresh."""
        with self._lock:
            line = self._idle.pop() if self._idle else None
        if line is not None and self._monotonic() - line.idle_since > _IDLE_S_MAX:
            line.hang_up()
            self.close()  # the others are older
            return None
        return line

    def _keep(self, line: "_Line") -> None:
        line.idle_since = self._monotonic()
        with self._lock:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append(line)
                return
        line.hang_up()

    def _open(self, ends_at: float) -> "_Line":
        """Connect to one of the target's addresses, each of which was judged before."""
        url = self.url

        def resolve(host: str, port: int) -> Sequence[Address]:
            return self._look_up(host, port, self._left(ends_at))

        if self._guard is not None:
            addresses = self._guard.addresses(url, resolve)
        else:
            addresses = [url.literal] if url.literal else resolve(url.host, url.port)
        plain = self._first(addresses, ends_at)
        # Head and body go out as two writes: without it each kept connection waits 40 ms between.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return _Line(plain, url.host, self._monotonic)
        try:
            plain.settimeout(self._left(ends_at))
            secure = self._context.wrap_socket(plain, server_hostname=url.host)
        except BaseException:
            plain.close()
            raise
        return _Line(secure, url.host, self._monotonic)

    def _first(self, addresses: Sequence[Address], ends_at: float) -> socket.socket:
        failure: OSError | None = None
        for number, address in enumerate(addresses):
            # One that does not answer must leave time for the next.
            share_s = self._left(ends_at) / (len(addresses) - number)
            try:
                return self._connect((str(address), self.url.port), timeout=share_s)
            except OSError as exc:
                failure = exc
        raise failure or OSError(f"{self.url.host} has no address")

    def _left(self, ends_at: float) -> float:
        left = ends_at - self._monotonic()
        if left <= 0:
            raise TimeoutError("no time left")
        return left

    # --- one request ------------------------------------------------------------------------------

    def _ask_on(self, line: "_Line", request: "_Request", ends_at: float) -> Answer:
        try:
            response = line.begin(request, ends_at)
            body, whole = _read(response, request.wanted_bytes_max or DRAINED_BYTES_MAX)
        except BaseException:
            line.hang_up()
            raise
        if whole and not response.will_close and response.status in _FINAL:
            self._keep(line)
        else:
            line.hang_up()
        return Answer(
            status=response.status,
            retry_after=response.headers.get("Retry-After"),
            body=body if whole and request.wanted_bytes_max else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]
    #: Zero where the body of the answer is not wanted.
    wanted_bytes_max: int


class _ClosedMeanwhile(OSError):
    """A connection that was kept is no longer one; nothing was answered on it."""


def _read(response: HTTPResponse, bytes_max: int) -> tuple[bytes, bool]:
    """Return the body, and whether it is whole.

    The status has been told by now, so what goes wrong here takes nothing back.
    """
    body = bytearray()
    try:
        with response:
            while part := response.read1(_PART_BYTES):
                body += part
                if len(body) > bytes_max:
                    return b"", False
    except (OSError, HTTPException):
        return b"", False
    # read1 says nothing of an answer that ended too soon.
    return bytes(body), not response.length


class _FinalResponse(HTTPResponse):
    """An answer without those that only announce it, such as early hints.

    The standard library passes over 100 alone: any other would be taken for the answer, and the
    answer then for that of the next request.
    """

    def begin(self) -> None:
        """Read the head of the answer."""
        super().begin()
        while self.status in _ANNOUNCING:
            self.headers = self.msg = None  # type: ignore[assignment]  # as if nothing was read
            super().begin()


class _Line:
    """A connection, as http.client wants a socket: each wait ends when the request must."""

    def __init__(self, line: socket.socket, host: str, monotonic: Callable[[], float]) -> None:
        self._socket = line
        self._monotonic = monotonic
        self._ends_at = 0.0
        self._bytes_left = 0
        self._used = False
        self.idle_since = 0.0
        self._http = HTTPConnection(host)
        self._http.auto_open = 0  # never to connect by itself
        self._http.response_class = _FinalResponse
        self._http.sock = self

    def begin(self, request: _Request, ends_at: float) -> HTTPResponse:
        """Send a request and return the head of its answer."""
        self._ends_at = ends_at
        self._bytes_left = HEAD_BYTES_MAX + DRAINED_BYTES_MAX + request.wanted_bytes_max
        used, self._used = self._used, True
        try:
            with contextlib.suppress(BrokenPipeError):  # it may answer before it has read all
                self._http.request(request.method, request.target, request.body, request.headers)
            return self._http.getresponse()
        except ConnectionError as exc:  # among them an end without any answer
            if used:
                raise _ClosedMeanwhile from exc
            raise
        except HTTPException as exc:
            raise OSError(f"the answer is no HTTP ({type(exc).__name__})") from exc

    def hang_up(self) -> None:
        """Close the connection."""
        self._socket.close()

    # --- what http.client asks of a socket --------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            self._wait_no_longer()
            view = view[self._socket.send(view[:_PART_BYTES]) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what the answer is read from; closing it leaves the connection open."""
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Do nothing: the answer may still be read; `hang_up` closes."""

    def receive_into(self, buffer: memoryview) -> int:
        """Read what is there."""
        self._wait_no_longer()
        count = self._socket.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise OSError("the answer is too long")
        return count

    def _wait_no_longer(self) -> None:
        left = self._ends_at - self._monotonic()
        if left <= 0:
            raise TimeoutError("no whole answer in time")
        self._socket.settimeout(left)


class _Reader(io.RawIOBase):
    def __init__(self, line: _Line) -> None:
        self._line = line

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read some bytes."""
        return self._line.receive_into(buffer)
