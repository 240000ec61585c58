"""Reliable nodes: a durable graph beside LangGraph's own checkpoints and cache, and DBOS."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.nodes_floor import Floor
from bench.nodes_peers import (
    LOOKS,
    NAMES,
    add_one,
    build,
    graph,
    hit,
    invoke,
    looks_s,
    plain,
    timed,
)
from bench.outbox import peers_python
from bench.report import Row, beside, in_turn, row
from tallgrass.nodes import NodeRunner
from tallgrass.nodes.graphs import reliable

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
#: For the files of all who are measured.
PLACE = HERE.parent / "build"
ON_POSTGRES = ("postgres-saver", "dbos")
#: What each is called, what of ours stands beside it, how many times as fast we must be.
PEERS: dict[str, tuple[str, str, float | None]] = {
    "sqlite-saver": ("nodes, of LangGraph with SqliteSaver sync", "durable", 1.7),
    "postgres-saver": ("nodes, of LangGraph with PostgresSaver sync", "durable", 2.5),
    "dbos": ("nodes, of DBOS with the same steps (postgres)", "durable", 3.0),
    "sqlite-cache": ("nodes, all cached, of LangGraph with SqliteCache", "hit", 1.0),
    "sqlite-cache-and-saver": (
        "nodes, all cached, of LangGraph with SqliteCache and SqliteSaver sync",
        "hit",
        None,
    ),
    "sqlite-look": ("nodes, a look into the cache, of LangGraph's SqliteCache", "look", 1.0),
}
#: What the required files and syncs alone come to beside LangGraph: nobody can be faster than that.
FLOORS = {
    "floor": "nodes' files and syncs by bare calls, of LangGraph with SqliteSaver sync",
    "journals": "nodes' synced journals by bare calls, of LangGraph with SqliteSaver sync",
}
#: So long takes a file at most where nothing was removed just before.
SETTLED_S = 60e-6
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

    def look_s(self, count: int) -> float:
        """Return the seconds of looks into the cache alone, each of which finds something."""
        keys = [f"{number:064x}" for number in range(LOOKS)]
        for key in keys:
            self.runner.cache.put(key, b'{"x":1}')
        return looks_s(self.runner.cache.get, keys, count)

    def close(self) -> None:
        """Close what is open."""
        self.runner.close()


class AtLeast:
    """A floor: a graph whose nodes only write, and sync, what ours do; or their journals alone."""

    def __init__(self, folder: Path, *, files: bool = True) -> None:
        self.floor = Floor(folder)
        made = self.floor.node if files else self.floor.journaled
        compiled = graph(lambda builder, name: builder.add_node(name, made(name, add_one)))
        self._invoke = invoke(compiled)

    def floor_s(self, count: int) -> float:
        """Return the seconds of graphs, a run each."""
        return timed(self._run, count, next(_NUMBERS))

    def _run(self, number: int) -> int:
        self.floor.begin(f"thread-{number}")
        return self._invoke(number)


def settle(folder: Path, seconds: float = 60.0) -> None:
    """Wait until files are made as quickly as usual.

    For half a minute after many files were removed nearby, ext4 takes up to a millisecond to make
    one: it passes over inodes that were in use just before, one by one.
    """
    until = time.monotonic() + seconds
    for number in itertools.count():
        began = time.perf_counter()
        for place in range(20):
            (folder / f"settled-{number}-{place}").touch()
        if (time.perf_counter() - began) / 20 < SETTLED_S or time.monotonic() > until:
            return
        time.sleep(2.0)


def peer_seconds(peer: str, place: str, count: int) -> float:
    """Let a peer run as many graphs."""
    done = subprocess.run(
        [peers_python(), str(HERE / "nodes_peers.py"), peer, place, str(count)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def benchmarks(_folder: Path, new_postgres: Callable[[], str], *, quick: bool = False) -> list[Row]:
    """Return all rows of nodes; all take turns, so that a busy moment meets them alike."""
    # Not below the system's folder of temporary files, where others make and remove many.
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-nodes-", dir=PLACE) as folder:
        settle(Path(folder))
        return measured(Path(folder), new_postgres, quick=quick)


def measured(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return the rows, of files in this folder."""
    count, rounds = (20, 1) if quick else (150, 7)
    ours, at_least = Ours(folder / "nodes"), AtLeast(folder / "floor")
    journals = AtLeast(folder / "journals", files=False)
    sides: dict[str, Callable[[], float]] = {
        "durable": lambda: ours.durable_s(count),
        "hit": lambda: ours.hit_s(count),
        "bare": lambda: ours.bare_s(count),
        "floor": lambda: at_least.floor_s(count),
        "journals": lambda: journals.floor_s(count),
        "look": lambda: ours.look_s(count),
    }
    for peer in PEERS:
        sides[peer] = lambda peer=peer: peer_seconds(  # type: ignore[misc]
            peer,
            new_postgres() if peer in ON_POSTGRES else str(folder / f"{peer}-{next(_NUMBERS)}"),
            count,
        )
    # All take turns, the last first in every second round.
    found = [
        {side: sides[side]() for side in in_turn(number, tuple(sides))} for number in range(rounds)
    ]
    ours.close()
    at_least.floor.close()
    journals.floor.close()
    over = [(each["durable"] - each["bare"]) / count / len(NAMES) * 1000.0 for each in found]
    return [
        *(
            beside(
                name,
                [(count / each[side], count / each[peer]) for each in found],
                "graphs/s" if side != "look" else f"times {LOOKS} looks/s",
                at_least=least,
                peer=peer,
            )
            for peer, (name, side, least) in PEERS.items()
        ),
        beside(
            "nodes, of their floor: the same files and syncs",
            [(count / each["durable"], count / each["floor"]) for each in found],
            "graphs/s",
            at_least=0.5,
        ),
        *(
            beside(
                name,
                [(count / each[side], count / each["sqlite-saver"]) for each in found],
                "graphs/s",
            )
            for side, name in FLOORS.items()
        ),
        row("nodes, ms a node over bare LangGraph", over, at_most=1.0, limit=1.0, unit="ms"),
    ]
