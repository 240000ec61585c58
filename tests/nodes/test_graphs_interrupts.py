"""Interrupts of wrapped nodes: asked once, answered by a person, never by a log or a cache."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from tallgrass.errors import TransientError
from tallgrass.nodes import NodeHooks, RetryPolicy
from tallgrass.nodes.graphs import reliable
from tests.nodes.graphing import Noted, State, chain, thread
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A folder for runners; the thread is the run."""
    made = Watched(tmp_path / "nodes")
    made.options = {"hooks": NodeHooks(watchers=(made,)), "run_id": None}
    yield made
    made.close()


def asking(noted: Noted) -> Any:
    """A node that asks whether it may go on."""

    def ask(state: State) -> Any:
        noted.calls.append("ask")
        return {"log": [interrupt(f"{state['x']}?")]}

    return ask


def asked(state: dict[str, Any]) -> list[Any]:
    """What a graph's answer says that people are asked."""
    return [each.value for each in state.get("__interrupt__", ())]


def statuses(watched: Watched) -> list[str]:
    """What came of each call, in order."""
    return [each.status.value for each in watched.outcomes]


def test_an_interrupt_suspends_the_node_and_its_answer_resumes_it(watched: Watched) -> None:
    """It is one task with two attempts, the first suspended; nodes before it are not called."""
    noted = Noted()
    builder = chain(before=noted.node("before"), ask=asking(noted), after=noted.node("after"))
    graph = reliable(builder, watched.runner(), code_version="1").compile(
        checkpointer=InMemorySaver()
    )
    assert asked(graph.invoke({"x": 1}, thread("t"))) == ["1?"]
    assert graph.invoke(Command(resume="yes"), thread("t"))["log"] == ["before", "yes", "after"]
    assert noted.calls == ["before", "ask", "ask", "after"]
    assert statuses(watched) == ["succeeded", "suspended", "succeeded", "succeeded"]
    attempts = watched.view("t/ask/attempts.json")
    assert [each["status"] for each in attempts] == ["suspended", "succeeded"]
    assert watched.view("t/ask/failed.json") is None


def test_an_answer_is_not_taken_for_another_one(watched: Watched) -> None:
    """Another thread is asked again, and so is the same one when it goes back to its start."""
    noted = Noted()
    builder = reliable(chain(ask=asking(noted)), watched.runner(), code_version="1")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"x": 1}, thread("t"))
    assert graph.invoke(Command(resume="yes"), thread("t"))["log"] == ["yes"]
    history = [*graph.get_state_history(thread("t"))]
    (start,) = [each.config for each in history if each.next == ("__start__",)]
    assert asked(graph.invoke(None, start)) == ["1?"]
    assert graph.invoke(Command(resume="no"), thread("t"))["log"] == ["no"]
    assert asked(graph.invoke({"x": 1}, thread("u"))) == ["1?"]
    assert graph.invoke(Command(resume="never"), thread("u"))["log"] == ["never"]


def test_a_retry_does_not_ask_again(watched: Watched) -> None:
    """The attempts after an answer find it, each question its own."""
    calls: list[str] = []

    def flaky(state: State) -> Any:
        answers = [interrupt("first?"), interrupt("second?")]
        calls.append("".join(answers))
        if len(calls) < 3:
            raise TransientError("later")
        return {"log": answers}

    graph = reliable(
        chain(flaky=flaky), watched.runner(), retry=RetryPolicy(max_attempts=3), code_version="1"
    ).compile(checkpointer=InMemorySaver())
    assert asked(graph.invoke({"x": 1}, thread("t"))) == ["first?"]
    assert asked(graph.invoke(Command(resume="a"), thread("t"))) == ["second?"]
    assert graph.invoke(Command(resume="b"), thread("t"))["log"] == ["a", "b"]
    assert calls == ["ab", "ab", "ab"]
    assert watched.slept == [2, 4]
    attempts = watched.view("t/flaky/attempts.json")
    assert [each["status"] for each in attempts] == [
        *["suspended"] * 2,
        *["failed"] * 2,
        "succeeded",
    ]


def test_parts_of_a_fan_out_are_asked_each(watched: Watched) -> None:
    """Answers by id reach their tasks; a part that needed none is not called again."""
    noted = Noted()

    def part(state: State) -> Any:
        noted.calls.append(f"part{state['x']}")
        return {"log": [state["x"] if state["x"] == 2 else interrupt(state["x"])]}

    builder: Any = StateGraph(State)
    builder.add_node("split", lambda _: Command(goto=[Send("part", {"x": n}) for n in (1, 2, 3)]))
    builder.add_node("part", part)
    builder.add_edge(START, "split")
    graph = reliable(builder, watched.runner(), code_version="1").compile(
        checkpointer=InMemorySaver()
    )
    waiting = graph.invoke({"x": 0}, thread("t"))["__interrupt__"]
    answers = {each.id: f"ok{each.value}" for each in waiting}
    assert sorted(answers.values()) == ["ok1", "ok3"]
    assert graph.invoke(Command(resume=answers), thread("t"))["log"] == ["ok1", 2, "ok3"]
    assert noted.calls.count("part2") == 1


def test_an_answer_survives_the_process(tmp_path: Path, watched: Watched) -> None:
    """Asked in one process, answered in the next, by a checkpointer on disk; streamed and async."""
    noted = Noted()
    path = str(tmp_path / "checkpoints.db")

    def build(saver: Any) -> Any:
        builder = chain(before=noted.node("before"), ask=asking(noted))
        return reliable(builder, watched.runner(), code_version="1").compile(checkpointer=saver)

    with SqliteSaver.from_conn_string(path) as saver:
        parts = [*build(saver).stream({"x": 1}, thread("t"), stream_mode="updates")]
    assert [[*part] for part in parts] == [["before"], ["__interrupt__"]]

    async def answer() -> Any:
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            return await build(saver).ainvoke(Command(resume="yes"), thread("t"))

    assert asyncio.run(answer())["log"] == ["before", "yes"]
    assert noted.calls == ["before", "ask", "ask"]


def test_async_nodes_are_interrupted_and_retried_too(watched: Watched) -> None:
    """The same as for plain ones."""
    calls: list[str] = []

    async def ask(state: State) -> Any:
        answer = interrupt("?")
        calls.append(answer)
        if len(calls) < 2:
            raise TransientError("later")
        return {"log": [answer]}

    graph = reliable(chain(ask=ask), watched.runner(), code_version="1").compile(
        checkpointer=InMemorySaver()
    )

    async def play() -> Any:
        assert asked(await graph.ainvoke({"x": 1}, thread("t"))) == ["?"]
        return await graph.ainvoke(Command(resume="yes"), thread("t"))

    assert asyncio.run(play())["log"] == ["yes"]
    assert calls == ["yes", "yes"]


@pytest.mark.parametrize("as_one", [False, True])
def test_interrupts_inside_of_inner_graphs_come_through(watched: Watched, *, as_one: bool) -> None:
    """Whether the inner graph's nodes are wrapped or the graph is one node."""
    noted = Noted()
    runner = watched.runner()
    inner: Any = chain(a=noted.node("a"), ask=asking(noted))
    if not as_one:
        inner = reliable(inner, runner, code_version="1")
    builder = reliable(chain(inner=inner.compile()), runner, code_version="1")
    graph = builder.compile(checkpointer=InMemorySaver())
    assert asked(graph.invoke({"x": 1}, thread("t"))) == ["1?"]
    assert graph.invoke(Command(resume="yes"), thread("t"))["log"] == ["a", "yes"]
    assert noted.calls == ["a", "ask", "ask"]


def test_signals_that_a_node_raises_are_passed_on(watched: Watched) -> None:
    """Suspended, neither retried nor failed: an interrupt without a checkpointer, and a command."""

    def interrupted(state: State) -> Any:
        raise GraphInterrupt

    def leave(state: State) -> Any:
        raise ParentCommand(Command(graph=Command.PARENT, goto="there"))

    noted = Noted()
    runner = watched.runner()
    reliable(chain(n=interrupted), runner, code_version="1").compile().invoke({"x": 1}, thread("t"))
    inner = reliable(chain(leave=leave), runner, code_version="1").compile()
    builder: Any = StateGraph(State)
    builder.add_node("inner", inner, destinations=("there",))
    builder.add_node("there", noted.node("there"))
    builder.add_edge(START, "inner")
    graph = reliable(builder, runner, code_version="1").compile()
    assert graph.invoke({"x": 1}, thread("u"))["log"] == ["there"]
    assert statuses(watched) == ["suspended", "suspended", "succeeded"]
    assert watched.slept == []


def test_answers_inside_of_a_graph_are_not_taken_for_others(watched: Watched) -> None:
    """A graph that is one node asks in every thread, however its questions were answered."""

    def twice(state: State) -> Any:
        return {"log": [interrupt("first?"), interrupt("second?")]}

    inner = chain(twice=twice).compile()
    held = reliable(
        chain(inner=inner, calling=lambda state: {"log": [len(inner.name)]}),
        watched.runner(),
        code_version="1",
    )
    graph = held.compile(checkpointer=InMemorySaver())
    for name, first in (("t", "a"), ("u", "c")):
        (waiting,) = graph.invoke({"x": 1}, thread(name))["__interrupt__"]
        (waiting,) = graph.invoke(Command(resume={waiting.id: first}), thread(name))[
            "__interrupt__"
        ]
        assert waiting.value == "second?"
        graph.invoke(Command(resume={waiting.id: "b"}), thread(name))
        assert graph.get_state(thread(name)).values["log"] == [first, "b", 9]
    # The second node names the graph too: whether it calls it cannot be known.
    assert [each.status.value for each in watched.outcomes[-2:]] == ["succeeded"] * 2
