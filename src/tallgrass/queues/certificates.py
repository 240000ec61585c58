"""Certificates of SNS: each is fetched once and kept; what cannot be had is not asked for often.

A certificate never changes under its address, so it is kept for good. An address that has none is
remembered for a minute. A host that does not answer is left alone for some seconds, whatever the
address, so that an outage costs a worker one timeout and not one a message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from tallgrass.errors import CertificateUnreachable, InvalidInput, TallgrassError
from tallgrass.intake.sns_signature import SigningCertificate, read_certificate
from tallgrass.queues.sns_https import Get

#: Each region has one or two at a time.
KEPT_MAX = 256
REFUSED_FOR_S = 60.0
UNREACHABLE_FOR_S = 10.0

_OK = 200
#: SNS says that there is no such certificate. Anything else may be a proxy's or a bad day's answer.
_GONE = frozenset({403, 404, 410})

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setback:
    """Why there is no certificate, and until when nobody asks again."""

    until: float
    code: str
    message: str


class Certificates:
    """The certificate at an address, for several threads; use it as a `CertificateOf`."""

    def __init__(
        self,
        get: Get,
        *,
        monotonic: Callable[[], float],
        say: Callable[[CertificateUnreachable], None] = lambda _error: None,
    ) -> None:
        self._get = get
        self._monotonic = monotonic
        #: Is told of a host that does not answer, once until it answers again.
        self._say = say
        self._lock = Lock()
        self._kept: dict[str, SigningCertificate] = {}
        self._refused: dict[str, _Setback] = {}
        self._down: dict[str, _Setback] = {}

    def __call__(self, address: str) -> SigningCertificate:
        """Return the certificate; refuse what is none, or say that it cannot be had now."""
        kept = self._kept.get(address)
        if kept is not None:
            return kept
        with self._lock:
            # Whoever held the lock may have brought it.
            return self._kept.get(address) or self._fetch(address)

    def _fetch(self, address: str) -> SigningCertificate:
        host = address.split("/", 3)[2]
        self._require_no_setback(address, host)
        try:
            certificate = self._ask(address)
        except CertificateUnreachable as error:
            first = host not in self._down
            _keep(self._down, host, self._setback(error, UNREACHABLE_FOR_S))
            if first:
                self._say(error)
            raise
        except InvalidInput as error:
            self._down.pop(host, None)
            _keep(self._refused, address, self._setback(error, REFUSED_FOR_S))
            raise
        self._down.pop(host, None)
        _keep(self._kept, address, certificate)
        return certificate

    def _require_no_setback(self, address: str, host: str) -> None:
        """Repeat the last answer while it is fresh."""
        now = self._monotonic()
        refused = self._refused.get(address)
        if refused is not None and now < refused.until:
            raise InvalidInput(refused.message, code=refused.code)
        down = self._down.get(host)
        if down is not None and now < down.until:
            raise CertificateUnreachable(down.message)

    def _setback(self, error: TallgrassError, seconds: float) -> _Setback:
        return _Setback(until=self._monotonic() + seconds, code=error.code, message=str(error))

    def _ask(self, address: str) -> SigningCertificate:
        try:
            answer = self._get(address)
        except OSError as exc:
            raise CertificateUnreachable(f"{address}: {str(exc) or type(exc).__name__}") from exc
        if answer.status in _GONE:
            raise InvalidInput(
                f"{address}: there is none (HTTP {answer.status})", code="certificate_unusable"
            )
        if answer.status != _OK:
            raise CertificateUnreachable(f"{address}: HTTP {answer.status}")
        return read_certificate(answer.body)


def _keep(table: dict[str, _Kept], key: str, value: _Kept) -> None:
    """Add an entry as the newest; the oldest goes where there are too many."""
    table.pop(key, None)
    table[key] = value
    if len(table) > KEPT_MAX:
        del table[next(iter(table))]
