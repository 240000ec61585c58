"""What LangGraph itself gets wrong, shown on the real library, and that a runner gets it right.

Each test has both halves: if LangGraph mends a hole, the first half fails and says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from types import CoroutineType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import httpx
import pytest
import requests
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph._internal._cache import default_cache_key
from langgraph.cache.sqlite import SqliteCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import CachePolicy, Command, Send, interrupt
from langgraph.types import RetryPolicy as GraphRetryPolicy

from tallgrass.errors import InvalidInput, NodeFailed
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy
from tallgrass.nodes.graphs import graph_values, reliable
from tests.nodes.graphing import Noted, State, chain, thread
from tests.nodes.running import Watched
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

AT_ONCE = GraphRetryPolicy(max_attempts=3, initial_interval=0, jitter=False)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners; the thread is the run."""
    made = Watched(tmp_path / "nodes")
    made.options = {"hooks": NodeHooks(watchers=(made,)), "run_id": None}
    yield made
    made.close()


#: One value; only the order in which a process happens to hold it differs.
KEYS = """
import json
from langgraph._internal._cache import default_cache_key
from tallgrass.nodes.values import Values
given = {"sites": {f"gauge-{number}" for number in range(12)}, "flow": {"a": 1.0}}
print(json.dumps([default_cache_key(given).hex(), Values().hash_of(given)]))
"""


def play(*command: str, **environment: str) -> Any:
    """What a process found."""
    child = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def edited(body: str) -> Callable[..., Any]:
    """A node of one name, whose body somebody edits."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(f"def compute(state):\n    return {{'x': {body}}}", names)  # noqa: S102 - an edit
    node: Callable[..., Any] = names["compute"]
    return node


@pytest.mark.conformance("NR-4.5")
def test_an_edited_node_is_computed_anew(tmp_path: Path, watched: Watched) -> None:
    """LangGraph's cache returns what the old body computed; the runner's does not."""
    bodies = ("state['x'] + 1", "state['x'] * 100")
    cache: SqliteCache[Any] = SqliteCache(path=str(tmp_path / "cache.db"))
    stale = []
    for body in bodies:
        builder = chain()
        builder.add_node("compute", edited(body), cache_policy=CachePolicy())
        builder.set_entry_point("compute")
        stale.append(builder.compile(cache=cache).invoke({"x": 10})["x"])
    cache._conn.close()
    assert stale == [11, 11]

    runner = watched.runner()
    results = [
        reliable(chain(compute=edited(body)), runner).compile().invoke({"x": 10}, thread(name))["x"]
        for name, body in zip("tuv", (*bodies, bodies[0]), strict=True)
    ]
    assert results == [11, 1000, 11]
    assert [each.status.value for each in watched.outcomes] == ["succeeded"] * 2 + ["cached"]


@pytest.mark.conformance("NR-3.1", "NR-4.1")
def test_one_input_has_one_key_in_all_processes() -> None:
    """The order of a set gives four processes four keys of LangGraph, and one of the runner."""
    found = [play("-c", KEYS, PYTHONHASHSEED=str(seed)) for seed in range(1, 5)]
    assert len({of_langgraph for of_langgraph, _ in found}) == 4
    assert len({of_the_runner for _, of_the_runner in found}) == 1


@pytest.mark.conformance("NR-4.2")
def test_the_order_of_keys_and_who_holds_a_value_change_no_key(watched: Watched) -> None:
    """LangGraph's key knows the order of a table, and whether two equal texts are one object."""
    one = {"a": "flow", "b": [1, 2]}
    two = {"b": [1, 2], "a": "flow"}
    text, twin = "a long text", str(b"a long text", "ascii")
    assert default_cache_key(one) != default_cache_key(two)
    assert default_cache_key([text, text]) != default_cache_key([text, twin])
    values = graph_values()
    assert values.hash_of(one) == values.hash_of(two)
    assert values.hash_of([text, text]) == values.hash_of([text, twin])


def answered(status: int) -> Exception:
    """What `requests` raises for an answer."""
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(f"{status}", response=response)


@pytest.mark.conformance("NR-6.3")
@pytest.mark.parametrize(
    ("error", "of_langgraph", "of_the_runner"),
    [
        (lambda: answered(404), 3, 1),
        (lambda: answered(403), 3, 1),
        (lambda: answered(503), 3, 3),
        (lambda: answered(429), 3, 3),
        (lambda: TimeoutError("timed out"), 1, 3),
        (lambda: httpx.ReadTimeout("timed out"), 3, 3),
        (lambda: KeyError("typo"), 1, 1),
        (lambda: AssertionError("a bug"), 3, 1),
    ],
)
def test_what_may_heal_is_retried_and_nothing_else(
    watched: Watched, error: Callable[[], Exception], of_langgraph: int, of_the_runner: int
) -> None:
    """LangGraph retries a 404 and not a timeout; the runner does it the other way round."""
    noted = Noted()

    def fail(state: State) -> Any:
        noted.calls.append("fail")
        raise error()

    builder = chain()
    builder.add_node("fail", fail, retry_policy=AT_ONCE)
    builder.set_entry_point("fail")
    with pytest.raises(type(error())):
        builder.compile().invoke({"x": 1})
    assert len(noted.calls) == of_langgraph
    noted.calls.clear()
    policy = RetryPolicy(max_attempts=3)
    graph = reliable(chain(fail=fail), watched.runner(), retry=policy).compile()
    with pytest.raises(type(error())):
        graph.invoke({"x": 1}, thread("t"))
    assert len(noted.calls) == of_the_runner


@pytest.mark.conformance("NR-12.4", "C-17")
def test_a_node_that_kills_its_process_is_given_up(tmp_path: Path) -> None:
    """With two attempts allowed LangGraph runs it in every life, as its first; the runner twice."""
    found = play("-m", "tests.nodes.graph_roles", "killed", str(tmp_path))
    assert found["langgraph"]["calls"] == ["1"] * 5
    assert found["langgraph"]["ends"] == [[None, 9]] * 5
    assert len(found["runner"]["calls"]) == 2
    assert found["runner"]["ends"] == [[None, 9]] * 2 + [[1, None]] * 3


def test_an_interrupt_is_never_swallowed(watched: Watched) -> None:
    """It is an Exception: a loop that retries those gives up on it. The runner passes it on."""

    def ask(state: State) -> Any:
        return {"log": [interrupt("may I?")]}

    def retrying(state: State) -> Any:
        told = ""
        for _ in range(3):
            try:
                return ask(state)
            except Exception as error:  # noqa: BLE001 - what many wrappers do
                told = f"gave up {type(error).__name__}"
        return {"log": [told]}

    config = thread("t")
    naive = chain(ask=retrying).compile(checkpointer=InMemorySaver())
    assert naive.invoke({"x": 1}, config)["log"] == ["gave up GraphInterrupt"]

    retry = RetryPolicy(max_attempts=3, retry_on=(Exception,), no_retry_on=(), retry_unlisted=True)
    builder = reliable(chain(ask=ask), watched.runner(), retry=retry)
    graph = builder.compile(checkpointer=InMemorySaver())
    assert [each.value for each in graph.invoke({"x": 1}, config)["__interrupt__"]] == ["may I?"]
    assert graph.invoke(Command(resume="yes"), config)["log"] == ["yes"]
    assert [each.status.value for each in watched.outcomes] == ["suspended", "succeeded"]
    assert watched.slept == []


@pytest.mark.conformance("NR-4.4", "NR-3.2")
def test_the_update_is_kept_and_not_the_state(watched: Watched) -> None:
    """A wrapper that returns the state doubles what a reducer adds; the runner keeps the update."""
    naive = chain(n=lambda state: {**state, "log": [*state["log"], "n"]})
    assert naive.compile().invoke({"x": 1, "log": ["in"]})["log"] == ["in", "in", "n"]

    noted = Noted()
    builder = reliable(chain(n=noted.node("n")), watched.runner(), code_version="1")
    for name in ("t", "t", "u"):
        state = builder.compile().invoke({"x": 1, "log": ["in"]}, thread(name))
        assert state["log"] == ["in", "n"]
    assert noted.calls == ["n"]
    assert watched.view("t/n/post.json")["result"] == {"log": ["n"]}


def test_retries_are_not_multiplied(watched: Watched) -> None:
    """Three of LangGraph around three of a wrapper are nine; with the runner both are refused."""
    noted = Noted()

    def fail(state: State) -> Any:
        noted.calls.append("fail")
        raise ConnectionError("later")

    policy = RetryPolicy(max_attempts=3)

    def inner(state: State) -> Any:
        for left in (2, 1, 0):
            try:
                return fail(state)
            except ConnectionError:
                if not left:
                    raise
        return None

    stacked = chain()
    stacked.add_node("fail", inner, retry_policy=AT_ONCE)
    stacked.set_entry_point("fail")
    with pytest.raises(ConnectionError):
        stacked.compile().invoke({"x": 1})
    assert len(noted.calls) == 9

    with pytest.raises(InvalidInput) as refused:
        reliable(stacked, watched.runner())
    assert refused.value.code == "node_policy_stacked"
    noted.calls.clear()
    graph = reliable(chain(fail=fail), watched.runner(), retry=policy).compile()
    with pytest.raises(ConnectionError):
        graph.invoke({"x": 1}, thread("t"))
    assert len(noted.calls) == 3


class SlowSaver(InMemorySaver):
    """Holds the writes of the first node back until the second one has begun."""

    def __init__(self, begun: threading.Event) -> None:
        super().__init__()
        self._begun = begun
        self.persisted: list[bool] = []

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Wait for the second node, then write."""
        waited = self._begun.wait(20)
        self.persisted.append(waited)
        super().put_writes(config, writes, task_id, task_path)


def test_a_result_is_durable_before_the_next_node_begins(watched: Watched) -> None:
    """LangGraph's `sync` starts a node while the writes of the one before are not yet stored."""
    begun = threading.Event()
    saver = SlowSaver(begun)
    runner = watched.runner()
    known: list[str] = []

    def second(state: State) -> Any:
        begun.set()
        tasks = runner.wal.read("t").tasks.values() if runner.wal.root.exists() else ()
        known.extend(task.id.node_id for task in tasks if task.post is not None)
        return {"log": ["second"]}

    graph = chain(first=lambda _: {"log": ["first"]}, second=second).compile(checkpointer=saver)
    graph.invoke({"x": 1}, thread("t"), durability="sync")
    # The second node had begun, or the first one's writes would have waited in vain.
    assert saver.persisted[0]
    assert known == []

    begun.clear()
    builder = reliable(chain(first=lambda _: {"log": ["first"]}, second=second), runner)
    builder.compile().invoke({"x": 1}, thread("t"))
    assert known == ["first"]


def test_a_lambda_around_a_node_breaks_it_and_wrapping_does_not(watched: Watched) -> None:
    """An async function gives a coroutine, and the edges that its annotation names are lost."""
    noted = Noted()
    node = noted.async_node("n")
    lost = chain(n=lambda state: node(state))  # noqa: PLW0108 - what a sample shows
    with pytest.raises(InvalidUpdateError):
        asyncio.run(_closing(lost.compile().ainvoke({"x": 1})))
    graph = reliable(chain(n=node), watched.runner(), code_version="1").compile()
    assert asyncio.run(graph.ainvoke({"x": 1}, thread("t")))["log"] == ["n"]

    def route(state: State) -> Command[Literal["there"]]:
        return Command(goto="there")

    def edges(action: Any, wrap: Any) -> set[tuple[str, str]]:
        builder = chain(there=noted.node("there"))
        builder.add_node("route", action)
        builder.add_edge(START, "route")
        drawn = wrap(builder).compile().get_graph().edges
        return {(each.source, each.target) for each in drawn}

    drawn = ("route", "there")
    around = lambda state: route(state)  # noqa: E731, PLW0108 - what a sample shows
    assert drawn not in edges(around, lambda builder: builder)
    assert drawn in edges(route, lambda builder: reliable(builder, watched.runner()))


async def _closing(call: Any) -> Any:
    """Await a call; the coroutine that a broken node leaves behind is closed by its error."""
    try:
        return await call
    except InvalidUpdateError as error:
        _close_coroutines(error)
        raise


def _close_coroutines(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, CoroutineType) and value.__name__ == "node":
                value.close()
        trace = trace.tb_next


def test_tasks_are_told_apart_where_run_and_node_are_the_same(watched: Watched) -> None:
    """LangGraph has no run id unless it is given one, and a fan-out repeats run and node."""
    seen: list[tuple[Any, Any]] = []

    def part(state: State) -> Any:
        info = get_runtime().execution_info
        assert info is not None
        seen.append((info.run_id, info.task_id))
        return {"log": [state["x"]]}

    def build() -> Any:
        builder: Any = StateGraph(State)
        sends = [Send("part", {"x": n}) for n in (1, 2)]
        builder.add_node("split", lambda _: Command(goto=sends))
        builder.add_node("part", part)
        builder.add_edge(START, "split")
        return builder

    build().compile().invoke({"x": 0}, thread("t"))
    build().compile().invoke({"x": 0}, thread("t"))
    assert {run_id for run_id, _ in seen} == {None}
    # Without a checkpoint LangGraph's own task ids are drawn anew.
    assert len({task_id for _, task_id in seen}) == 4

    seen.clear()
    for _ in range(2):
        graph = reliable(build(), watched.runner(), cached=False, code_version="1").compile()
        assert graph.invoke({"x": 0}, thread("t"))["log"] == [1, 2]
    assert len(seen) == 2
    tasks = watched.runners[-1].wal.read("t").tasks
    assert len({task.task_id for task in tasks if task.node_id == "part"}) == 2


def test_langgraph_s_task_ids_are_stable_over_an_interrupt(watched: Watched) -> None:
    """Its run ids are not; the runner's task is one, with both attempts."""
    seen: list[tuple[Any, Any]] = []

    def ask(state: State) -> Any:
        info = get_runtime().execution_info
        assert info is not None
        seen.append((info.run_id, info.task_id))
        return {"log": [interrupt("?")]}

    builder = reliable(chain(ask=ask), watched.runner(), code_version="1")
    graph = builder.compile(checkpointer=InMemorySaver())
    first, second = (
        thread("t") | {"run_id": f"00000000-0000-4000-8000-00000000000{n}"} for n in (1, 2)
    )
    graph.invoke({"x": 1}, first)
    graph.invoke(Command(resume="yes"), second)
    assert len({task_id for _, task_id in seen}) == 1
    assert len({run_id for run_id, _ in seen}) == 2
    (task,) = watched.runners[-1].wal.read("t").tasks.values()
    assert [each.status.value for each in task.attempts] == ["suspended", "succeeded"]


class Chat(TypedDict):
    """A state of messages."""

    messages: Annotated[list[BaseMessage], add_messages]


@pytest.mark.conformance("NR-4.4")
def test_messages_have_one_id_in_every_start_of_a_run(watched: Watched) -> None:
    """LangGraph draws it anew each time, so that no two states are the same."""

    def build() -> Any:
        builder: Any = StateGraph(Chat)
        builder.add_node("say", lambda _: {"messages": [AIMessage("hello")]})
        builder.add_edge(START, "say")
        return builder

    def said(graph: Any) -> str:
        state = graph.invoke({"messages": [HumanMessage("hi")]}, thread("t"))
        return str(state["messages"][1].id)

    assert len({said(build().compile()) for _ in range(3)}) == 3
    runner = watched.runner()
    assert len({said(reliable(build(), runner).compile()) for _ in range(3)}) == 1


def test_types_survive_the_way_through_log_and_cache() -> None:
    """LangGraph's serializer makes lists of tuples, and by default imports what bytes name."""
    value = {"t": (1, 2), "c": Command(update={"t": (3,)})}
    serializer = JsonPlusSerializer()
    back = serializer.loads_typed(serializer.dumps_typed(value))
    assert back["t"] == [1, 2]
    assert back["c"].update == {"t": [3]}
    values = graph_values()
    kept = values.decode(json.loads(json.dumps(values.encode(value))))
    assert kept == value
    assert type(kept["c"].update["t"]) is tuple


def test_a_timeout_bounds_plain_nodes_too(watched: Watched) -> None:
    """LangGraph refuses one for a node that is not async; the runner gives the attempt up."""
    release = threading.Event()

    def stuck(state: State) -> Any:
        release.wait(60)
        return {}

    builder = chain()
    builder.add_node("stuck", stuck, timeout=0.05)
    builder.set_entry_point("stuck")
    with pytest.raises(ValueError, match="timeout"):
        builder.compile().invoke({"x": 1})
    options: dict[str, Any] = {"timeout_s": 0.05, "retry": RetryPolicy(max_attempts=2)}
    graph = reliable(chain(stuck=stuck), watched.runner(), **options).compile()
    try:
        with pytest.raises(TimeoutError):
            graph.invoke({"x": 1}, thread("t"))
        with pytest.raises(NodeFailed):
            graph.invoke({"x": 1}, thread("t"))
    finally:
        release.set()


def test_a_graph_needs_no_extra_to_be_read_about() -> None:
    """The package loads without LangGraph; only the module of graphs wants it."""
    blocked = "import sys; sys.modules['langgraph'] = None; sys.modules['langchain_core'] = None; "
    loads = subprocess.run(
        [sys.executable, "-c", blocked + "import tallgrass.nodes, tallgrass.nodes.node_runner"],
        check=False,
        capture_output=True,
    )
    assert loads.returncode == 0, loads.stderr
    assert NodeRunner.__module__ == "tallgrass.nodes.node_runner"
