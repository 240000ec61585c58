"""What one graph, thread or user computed is not handed to another whose result would differ."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tallgrass.errors import InvalidInput
from tallgrass.nodes import NodeHooks
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


def statuses(watched: Watched) -> list[str]:
    """What came of each call, in order."""
    return [each.status.value for each in watched.outcomes]


class Opaque:
    """Something that cannot be hashed."""


class Asked(MessagesState):
    """Messages, and the question that a node answers."""

    question: str


def one_node(node: Any, schema: Any, watched: Watched, **options: Any) -> Any:
    """A builder of one reliable node."""
    builder: Any = StateGraph(schema, context_schema=Opaque)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return reliable(builder, watched.runner(), code_version="1", **options)


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.conformance("NR-4.4")
def test_a_caller_who_keeps_the_messages_gets_every_turn(watched: Watched) -> None:
    """Without a checkpointer every turn comes to the same place; no answer replaces another."""
    graph = one_node(
        lambda state: {"messages": [AIMessage(f"re {state['messages'][-1].content}")]},
        MessagesState,
        watched,
    ).compile()
    messages: list[Any] = []
    for said in ("a", "b", "c"):
        messages = graph.invoke({"messages": [*messages, HumanMessage(said)]}, thread("t"))[
            "messages"
        ]
    assert [each.content for each in messages] == ["a", "re a", "b", "re b", "c", "re c"]
    assert len({each.id for each in messages}) == 6


@pytest.mark.conformance("NR-4.4")
def test_an_answer_of_the_cache_is_added_like_a_new_one(watched: Watched) -> None:
    """A model draws an id for each answer; the one of an earlier turn would replace that turn's."""
    model = GenericFakeChatModel(messages=iter([AIMessage("12 ft")]))
    builder = one_node(
        lambda state: {"messages": [model.invoke(state["question"])]},
        Asked,
        watched,
        uses=("question",),
    )
    graph = builder.compile(checkpointer=InMemorySaver())

    def turn() -> list[Any]:
        given: Any = {"question": "how high?", "messages": [HumanMessage("how high?")]}
        return list(graph.invoke(given, thread("t"))["messages"])

    first, second = turn(), turn()
    assert statuses(watched) == ["succeeded", "cached"]
    assert [each.type for each in second] == ["human", "ai", "human", "ai"]
    assert second[1].id == first[1].id
    assert first[1].id.startswith("lc_run-")
    assert second[3].id != first[1].id


def test_the_id_of_an_answer_is_its_own_when_the_run_is_resumed(watched: Watched) -> None:
    """The state after a resume equals that after the run, with ids that a model drew too."""
    model = GenericFakeChatModel(messages=iter([AIMessage("12 ft")]))
    node = one_node(lambda _: {"messages": [model.invoke("?")]}, MessagesState, watched).compile()
    given: Any = {"messages": [HumanMessage("how high?", id="h")]}
    ran = node.invoke(given, thread("t"))
    assert node.invoke(given, thread("t")) == ran
    assert statuses(watched) == ["succeeded", "recorded"]


def test_a_removal_names_what_it_removes(watched: Watched) -> None:
    """An id that a model drew is not renamed where a node removes its message."""
    graph = one_node(
        lambda _: {"messages": [RemoveMessage(id="lc_run--1")]}, Asked, watched, uses=("question",)
    ).compile()
    for name in ("t", "u"):
        given = {"question": "?", "messages": [AIMessage("a", id="lc_run--1")]}
        assert graph.invoke(given, thread(name))["messages"] == []
    assert statuses(watched) == ["succeeded", "cached"]


# --- answers --------------------------------------------------------------------------------------


def asking_graph(watched: Watched) -> Any:
    """A graph of one node that asks, given a context that cannot be hashed."""
    builder = one_node(lambda _: {"log": [interrupt("go on?")]}, State, watched)
    return builder.compile(checkpointer=InMemorySaver())


def test_an_answer_counts_whatever_else_cannot(watched: Watched) -> None:
    """With a context that has no hash, a thread that begins anew is asked anew."""
    for answer in ("yes", "no"):
        graph, context = asking_graph(watched), Opaque()
        asked = graph.invoke({"x": 1}, thread("t"), context=context)
        assert [each.value for each in asked["__interrupt__"]] == ["go on?"]
        done = graph.invoke(Command(resume=answer), thread("t"), context=context)
        assert done["log"] == [answer]
    assert statuses(watched) == ["suspended", "succeeded"] * 2


def test_an_answer_that_cannot_be_hashed_is_refused(watched: Watched) -> None:
    """It could be taken for another; a later one that can is taken."""
    graph = asking_graph(watched)
    graph.invoke({"x": 1}, thread("t"))
    # A set that LangGraph stores, of what has no form that is the same everywhere.
    with pytest.raises(InvalidInput) as refused:
        graph.invoke(Command(resume=range(3)), thread("t"))
    assert refused.value.code == "node_input_unhashable"


def test_a_setting_counts_whatever_else_cannot(watched: Watched) -> None:
    """A client without a hash forbids to cache, and hides no other setting of the run."""
    noted = Noted()
    graph = reliable(chain(n=noted.node("n")), watched.runner(), code_version="1").compile()
    for region in ("ks", "ks", "ok"):
        graph.invoke({"x": 1}, thread("t", client=Opaque(), region=region))
    assert statuses(watched) == ["succeeded", "recorded", "succeeded"]


# --- stores, users, graphs, pipelines -------------------------------------------------------------


def remembering(kind: str) -> Any:
    """A node that counts in the graph's store."""

    def count(store: Any) -> Any:
        known = store.get(("n",), "n")
        number = (known.value["n"] if known else 0) + 1
        store.put(("n",), "n", {"n": number})
        return {"log": [number]}

    def given(state: State, *, store: Any) -> Any:
        return count(store)

    def by_name(state: State) -> Any:
        return count(get_store())

    given.__annotations__.pop("store")
    return {"given": given, "by_name": by_name, "runnable": RunnableLambda(by_name)}[kind]


@pytest.mark.parametrize("kind", ["given", "by_name", "runnable"])
def test_what_uses_a_store_is_not_cached(watched: Watched, kind: str) -> None:
    """What it reads there may have changed, and what it writes there must not be left out."""
    store = InMemoryStore()
    graph = one_node(remembering(kind), State, watched).compile(store=store)
    seen = [graph.invoke({"x": 1}, thread(name))["log"] for name in ("t", "u", "t")]
    assert seen == [[1], [2], [1]]
    assert statuses(watched) == ["succeeded", "succeeded", "recorded"]
    said = one_node(remembering(kind), State, watched, uses_store=False).compile(store=store)
    assert [said.invoke({"x": 1}, thread(name))["log"] for name in ("v", "w")] == [[3], [3]]


def test_a_store_changes_nothing_for_nodes_that_do_not_use_it(watched: Watched) -> None:
    """They are cached as in a graph without one."""
    graph = one_node(lambda _: {"x": 2}, State, watched).compile(store=InMemoryStore())
    for name in ("t", "u"):
        graph.invoke({"x": 1}, thread(name))
    assert statuses(watched) == ["succeeded", "cached"]


def test_what_was_made_for_one_user_is_not_another_s(watched: Watched) -> None:
    """The user who asked counts; the number of the request does not."""
    noted = Noted()
    graph = reliable(chain(n=noted.node("n")), watched.runner(), code_version="1").compile()
    for number, user in enumerate(["ada", "ben", "ada"]):
        own = {"langgraph_auth_user_id": user, "langgraph_request_id": str(number)}
        graph.invoke({"x": 1}, thread(str(number), **own))
    assert statuses(watched) == ["succeeded", "succeeded", "cached"]


class Told(TypedDict, total=False):
    """What an inner graph hands out."""

    told: Annotated[list[str], lambda old, new: sorted(old + new)]


def test_nodes_of_one_name_in_two_inner_graphs_are_two(watched: Watched) -> None:
    """Each inner graph has its own `agent`, whatever versions and inputs they share."""
    runner = watched.runner()

    def inner(name: str) -> Any:
        builder: Any = StateGraph(State, output_schema=Told)
        builder.add_node("agent", lambda _: {"told": [name]}, input_schema=State)
        builder.add_edge(START, "agent")
        return reliable(builder, runner, code_version="1").compile()

    class Both(State, Told):
        pass

    def outer() -> Any:
        builder: Any = StateGraph(Both)
        for name in ("researcher", "writer"):
            builder.add_node(name, inner(name))
            builder.add_edge(START, name)
        return reliable(builder, runner, code_version="1").compile()

    for name in ("t", "u"):
        assert outer().invoke({"x": 1}, thread(name))["told"] == ["researcher", "writer"]
    assert statuses(watched) == ["succeeded"] * 2 + ["cached"] * 2


@pytest.mark.parametrize("options", [{"node_id": "n"}, {"options": {"a": {"node_id": "b"}}}])
def test_two_nodes_of_a_graph_are_not_given_one_id(watched: Watched, options: Any) -> None:
    """They would be given each other's results."""
    builder = chain(a=lambda _: {"log": ["a"]}, b=lambda _: {"log": ["b"]})
    with pytest.raises(InvalidInput, match="a and b are both said to be") as refused:
        reliable(builder, watched.runner(), **options)
    assert refused.value.code == "node_declaration_invalid"


@pytest.mark.conformance("NR-4.2")
def test_nodes_of_one_name_in_two_pipelines_are_two(watched: Watched) -> None:
    """They share a folder, and often a version; their results are their own."""

    def load(pipeline: str) -> Any:
        return watched.runner(pipeline=pipeline, run_id=pipeline).run(
            node_id="load", code_version="1", inputs={"day": 1}, exec_fn=lambda _: [pipeline]
        )

    assert [load("hydrology"), load("climate")] == [["hydrology"], ["climate"]]


def test_an_async_function_in_a_plain_call_does_not_fail_its_node(watched: Watched) -> None:
    """The mistake is the caller's: the run goes on as soon as it is made right."""

    async def node(state: State) -> Any:
        return {"x": 2}

    graph = one_node(RunnableLambda(node), State, watched).compile()
    with pytest.raises(TypeError):
        graph.invoke({"x": 1}, thread("t"))
    assert asyncio.run(graph.ainvoke({"x": 1}, thread("t")))["x"] == 2
