"""Makes everything again that is derived from a run's journal: its files, the cache, its lineage.

What stands there and is right is left alone, so a rebuild says how much was missing or wrong, and a
second one finds nothing to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from tallgrass.nodes.cache_store import CacheStore, Found
from tallgrass.nodes.entries import Entry, Kind
from tallgrass.nodes.lineage import LineageSink, was_kept_in
from tallgrass.nodes.lineage import rebuild as rebuild_lineage
from tallgrass.nodes.machinery import cache_body
from tallgrass.nodes.wal_store import WalStore

_RESULTS = frozenset({Kind.POST, Kind.HIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild changed."""

    run_id: str
    #: Files that did not say what the journal says.
    files: int
    #: Results that the cache had lost.
    results: int
    #: Events of lineage that were handed on again.
    lineage: int = 0
    #: Bytes of the journal that were set aside, if it was damaged and salvage was asked for.
    salvaged_bytes: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was missing or wrong."""
        return bool(self.files or self.results or self.lineage or self.salvaged_bytes)


def rebuild_run(
    wal: WalStore,
    cache: CacheStore,
    run_id: str,
    *,
    salvage: bool = False,
    lineage: Sequence[LineageSink] = (),
) -> Rebuilt:
    """Make a run's files, its results in the cache and its lineage again.

    Lineage goes to those places that the run's log notes it was handed on to.
    """
    salvaged_bytes = wal.salvage(run_id) if salvage else 0
    files = wal.rebuild(run_id)
    entries = wal.entries(run_id)
    return Rebuilt(
        run_id=run_id,
        files=files,
        results=sum(_restored(cache, entry) for entry in entries),
        lineage=sum(
            rebuild_lineage(run_id, entries, sink) for sink in lineage if was_kept_in(sink, entries)
        ),
        salvaged_bytes=salvaged_bytes,
    )


def forget_node(cache: CacheStore, node_id: str) -> int:
    """Remove a node's results from the cache; return how many went."""
    keys = [key for key, body in cache.bodies() if orjson.loads(body)["node_id"] == node_id]
    for key in keys:
        cache.delete(key)
    return len(keys)


def _restored(cache: CacheStore, entry: Entry) -> bool:
    """Put a result back that the cache should have; False if it has it, or never had it."""
    key = entry.body.get("cache_key") if entry.kind in _RESULTS else None
    if key is None or entry.task is None or cache.get(key).found is Found.HIT:
        return False
    body = cache_body(
        entry.task.node_id,
        entry.body.get("code_version"),
        entry.body["result"],
        entry.body["result_hash"],
    )
    return cache.put(key, body)
