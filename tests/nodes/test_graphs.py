"""Graphs whose nodes a runner executes: what stays as it was, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.errors import NodeError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, Send, StreamWriter
from langgraph.types import RetryPolicy as GraphRetryPolicy

from tallgrass.errors import GovernanceError, InvalidInput, NodeFailed, TransientError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy
from tallgrass.nodes.graphs import reliable, require_reliable
from tests.nodes.graphing import Noted, State, chain, thread
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.nodes.protocols import NodeCall, NodeDeclaration


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners; the thread is the run."""
    made = Watched(tmp_path / "nodes")
    made.options = {"hooks": NodeHooks(watchers=(made,)), "run_id": None}
    yield made
    made.close()


def statuses(watched: Watched) -> list[tuple[str, str]]:
    """What came of each node, in order."""
    return [(outcome.call.node_id, outcome.status.value) for outcome in watched.outcomes]


@pytest.mark.conformance("NR-9.1", "C-42")
@pytest.mark.parametrize("is_async", [False, True])
def test_the_specification_s_snippet_works_in_a_graph(watched: Watched, *, is_async: bool) -> None:
    """A node that calls the runner itself is recorded, and answered from the log on resume."""
    runner = watched.runner(run_id="run-1")
    noted = Noted()
    my_node_fn = noted.node("my_node", lambda state: {"x": state["x"] + 1})
    builder = chain(
        my_node=lambda state: runner.run(
            node_id="my_node", code_version="4f2c", inputs=state, exec_fn=my_node_fn
        )
    )
    graph = builder.compile()
    for _ in range(2):
        result = asyncio.run(graph.ainvoke({"x": 1})) if is_async else graph.invoke({"x": 1})
        assert result == {"x": 2, "log": []}
    assert noted.calls == ["my_node"]
    assert statuses(watched) == [("my_node", "succeeded"), ("my_node", "recorded")]
    assert watched.view("run-1/my_node/post.json")["result"] == {"x": 2}


class Part(TypedDict):
    """What one node alone is given."""

    x: int


def test_a_wrapped_graph_keeps_its_shape() -> None:
    """Names, drawn edges and what each node is given are those of the graph as it was built."""

    def route(state: State) -> Command[Literal["left", "right"]]:
        return Command(goto="left")

    def build() -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("route", route)
        builder.add_node("left", lambda state: state)
        builder.add_node("right", _part)
        builder.add_node("far", lambda state: state, destinations=("left",))
        builder.add_edge(START, "route")
        return builder

    runner = NodeRunner("unused")
    plain, wrapped = build(), reliable(build(), runner)
    assert (
        wrapped.compile().get_graph().draw_mermaid() == plain.compile().get_graph().draw_mermaid()
    )
    assert wrapped.nodes["route"].ends == ("left", "right")
    assert wrapped.nodes["right"].input_schema is Part
    assert {name: each.input_schema for name, each in wrapped.nodes.items()} == {
        name: each.input_schema for name, each in plain.nodes.items()
    }


def _part(state: Part) -> dict[str, int]:
    return {"x": len(state)}


@dataclass
class Context:
    """What a run is given beside its state."""

    factor: int


@pytest.mark.parametrize("is_async", [False, True])
def test_nodes_get_all_that_langgraph_hands_to_them(watched: Watched, *, is_async: bool) -> None:
    """Config, runtime, store and writer; custom, updates and messages are streamed."""

    def node(
        state: State,
        config: RunnableConfig,
        runtime: Runtime[Context],
        writer: StreamWriter,
        store: Any,
    ) -> Any:
        writer({"progress": 1})
        held = runtime.store.get(("a",), "k") if runtime.store else None
        return {
            "x": state["x"] * runtime.context.factor,
            "log": [config["metadata"]["langgraph_node"], held and held.value["v"]],
        }

    node.__annotations__ |= {
        "config": RunnableConfig,
        "runtime": Runtime[Context],
        "writer": StreamWriter,
    }
    store = InMemoryStore()
    store.put(("a",), "k", {"v": 7})
    builder: Any = StateGraph(State, context_schema=Context)
    node.__annotations__.pop("store")
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = reliable(builder, watched.runner()).compile(store=store)
    modes: list[Any] = ["custom", "updates"]
    options: dict[str, Any] = {"stream_mode": modes, "context": Context(factor=3)}

    async def collect() -> list[Any]:
        return [part async for part in graph.astream({"x": 2}, thread("t"), **options)]

    parts = (
        asyncio.run(collect()) if is_async else [*graph.stream({"x": 2}, thread("t"), **options)]
    )
    update = {"node": {"x": 6, "log": ["node", 7]}}
    assert parts == [("custom", {"progress": 1}), ("updates", update)]


def test_messages_are_streamed_from_runs_and_from_hits(watched: Watched) -> None:
    """A stream of messages shows each one once, whether the node ran or not."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage("hello")]})
    builder.add_edge(START, "say")
    graph = reliable(builder, watched.runner(), code_version="1").compile()
    for name in ("one", "two"):
        parts = [*graph.stream({"messages": []}, thread(name), stream_mode="messages")]
        assert [(part[0].content, part[1]["langgraph_node"]) for part in parts] == [
            ("hello", "say")
        ]
    assert statuses(watched) == [("say", "succeeded"), ("say", "cached")]


@pytest.mark.conformance("NR-9.1")
def test_plain_and_async_nodes_share_a_graph(watched: Watched) -> None:
    """`ainvoke` runs both; an async node in `invoke` is refused as LangGraph does, not failed."""
    noted = Noted()
    builder = chain(plain=noted.node("plain"), late=noted.async_node("late"))
    graph = reliable(builder, watched.runner(), code_version="1").compile()
    assert asyncio.run(graph.ainvoke({"x": 1}, thread("a")))["log"] == ["plain", "late"]
    with pytest.raises(TypeError, match="No synchronous function"):
        graph.invoke({"x": 2}, thread("b"))
    assert noted.calls == ["plain", "late", "plain"]
    assert asyncio.run(graph.ainvoke({"x": 2}, thread("b")))["log"] == ["plain", "late"]
    assert noted.calls == ["plain", "late", "plain", "late"]


def test_batches_keep_their_inputs_apart(watched: Watched) -> None:
    """Also where the runner's run holds all of them; the next process finds each result."""
    noted = Noted()
    inputs: list[Any] = [{"x": n} for n in range(5)]

    def build() -> Any:
        nodes = {"n": noted.node("n", lambda state: {"x": state["x"] * 10})}
        return reliable(
            chain(**nodes), watched.runner(run_id="all"), cached=False, code_version="1"
        ).compile()

    expected = [{"x": n * 10, "log": []} for n in range(5)]
    assert build().batch(inputs) == expected
    assert asyncio.run(build().abatch(inputs)) == expected
    assert len(noted.calls) == 5


@pytest.mark.conformance("NR-10.1")
def test_locks_gate_and_checkers_of_others_are_asked(watched: Watched) -> None:
    """A graph's nodes take the lock and are checked, by what the runner was given for it."""
    seen: list[str] = []

    class Locks:
        def acquire(self, name: str, timeout_s: float) -> str:
            seen.append("lock")
            return name

        def release(self, held: str) -> None:
            seen.append("unlock")

    class Checker:
        fingerprint = "rules-1"

        def before(self, call: NodeCall, inputs: Any) -> None:
            seen.append(f"before {inputs}")

        def after(self, call: NodeCall, inputs: Any, result: Any) -> None:
            seen.append(f"after {result}")
            if result["x"] > 2:
                raise GovernanceError("too much")

    hooks = NodeHooks(validators=(Checker(),))
    runner = watched.runner(locks=Locks(), hooks=hooks)
    graph = reliable(chain(n=lambda state: {"x": state["x"] + 1}), runner, uses=("x",)).compile()
    graph.invoke({"x": 1}, thread("t"))
    assert seen == ["lock", "before {'x': 1}", "after {'x': 2}", "unlock"]
    with pytest.raises(GovernanceError, match="too much"):
        graph.invoke({"x": 2}, thread("u"))


# --- what is refused ------------------------------------------------------------------------------


def test_graphs_at_the_wrong_stage_are_refused_with_the_right_one(watched: Watched) -> None:
    """Wrapping comes before compiling, and judging after it."""
    builder = chain(a=Noted().node("a"))
    with pytest.raises(InvalidInput, match="wrap its builder") as refused:
        reliable(builder.compile(), watched.runner())
    assert refused.value.code == "node_declaration_invalid"
    with pytest.raises(InvalidInput, match="not compiled yet"):
        require_reliable(builder)


@pytest.mark.conformance("NR-9.4")
def test_a_strict_graph_has_no_node_beside_the_runner(watched: Watched) -> None:
    """One that was left out or added later is refused when the graph is compiled."""
    noted = Noted()

    def build(**options: Any) -> Any:
        return reliable(chain(a=noted.node("a")), watched.runner(), strict=True, **options)

    assert build().compile().invoke({"x": 1}, thread("t"))["log"] == ["a"]
    late = build()
    late.add_node("late", noted.node("late"))
    late.add_edge("a", "late")
    with pytest.raises(InvalidInput, match="late is executed by no runner") as refused:
        late.compile()
    assert refused.value.code == "node_unwrapped"
    with pytest.raises(InvalidInput, match="a is executed by no runner"):
        build(options={"a": None}).compile()
    assert reliable(late, watched.runners[-2]).compile().invoke({"x": 1}, thread("u"))["log"] == [
        "a",
        "late",
    ]


@pytest.mark.conformance("NR-9.4")
def test_a_strict_runner_makes_a_strict_graph(watched: Watched) -> None:
    """It wants versions too; a compiled graph of somebody else can be checked as well."""
    noted = Noted()
    strict = watched.runner(strict=True)
    with pytest.raises(InvalidInput) as refused:
        reliable(chain(a=noted.node("a")), strict)
    assert refused.value.code == "node_code_version_missing"
    with pytest.raises(InvalidInput, match="executed by no runner"):
        reliable(chain(a=noted.node("a")), strict, code_version="1", options={"a": None}).compile()
    with pytest.raises(InvalidInput, match="executed by no runner"):
        require_reliable(chain(a=noted.node("a")).compile())
    require_reliable(reliable(chain(a=noted.node("a")), strict, code_version="1").compile())


def test_a_graph_that_is_not_strict_wraps_late_nodes_and_leaves_some(watched: Watched) -> None:
    """What is added later is wrapped when it is compiled; what was named stays as it is."""
    noted = Noted()
    builder = chain(a=noted.node("a"), b=noted.node("b"))
    reliable(builder, watched.runner(), options={"b": None})
    builder.add_node("late", noted.node("late"))
    builder.add_edge("b", "late")
    assert builder.compile().invoke({"x": 1}, thread("t"))["log"] == ["a", "b", "late"]
    assert statuses(watched) == [("a", "succeeded"), ("late", "succeeded")]


@pytest.mark.parametrize("policy", ["retry_policy", "cache_policy", "timeout"])
@pytest.mark.parametrize("by_default", [False, True])
def test_policies_of_langgraph_are_refused_beside_the_runner_s(
    watched: Watched, policy: str, *, by_default: bool
) -> None:
    """On a node, or for all of them; the message says what to give instead."""
    given: dict[str, Any] = {
        "retry_policy": GraphRetryPolicy(max_attempts=3),
        "cache_policy": CachePolicy(),
        "timeout": 5.0,
    }
    builder: Any = StateGraph(State)
    builder.add_node(
        "n", Noted().async_node("n"), **({} if by_default else {policy: given[policy]})
    )
    builder.add_edge(START, "n")
    if by_default:
        builder.set_node_defaults(**{policy: given[policy]})
    with pytest.raises(InvalidInput, match=policy) as refused:
        reliable(builder, watched.runner()).compile(cache=InMemoryCache())
    assert refused.value.code == "node_policy_stacked"


def test_wrapping_twice_changes_nothing_or_is_refused(watched: Watched) -> None:
    """The same runner finds its nodes; another one, and options that come too late, are refused."""
    noted = Noted()
    runner = watched.runner()
    own = runner.wrap(noted.node("own"), node_id="own", code_version="1")
    builder = reliable(reliable(chain(a=noted.node("a"), own=own), runner), runner)
    for _ in range(2):
        assert builder.compile().invoke({"x": 1}, thread("t"))["log"] == ["a", "own"]
    assert statuses(watched)[1::2] == [("own", "succeeded"), ("own", "recorded")]
    assert noted.calls.count("own") == 1
    for other in (builder, chain(own=own)):
        with pytest.raises(InvalidInput, match="another runner"):
            reliable(other, watched.runner())
    with pytest.raises(InvalidInput, match="wrapped before"):
        reliable(chain(own=own), runner, options={"own": {"cached": False}})


def test_options_that_nothing_knows_are_refused(watched: Watched) -> None:
    """A node that is not there, an option that no node has, and a text in place of names."""
    cases: list[tuple[Any, Any]] = [({"b": {}}, {}), ({"a": {"cachd": 0}}, {}), ({}, {"cachd": 1})]
    cases += [({"a": {"config_keys": "user"}}, {}), ({}, {"uses": "x"})]
    for options, common in cases:
        with pytest.raises(InvalidInput) as refused:
            reliable(chain(a=Noted().node("a")), watched.runner(), options=options, **common)
        assert refused.value.code == "node_declaration_invalid"


def test_a_graph_without_run_and_thread_is_refused(watched: Watched) -> None:
    """Nothing could be resumed: there is no name under which it is recorded."""
    noted = Noted()
    with pytest.raises(InvalidInput, match="thread_id"):
        reliable(chain(a=noted.node("a")), watched.runner()).compile().invoke({"x": 1})
    assert noted.calls == []


# --- nodes that are no functions ------------------------------------------------------------------


def test_runnables_are_nodes_too(watched: Watched) -> None:
    """A chain of runnables is one node; what it returns to be run is run inside of it."""
    doubled: Any = RunnableLambda(lambda state: {"x": state["x"] * 2})
    builder = chain(
        sequence=doubled | RunnableLambda(lambda state: {"x": state["x"] + 1}),
        indirect=lambda state: doubled,
    )
    graph = reliable(builder, watched.runner()).compile()
    assert graph.invoke({"x": 5}, thread("t"))["x"] == 22
    assert graph.invoke({"x": 5}, thread("t"))["x"] == 22
    assert [status for _, status in statuses(watched)] == ["succeeded"] * 2 + ["recorded"] * 2


def test_tools_are_called_once_a_run(watched: Watched) -> None:
    """A `ToolNode` is a node: its messages are recorded, and no tool is called on resume."""
    calls: list[str] = []

    @tool
    def gauge(site: str) -> str:
        """Read a gauge."""
        calls.append(site)
        return f"{site}: 3.2 m"

    builder: Any = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([gauge]))
    builder.add_edge(START, "tools")
    graph = reliable(builder, watched.runner()).compile()
    asked = AIMessage("", tool_calls=[{"name": "gauge", "args": {"site": "06889000"}, "id": "c1"}])
    states = [graph.invoke({"messages": [asked]}, thread("t"))["messages"][1] for _ in range(2)]
    assert [(each.content, each.tool_call_id) for each in states] == [("06889000: 3.2 m", "c1")] * 2
    assert states[0] == states[1]
    assert calls == ["06889000"]


def test_handlers_of_errors_work_and_are_recorded(watched: Watched) -> None:
    """One of a node, and one of all nodes; on resume the failed node is not tried again."""
    noted = Noted()

    def fail(state: State) -> Any:
        noted.calls.append("fail")
        raise ValueError("no such gauge")

    def handle(state: State, error: NodeError) -> Any:
        noted.calls.append("handle")
        return {"log": [f"{error.node} failed"]}

    handle.__annotations__["error"] = NodeError
    for by_default in (False, True):
        noted.calls.clear()
        name = f"t{by_default}"
        for _ in range(2):
            builder: Any = StateGraph(State)
            builder.add_node("fail", fail, **({} if by_default else {"error_handler": handle}))
            builder.add_edge(START, "fail")
            if by_default:
                builder.set_node_defaults(error_handler=handle)
            runner = watched.runner(strict=True)
            graph = reliable(builder, runner, code_version="1").compile()
            assert graph.invoke({"x": 1}, thread(name))["log"] == ["fail failed"]
        assert noted.calls == ["fail", "handle"]


def test_a_failed_node_stays_failed_in_its_thread(watched: Watched) -> None:
    """Retries are the runner's, over both calls; another thread may try."""
    noted = Noted()

    def flaky(state: State) -> Any:
        noted.calls.append("flaky")
        raise TransientError("later")

    policy = RetryPolicy(max_attempts=3)
    graph = reliable(chain(flaky=flaky), watched.runner(), retry=policy, code_version="1").compile()
    with pytest.raises(TransientError):
        graph.invoke({"x": 1}, thread("t"))
    with pytest.raises(NodeFailed):
        graph.invoke({"x": 1}, thread("t"))
    assert len(noted.calls) == 3
    with pytest.raises(TransientError):
        graph.invoke({"x": 1}, thread("u"))
    assert len(noted.calls) == 6


def test_a_fan_out_runs_its_nodes_at_once(watched: Watched) -> None:
    """Each `Send` is a task of its own in the log, those with equal inputs too."""
    together = threading.Barrier(3, timeout=30)

    def work(state: State) -> Any:
        together.wait()
        return {"log": [state["x"]]}

    builder: Any = StateGraph(State)
    builder.add_node(
        "split", lambda state: Command(goto=[Send("work", {"x": n}) for n in (4, 5, 5)])
    )
    builder.add_node("work", work)
    builder.add_edge(START, "split")
    builder.add_edge("work", END)
    graph = reliable(builder, watched.runner(), options={"work": {"cached": False}}).compile()
    assert graph.invoke({"x": 0}, thread("t"))["log"] == [4, 5, 5]
    folder = watched.root / "wal" / "t" / "work"
    assert len([*folder.glob("tasks/*/post.json"), *folder.glob("post.json")]) == 3


def test_gates_see_the_declared_node(watched: Watched) -> None:
    """The declaration of each node comes from the options, over those of all nodes."""
    seen: list[NodeDeclaration] = []

    class Gate:
        def fingerprint(self, declaration: NodeDeclaration) -> str:
            return "1"

        def admit(self, declaration: NodeDeclaration) -> Any:
            seen.append(declaration)
            raise GovernanceError("no")

    runner = watched.runner(gate=Gate())
    options = {"a": {"dataset": "goes-glm"}}
    graph = reliable(
        chain(a=Noted().node("a")), runner, dataset="nexrad", data_version="7", options=options
    ).compile()
    with pytest.raises(GovernanceError):
        graph.invoke({"x": 1}, thread("t"))
    assert [(each.dataset, each.data_version) for each in seen] == [("goes-glm", "7")]
