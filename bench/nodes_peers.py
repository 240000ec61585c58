"""Other ways to make four steps durable, or to cache them, each in its best set-up.

Run by an interpreter that has them (`bench/peers.txt`), not by the bench's own:
`python bench/nodes_peers.py PEER PLACE COUNT` runs COUNT graphs, or workflows, of four steps and
prints how many seconds they took together. PLACE is the address of a database, or a file.
"""

# ruff: noqa: PLC0415 - each peer is imported only where it is measured
from __future__ import annotations

import contextlib
import itertools
import sqlite3
import sys
import time
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("a", "b", "c", "d")
WARM_UP = 20
#: Looks into a cache that count as one graph: a graph takes so many times as long.
LOOKS = 64


class State(TypedDict):
    """What goes from step to step."""

    x: int


def add_one(state: State) -> State:
    """Be a step that costs nothing."""
    return {"x": state["x"] + 1}


def build(add: Callable[[Any, str], None]) -> Any:
    """Return four nodes in a row, not compiled yet."""
    from langgraph.graph import START, StateGraph

    builder = StateGraph(State)
    for name in NAMES:
        add(builder, name)
    for before, after in itertools.pairwise((START, *NAMES)):
        builder.add_edge(before, after)
    return builder


def graph(add: Callable[[Any, str], None], **compiled_with: Any) -> Any:
    """Return four nodes in a row."""
    return build(add).compile(**compiled_with)


def timed(run: Callable[[int], int], count: int, begin: int = 0) -> float:
    """Return the seconds of that many calls, after some that do not count."""
    for number in range(WARM_UP):
        run(begin + number)
    began = time.perf_counter()
    for number in range(WARM_UP, WARM_UP + count):
        if run(begin + number) != begin + number + len(NAMES):
            raise SystemExit("a wrong result")
    return time.perf_counter() - began


def invoke(compiled: Any, **options: Any) -> Callable[[int], int]:
    """Return a call of the graph, a thread of its own each."""

    def run(number: int) -> int:
        config = {"configurable": {"thread_id": f"thread-{number}"}}
        x: int = compiled.invoke({"x": number}, config, **options)["x"]
        return x

    return run


def plain(builder: Any, name: str) -> None:
    """Add a node as it is."""
    builder.add_node(name, add_one)


def sqlite_saver(place: str, count: int) -> float:
    """Return the seconds of LangGraph with its checkpoints in SQLite."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with contextlib.closing(sqlite3.connect(place, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        return timed(invoke(graph(plain, checkpointer=saver), durability="sync"), count)


def postgres_saver(place: str, count: int) -> float:
    """Return the seconds of LangGraph with its checkpoints in PostgreSQL."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(place) as saver:
        saver.setup()
        return timed(invoke(graph(plain, checkpointer=saver), durability="sync"), count)


def sqlite_cache(place: str, count: int) -> float:
    """Return the seconds of LangGraph when every node is in its cache; no run is recorded."""
    return timed(hit(_cached(place)), count)


def sqlite_cache_and_saver(place: str, count: int) -> float:
    """Return the seconds of the same where each run is recorded in SQLite."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with contextlib.closing(sqlite3.connect(f"{place}-saver", check_same_thread=False)) as opened:
        compiled = _cached(place, checkpointer=SqliteSaver(opened))
        return timed(hit(compiled, durability="sync"), count)


def _cached(place: str, **compiled_with: Any) -> Any:
    from langgraph.cache.sqlite import SqliteCache
    from langgraph.types import CachePolicy

    def add(builder: Any, name: str) -> None:
        builder.add_node(name, add_one, cache_policy=CachePolicy())

    return graph(add, cache=SqliteCache(path=place), **compiled_with)


def sqlite_look(place: str, count: int) -> float:
    """Return the seconds of looks into LangGraph's cache alone, each of which finds something."""
    from langgraph.cache.sqlite import SqliteCache

    cache: Any = SqliteCache(path=place)
    keys = [(("bench",), f"{number:064x}") for number in range(LOOKS)]
    cache.set({key: ([("x", 1)], None) for key in keys})
    return looks_s(lambda key: cache.get([key]), keys, count)


def looks_s(look: Callable[[Any], Any], keys: list[Any], count: int) -> float:
    """Return the seconds of looking all keys up, that many times."""
    began = time.perf_counter()
    for _ in range(count):
        for key in keys:
            look(key)
    return time.perf_counter() - began


def hit(compiled: Any, prefix: str = "hit", **options: Any) -> Callable[[int], int]:
    """Return a call of the graph with the same input each time, in a thread of its own."""

    def run(number: int) -> int:
        config = {"configurable": {"thread_id": f"{prefix}-{number}"}}
        return int(compiled.invoke({"x": 0}, config, **options)["x"]) + number

    return run


def dbos(place: str, count: int) -> float:
    """Return the seconds of DBOS for a workflow of the same four steps."""
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": place, "run_admin_server": False})
    step = DBOS.step()(_step)

    def run(number: int) -> int:
        x = number
        for _ in NAMES:
            x = step(x)
        return x

    workflow = DBOS.workflow()(run)
    DBOS.launch()
    try:
        return timed(workflow, count)
    finally:
        DBOS.destroy()


def _step(x: int) -> int:
    return x + 1


PEERS = {
    "sqlite-saver": sqlite_saver,
    "postgres-saver": postgres_saver,
    "sqlite-cache": sqlite_cache,
    "sqlite-cache-and-saver": sqlite_cache_and_saver,
    "sqlite-look": sqlite_look,
    "dbos": dbos,
}

if __name__ == "__main__":
    print(PEERS[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
