"""Graphs that were stopped anywhere and are started again: with a checkpointer, and without one."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Overwrite, Send

from tallgrass.errors import InvalidInput
from tallgrass.nodes import NodeHooks, RetryPolicy, current_node
from tallgrass.nodes.graphs import reliable
from tests.nodes.graphing import Noted, State, chain, thread
from tests.nodes.running import Watched
from tests.nodes.test_crashes import play_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAVERS = ("none", "memory", "sqlite")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners; the thread is the run."""
    made = Watched(tmp_path / "nodes")
    made.options = {"hooks": NodeHooks(watchers=(made,)), "run_id": None}
    yield made
    made.close()


@contextmanager
def saver_of(kind: str, folder: Path) -> Iterator[Any]:
    """A checkpointer of LangGraph; what the one in memory holds is lost with it."""
    if kind == "sqlite":
        with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
            yield saver
    else:
        yield InMemorySaver() if kind == "memory" else None


class Stopped(BaseException):
    """Ends a run as a signal would."""


def fan_out_graph(noted: Noted, stop_at: str | None) -> Any:
    """Prepare, three parts at once, join, a loop of two, and the end."""

    def node(name: str, work: Any) -> Any:
        def run(state: State) -> Any:
            called = f"{name}{state['x']}"
            noted.calls.append(called)
            if called == stop_at:
                raise Stopped
            return work(state)

        return run

    builder: Any = StateGraph(State)
    sends = [Send("part", {"x": n}) for n in (1, 2, 3)]
    builder.add_node(
        "prepare", node("prepare", lambda _: Command(update={"log": [(0, "p")]}, goto=sends))
    )
    builder.add_node("part", node("part", lambda state: {"log": [(1, state["x"])]}))
    builder.add_node("join", node("join", lambda state: {"x": len(state["log"])}))
    builder.add_node(
        "loop",
        node(
            "loop",
            lambda state: Command(
                update={"x": state["x"] + 1, "log": [(2, state["x"])]},
                goto="loop" if state["x"] < 5 else "last",
            ),
        ),
    )
    builder.add_node(
        "last", node("last", lambda state: {"log": Overwrite([*state["log"], (3, "end")])})
    )
    builder.add_edge(START, "prepare")
    builder.add_edge("part", "join")
    builder.add_edge("join", "loop")
    builder.add_edge("last", END)
    return builder


#: By hand: the state of an uninterrupted run, tuples and all.
LOG = [(0, "p"), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, "end")]
CALLS = ["prepare0", "part1", "part2", "part3", "join0", "loop4", "loop5", "last6"]


@pytest.mark.conformance("NR-3.11", "NR-1.2", "NR-4.4")
@pytest.mark.parametrize("kind", SAVERS)
def test_a_graph_goes_on_from_every_place_it_was_stopped_at(
    tmp_path: Path, watched: Watched, kind: str
) -> None:
    """Same final state, by type; only the node that was stopped is called a second time."""
    # Not cached: what is found again was found in the log.
    options: dict[str, Any] = {"code_version": "1", "cached": False}
    for stop_at in CALLS:
        noted = Noted()
        folder = tmp_path / stop_at
        folder.mkdir()
        place = Watched(folder, watched.options)
        config = thread("t") | {"max_concurrency": 1}
        with saver_of(kind, folder) as saver:
            first = reliable(fan_out_graph(noted, stop_at), place.runner(), **options)
            with pytest.raises(Stopped):
                first.compile(checkpointer=saver).invoke({"x": 0}, config)
        place.close()
        with saver_of(kind, folder) as saver:
            second = reliable(fan_out_graph(noted, None), place.runner(), **options)
            given: Any = None if kind == "sqlite" else {"x": 0}
            state = second.compile(checkpointer=saver).invoke(given, config)
        assert (state["x"], [tuple(each) for each in state["log"]]) == (6, LOG)
        if kind != "sqlite":
            # That checkpointer makes lists of tuples; the runner does not.
            assert {type(each) for each in state["log"]} == {tuple}
        assert sorted(noted.calls) == sorted([*CALLS, stop_at])
        place.close()


@pytest.mark.conformance("NR-3.11", "C-17")
@pytest.mark.parametrize("kind", SAVERS)
def test_attempts_are_counted_over_all_starts(tmp_path: Path, watched: Watched, kind: str) -> None:
    """The task is the same in every process, so its attempts count on; the third is refused."""
    seen: list[int] = []

    def stopped(state: State) -> Any:
        seen.append(current_node().attempt)
        raise ConnectionError("later")

    policy = RetryPolicy(max_attempts=2, base_delay_s=0, max_delay_s=0)
    for start in range(3):
        given: Any = None if kind == "sqlite" and start else {"x": 0}
        with saver_of(kind, tmp_path) as saver:
            builder = reliable(chain(n=stopped), watched.runner(), retry=policy, code_version="1")
            with pytest.raises(Exception, match=r"later|failed for good"):
                builder.compile(checkpointer=saver).invoke(given, thread("t"))
    assert seen == [1, 2]


def test_a_loop_runs_its_node_anew_each_time(watched: Watched) -> None:
    """Also where its inputs are the same: a poll is asked again, in a graph inside a graph too."""
    answers = iter(["wait", "wait", "done"])
    polled: list[str] = []

    def poll(state: State) -> Any:
        polled.append(next(answers))
        return Command(goto=END if polled[-1] == "done" else "poll")

    runner = watched.runner()
    builder = reliable(chain(poll=poll), runner, cached=False, code_version="1")
    builder.compile().invoke({"x": 0}, thread("t"))
    assert polled == ["wait", "wait", "done"]

    polled.clear()
    answers = iter(["wait", "wait", "done"])
    once = reliable(
        chain(ask=lambda state: polled.append(next(answers))),
        runner,
        cached=False,
        code_version="1",
    ).compile()
    around = reliable(
        chain(
            inner=once,
            judge=lambda state: Command(goto=END if polled[-1] == "done" else "inner"),
        ),
        runner,
        cached=False,
        code_version="1",
    )
    around.compile().invoke({"x": 0}, thread("u"))
    assert polled == ["wait", "wait", "done"]


def test_a_thread_goes_on_and_other_threads_are_other_runs(watched: Watched) -> None:
    """A second turn of a thread is new work; a thread of the same inputs finds the cache."""
    noted = Noted()
    builder = reliable(chain(a=noted.node("a")), watched.runner(), uses=("x",), code_version="1")
    graph = builder.compile(checkpointer=InMemorySaver())
    assert graph.invoke({"x": 1}, thread("t"))["log"] == ["a"]
    assert graph.invoke({"x": 1}, thread("t"))["log"] == ["a", "a"]
    assert graph.invoke({"x": 1}, thread("u"))["log"] == ["a"]
    assert [each.status.value for each in watched.outcomes] == ["succeeded", "cached", "cached"]
    assert sorted(path.name for path in (watched.root / "wal").iterdir()) == ["t", "u"]


def test_the_runner_s_run_holds_all_threads_apart(watched: Watched) -> None:
    """Two threads of one run are two tasks, though their inputs are the same."""
    noted = Noted()
    runner = watched.runner(run_id="day")
    builder = reliable(chain(a=noted.node("a")), runner, cached=False, code_version="1")
    for name in ("t", "u", "t"):
        builder.compile().invoke({"x": 1}, thread(name))
    assert noted.calls == ["a", "a"]


# --- graphs inside graphs -------------------------------------------------------------------------


@pytest.mark.conformance("NR-9.4")
@pytest.mark.parametrize("is_async", [False, True])
def test_an_inner_graph_of_reliable_nodes_is_left_as_it_is(
    watched: Watched, *, is_async: bool
) -> None:
    """Its nodes are recorded one by one, and LangGraph still knows that it is a graph."""
    noted = Noted()
    runner = watched.runner(strict=True)
    inner = reliable(chain(a=noted.node("a"), b=noted.node("b")), runner, code_version="1")
    outer = reliable(chain(inner=inner.compile(), c=noted.node("c")), runner, code_version="1")
    graph = outer.compile()
    assert [name for name, _ in graph.get_subgraphs()] == ["inner"]
    for _ in range(2):
        call = graph.ainvoke({"x": 1}, thread("t"))
        state = asyncio.run(call) if is_async else graph.invoke({"x": 1}, thread("t"))
        if not is_async:
            call.close()
        assert state["log"] == ["a", "b", "c"]
    assert noted.calls == ["a", "b", "c"]
    parts = [*graph.stream({"x": 1}, thread("t"), stream_mode="updates", subgraphs=True)]
    assert [[*part[1]] for part in parts] == [["a"], ["b"], ["inner"], ["c"]]


def test_any_other_inner_graph_is_one_node(watched: Watched) -> None:
    """It is recorded whole; a strict graph does not ask what is inside of it."""
    noted = Noted()
    inner = chain(a=noted.node("a"), b=noted.node("b")).compile()
    runner = watched.runner(strict=True)
    graph = reliable(chain(inner=inner), runner, code_version="1").compile()
    for _ in range(2):
        assert graph.invoke({"x": 1}, thread("t"))["log"] == ["a", "b"]
    assert graph.invoke({"x": 1}, thread("u"))["log"] == ["a", "b"]
    assert noted.calls == ["a", "b"]
    assert [(each.call.node_id, each.status.value) for each in watched.outcomes] == [
        ("inner", "succeeded"),
        ("inner", "recorded"),
        ("inner", "cached"),
    ]
    whole = reliable(chain(a=noted.node("a")), runner, code_version="1").compile()
    options = {"inner": {"sensitive": True}}
    with pytest.raises(InvalidInput, match="options are given to them"):
        reliable(chain(inner=whole), runner, code_version="1", options=options)


def test_an_inner_graph_that_became_unreliable_is_found(watched: Watched) -> None:
    """What is compiled is checked all the way down."""
    noted = Noted()
    runner = watched.runner()
    inner: Any = reliable(chain(a=noted.node("a")), runner).compile()
    outer = reliable(chain(inner=inner), runner, strict=True)
    inner.nodes["a"].bound = inner.nodes["a"].bound.inner
    with pytest.raises(InvalidInput, match="a is executed by no runner"):
        outer.compile()


def test_commands_reach_the_parent_graph(watched: Watched) -> None:
    """Returned or raised, a command to the parent is not the inner node's failure."""
    noted = Noted()

    def leave(state: State) -> Any:
        noted.calls.append("leave")
        return Command(graph=Command.PARENT, goto="there", update={"log": ["left"]})

    runner = watched.runner()
    inner = reliable(chain(leave=leave), runner, code_version="1").compile()
    builder: Any = StateGraph(State)
    builder.add_node("inner", inner, destinations=("there",))
    builder.add_node("there", noted.node("there"))
    builder.add_edge(START, "inner")
    graph = reliable(builder, runner, code_version="1").compile()
    for _ in range(2):
        assert graph.invoke({"x": 1}, thread("t"))["log"] == ["left", "there"]
    assert noted.calls == ["leave", "there"]


@pytest.mark.conformance("NR-1.2", "NR-3.11", "NR-5.6")
def test_a_graph_survives_a_kill_at_any_file_operation(tmp_path: Path) -> None:
    """It ends with the same result, calls no node again that had one, and its files are right."""
    found = play_of("graph_roles", "every_kill", tmp_path)
    assert found["result"] == 14 + 24
    assert found["kills"] > 10
    assert found["faults"] == []
