"""What every call of a runner works with, and the forms of a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tallgrass.clock import Clock
from tallgrass.errors import InvalidInput, NodeWalDamaged
from tallgrass.nodes.cache_store import CacheStore, Found
from tallgrass.nodes.journal import PAYLOAD_BYTES_MAX
from tallgrass.nodes.node_report import NodeReport
from tallgrass.nodes.payloads import Payloads
from tallgrass.nodes.protocols import Gatekeeper, KeyLocks, NodeCall, NodeHooks
from tallgrass.nodes.values import Values
from tallgrass.nodes.wal_store import WalStore

#: Of a value in the log: an entry holds it with what was asked for.
STORED_BYTES_MAX: Final = PAYLOAD_BYTES_MAX - (1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result in all its forms."""

    value: Any
    #: As it stands in log and cache.
    stored: Any
    hash: str


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
        data = orjson.dumps(self.values.encode(value))
        if not sensitive and len(data) > STORED_BYTES_MAX:
            raise InvalidInput(
                f"a value of {len(data)} bytes; at most {STORED_BYTES_MAX} are written",
                code="node_result_unstorable",
            )
        return self.payloads.put(orjson.loads(data), sensitive=sensitive)

    def value_of(self, stored: Any) -> Any:
        """Return the value of what stands in log or cache."""
        return self.values.decode(self.payloads.get(stored))

    def read(self, call: NodeCall, body: Mapping[str, Any]) -> Result:
        """Return the result of an entry of log or cache; one that is not its hash's is refused."""
        value = self.value_of(body["result"])
        if self.values.hash_of(value) != body["result_hash"]:
            raise NodeWalDamaged(f"the result of {call.node_id} has not the hash it was given")
        return Result(value=value, stored=body["result"], hash=body["result_hash"])

    def cached(self, call: NodeCall, key: str) -> Result | None:
        """Return what the cache has; an entry that cannot be used is a miss."""
        try:
            look = self.cache.get(key)
            if look.found is Found.CORRUPT:
                self.report.corrupt(call)
            return None if look.body is None else self.read(call, orjson.loads(look.body))
        except Exception as error:  # noqa: BLE001 - a cache that fails must not fail the node
            self.report.cache_unusable(call, error)
            return None


def cache_body(node_id: str, code_version: str | None, stored: Any, result_hash: str) -> bytes:
    """Return a result as the cache keeps it."""
    body = {
        "node_id": node_id,
        "code_version": code_version,
        "result": stored,
        "result_hash": result_hash,
    }
    return orjson.dumps(body)
