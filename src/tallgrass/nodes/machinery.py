"""What every call of a runner works with, and the forms of a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tallgrass.clock import Clock
from tallgrass.nodes.cache_store import CacheStore
from tallgrass.nodes.node_report import NodeReport
from tallgrass.nodes.payloads import Payloads
from tallgrass.nodes.protocols import Gatekeeper, KeyLocks, NodeHooks
from tallgrass.nodes.values import Values, stored_bytes
from tallgrass.nodes.wal_store import WalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Machinery:
    """What every call of a runner works with."""

    wal: WalStore
    cache: CacheStore
    locks: KeyLocks
    payloads: Payloads
    values: Values
    gate: Gatekeeper
    hooks: NodeHooks
    report: NodeReport
    clock: Clock
    monotonic: Callable[[], float]
    uniform: Callable[[float, float], float]
    environment: Mapping[str, str]
    strict: bool
    lock_timeout_s: float

    def stored(self, value: Any, *, sensitive: bool) -> Any:
        """Return a value as it stands in log and cache; what could not be read back is refused."""
        # Through bytes: what the caller does to its own value must not reach log and cache.
        encoded = orjson.loads(stored_bytes(self.values.encode(value)))
        return self.payloads.put(encoded, sensitive=sensitive)

    def value_of(self, stored: Any) -> Any:
        """Return the value of what stands in log or cache."""
        return self.values.decode(self.payloads.get(stored))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result in all its forms."""

    value: Any
    #: As it stands in log and cache.
    stored: Any
    hash: str


def cache_body(node_id: str, code_version: str | None, stored: Any, result_hash: str) -> bytes:
    """Return a result as the cache keeps it."""
    body = {
        "node_id": node_id,
        "code_version": code_version,
        "result": stored,
        "result_hash": result_hash,
    }
    return orjson.dumps(body)
