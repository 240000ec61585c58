"""One GET of SNS itself: HTTPS, no redirects, no proxy, bounded in time and bytes, no other host.

The addresses come from messages, that is from strangers: whatever is not an address of SNS is
refused here once more, whoever asks.
"""

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse

from tallgrass.errors import InvalidInput
from tallgrass.intake.sns_signature import SNS_ADDRESS

_PORT = 443
TIMEOUT_S = 5.0
#: Of the whole answer: one that trickles in is given up.
DEADLINE_S = 10.0
#: A certificate of SNS has 2 kB.
BYTES_MAX = 65_536
_PART_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; a redirect is an answer like any other and is not followed."""

    status: int
    body: bytes


#: Asks for an address of SNS; OSError where there is no answer.
Get = Callable[[str], Answer]
#: `socket.create_connection`, or what takes its place in a test.
Connect = Callable[[tuple[str, int], float], socket.socket]


class SnsHttps:
    """Asks SNS; safe for several threads."""

    def __init__(
        self,
        *,
        connect: Connect = socket.create_connection,
        context: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._context = context
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._monotonic = monotonic

    def __call__(self, address: str) -> Answer:
        """Return the answer; OSError where there is none, or none within the bounds."""
        found = SNS_ADDRESS.fullmatch(address)
        if found is None:
            raise InvalidInput(f"not an address of SNS: {address[:160]!r}")
        host, target = found.group("host", "target")
        ends_at = self._monotonic() + self._deadline_s
        # Made when it is needed: reading the machine's authorities takes longer than all else here.
        context = self._context or ssl.create_default_context()
        plain = self._connect((host, _PORT), self._timeout_s)
        with closing(plain), context.wrap_socket(plain, server_hostname=host) as secure:
            connection = HTTPConnection(host, timeout=self._timeout_s)
            connection.sock = secure
            try:
                connection.request("GET", target, headers={"Connection": "close"})
                with connection.getresponse() as response:
                    return Answer(status=response.status, body=self._read(response, ends_at))
            except HTTPException as exc:
                raise OSError(f"no HTTP: {type(exc).__name__}") from exc

    def _read(self, response: HTTPResponse, ends_at: float) -> bytes:
        body = bytearray()
        while part := response.read1(_PART_BYTES):
            body += part
            if len(body) > BYTES_MAX:
                raise OSError(f"the answer has more than {BYTES_MAX} bytes")
            if self._monotonic() > ends_at:
                raise TimeoutError(f"no whole answer within {self._deadline_s:g} s")
        return bytes(body)
