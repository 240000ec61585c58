"""What every call of a runner works with, and the forms of a result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallgrass.clock import Clock
from tallgrass.nodes.cache_store import CacheStore
from tallgrass.nodes.node_report import NodeReport
from tallgrass.nodes.payloads import Payloads
from tallgrass.nodes.protocols import Gatekeeper, KeyLocks, NodeHooks
from tallgrass.nodes.values import Values
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result in all its forms."""

    value: Any
    #: As it stands in log and cache.
    stored: Any
    hash: str
