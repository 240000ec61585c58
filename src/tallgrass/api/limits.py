"""Limits: how large a request may be, and how many may come in a minute."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Final

from tallgrass.api.problems import RequestRefused

URL_BYTES_MAX: Final = 8192
HEADER_BYTES_MAX: Final = 32_768
BODY_BYTES_MAX: Final = 1_000_000
#: Failed sign-ins of an address in a minute; each is also an entry of the audit log.
FAILURES_PER_MINUTE: Final = 10
_KEYS_MAX = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class Buckets:
    """A token bucket for each key, refilled evenly; a key not seen for long is forgotten."""

    def __init__(self, per_minute: float, *, monotonic: Callable[[], float]) -> None:
        self._size = float(per_minute)
        self._per_s = per_minute / 60
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, key: str, *, take: bool = True) -> float:
        """Take a token; return 0, or how long it takes until there is one again."""
        with self._lock:
            now = self._monotonic()
            bucket = self._buckets.setdefault(key, _Bucket(self._size, now))
            self._buckets.move_to_end(key)
            refilled = bucket.tokens + (now - bucket.filled_at) * self._per_s
            bucket.tokens, bucket.filled_at = min(self._size, refilled), now
            if len(self._buckets) > _KEYS_MAX:
                self._buckets.popitem(last=False)
            if bucket.tokens < 1:
                return (1 - bucket.tokens) / self._per_s
            bucket.tokens -= take
            return 0.0

    def require(self, key: str, what: str, *, take: bool = True) -> None:
        """Take a token, or refuse the request with the time to come again."""
        wait_s = self.wait_s(key, take=take)
        if wait_s:
            raise RequestRefused(
                f"too many {what}; the next is taken in {ceil(wait_s)} s",
                status=HTTPStatus.TOO_MANY_REQUESTS,
                code="rate_limited",
                headers={"Retry-After": str(ceil(wait_s))},
            )


def require_small(raw_url_bytes: int, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuse an address or headers that no honest request needs."""
    if raw_url_bytes > URL_BYTES_MAX:
        raise RequestRefused(
            f"an address of more than {URL_BYTES_MAX:,} bytes",
            status=HTTPStatus.REQUEST_URI_TOO_LONG,
            code="request_too_large",
        )
    if sum(len(name) + len(value) for name, value in headers) > HEADER_BYTES_MAX:
        raise RequestRefused(
            f"headers of more than {HEADER_BYTES_MAX:,} bytes",
            status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            code="request_too_large",
        )


def too_large() -> RequestRefused:
    """Return the refusal of a body."""
    return RequestRefused(
        f"a body of more than {BODY_BYTES_MAX:,} bytes",
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        code="request_too_large",
    )
