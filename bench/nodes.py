"""Reliable nodes: a durable graph beside LangGraph's own checkpoints and cache, and DBOS."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.nodes_peers import NAMES, build, graph, hit, invoke, plain, timed
from bench.outbox import peers_python
from bench.report import Row, row
from tallgrass.nodes import NodeRunner
from tallgrass.nodes.graphs import reliable

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
#: For the files of all who are measured.
PLACE = HERE.parent / "build"
#: Of each round's graphs; every graph has a number of its own, so that no result is known.
_NUMBERS = itertools.count(1_000_000, 100_000)


class Ours:
    """The same graph through a runner, without a checkpointer."""

    def __init__(self, folder: Path) -> None:
        self.runner = NodeRunner(folder, pipeline="bench")
        self.bare = graph(plain)
        self.graph = reliable(build(plain), self.runner, code_version="1").compile()

    def durable_s(self, count: int) -> float:
        """Return the seconds of graphs that are all computed."""
        return timed(invoke(self.graph), count, next(_NUMBERS))

    def bare_s(self, count: int) -> float:
        """Return the seconds of LangGraph alone: nothing is durable."""
        return timed(invoke(self.bare), count, next(_NUMBERS))

    def hit_s(self, count: int) -> float:
        """Return the seconds of new runs whose nodes are all in the cache."""
        return timed(hit(self.graph, f"hit-{next(_NUMBERS)}"), count)

    def close(self) -> None:
        """Close what is open."""
        self.runner.close()


def peer_seconds(peer: str, place: str, count: int) -> float:
    """Let a peer run as many graphs."""
    done = subprocess.run(
        [peers_python(), str(HERE / "nodes_peers.py"), peer, place, str(count)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def benchmarks(_folder: Path, new_postgres: Callable[[], str], *, quick: bool = False) -> list[Row]:
    """Return all rows of nodes; all take turns, so that a busy moment meets them alike."""
    # Not below the system's folder of temporary files: where tests had just removed many files,
    # making one took 640 µs instead of 10 to 24 for a while, for whoever made it.
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-nodes-", dir=PLACE) as folder:
        return measured(Path(folder), new_postgres, quick=quick)


def measured(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return the rows, of files in this folder."""
    count, rounds = (20, 1) if quick else (150, 7)
    ours = Ours(folder / "nodes")
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for number in range(rounds):
        durable_s, hit_s = ours.durable_s(count), ours.hit_s(count)
        note("bare", (durable_s - ours.bare_s(count)) / count / len(NAMES) * 1000.0)
        for peer in ("sqlite-saver", "postgres-saver", "dbos"):
            place = new_postgres() if peer != "sqlite-saver" else str(folder / f"{number}.db")
            note(peer, peer_seconds(peer, place, count) / durable_s)
        for peer in ("sqlite-cache", "sqlite-cache-and-saver"):
            note(peer, hit_s / peer_seconds(peer, str(folder / f"{peer}-{number}"), count))
    ours.close()
    return [
        row("nodes, of LangGraph with SqliteSaver sync", found["sqlite-saver"], at_least=1.7),
        row("nodes, of LangGraph with PostgresSaver sync", found["postgres-saver"], at_least=2.5),
        row("nodes, of DBOS with the same steps (postgres)", found["dbos"], at_least=3.0),
        row("nodes, ms a node over bare LangGraph", found["bare"], at_most=1.0),
        row("nodes, all cached, of LangGraph with SqliteCache", found["sqlite-cache"], at_most=1.0),
        row(
            "nodes, all cached, of LangGraph with SqliteCache and SqliteSaver sync",
            found["sqlite-cache-and-saver"],
        ),
    ]
