"""LangGraph's values in log and cache: messages without drawn ids, commands with their types."""

from __future__ import annotations

import asyncio
import base64
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import ormsgpack
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, Send
from pydantic import BaseModel

from tallgrass.errors import InvalidInput
from tallgrass.nodes import NodeHooks, Values
from tallgrass.nodes.graphs import graph_values, reliable
from tests.nodes.graphing import Noted, State, chain, thread
from tests.nodes.running import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = graph_values()
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


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


STORED: list[Any] = [
    HumanMessage("hi", id="1", name="Ada", additional_kwargs={"k": [1, 2.0, None]}),
    AIMessage(
        [{"type": "text", "text": "é"}],
        tool_calls=[{"name": "gauge", "args": {"n": 1}, "id": "c1", "type": "tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage("3.2 m", tool_call_id="c1", artifact={"raw": [3.2]}, status="error"),
    RemoveMessage(id="7"),
    Send("part", {"t": (1, 2), "at": NOON}),
    Overwrite([{1, 2}, (3,)]),
    Command(graph=Command.PARENT, update={"m": [AIMessage("a")], "t": (1,)}, goto=["a", "b"]),
    Command(goto=(Send("a", 1), Send("b", [HumanMessage("x")])), resume={"id": b"\x00"}),
    [{"x": 1}, Command(update=[("x", 1), ("x", 2)])],
]


@pytest.mark.conformance("NR-4.4")
@pytest.mark.parametrize("value", STORED, ids=lambda value: type(value).__name__)
def test_values_of_langgraph_come_back_as_they_were(value: Any) -> None:
    """Equal, and of the same types all the way down."""
    encoded = VALUES.encode(value)
    back = VALUES.decode(encoded)
    assert back == value
    assert repr(back) == repr(value)
    assert VALUES.encode(back) == encoded
    assert VALUES.hash_of(back) == VALUES.hash_of(value)


def test_every_field_counts_but_the_id_of_a_message() -> None:
    """Of a removal the id is all there is."""
    base = Command(update={"m": [AIMessage("a", id="1")]}, goto="n")
    assert VALUES.hash_of(base) == VALUES.hash_of(
        Command(update={"m": [AIMessage("a", id="2")]}, goto="n")
    )
    others = [
        Command(update={"m": [AIMessage("b", id="1")]}, goto="n"),
        Command(update={"m": [HumanMessage("a", id="1")]}, goto="n"),
        Command(update={"m": [AIMessage("a", id="1", name="n")]}, goto="n"),
        Command(update={"m": [AIMessage("a", id="1")]}, goto="o"),
        Command(update={"m": [AIMessage("a", id="1")]}, goto="n", graph=Command.PARENT),
        Send("n", {"m": 1}),
        Send("o", {"m": 1}),
        Overwrite({"m": 1}),
        {"m": 1},
        RemoveMessage(id="1"),
        RemoveMessage(id="2"),
    ]
    assert len({VALUES.hash_of(each) for each in (base, *others)}) == len(others) + 1


class OwnMessage(AIMessage):
    """A message of somebody's own type."""


class Opaque:
    """Something that no serializer knows."""


def held_by_itself() -> Any:
    """A command whose update holds the command."""
    update: dict[str, Any] = {}
    update["self"] = Command(update=update)
    return update["self"]


@pytest.mark.parametrize(
    "value",
    [
        OwnMessage(content="a"),
        AIMessage("a", additional_kwargs={"o": Opaque()}),
        AIMessage("a", additional_kwargs={"t": (1, 2)}),
        ToolMessage("a", tool_call_id="c", artifact=Values()),
        Command(update={"o": Opaque()}),
        Send("n", 1, timeout=3),
        held_by_itself(),
    ],
    ids=["own", "opaque", "tuple", "artifact", "inside", "timeout", "itself"],
)
def test_what_would_come_back_as_another_is_refused(value: Any) -> None:
    """Such a result fails the node; it is never stored as something else."""
    with pytest.raises(InvalidInput) as refused:
        VALUES.encode(value)
    assert refused.value.code == "node_result_unstorable"


class Planted:
    """What a pickle would run."""

    def __reduce__(self) -> Any:
        """Leave a trace."""
        return (_leave_a_trace, ())


TRACES: list[str] = []


def _leave_a_trace(*_: Any) -> str:
    TRACES.append("was here")
    return "planted"


def packed(code: int, *parts: Any) -> str:
    """A text as the serializer would have written it."""
    inner = ormsgpack.packb(parts, option=ormsgpack.OPT_NON_STR_KEYS)
    return base64.b64encode(ormsgpack.packb(ormsgpack.Ext(code, inner))).decode()


@pytest.mark.conformance("NR-12.2")
@pytest.mark.parametrize(
    "stored",
    [
        {"$message": base64.b64encode(pickle.dumps(Planted())).decode()},
        {"$message": packed(0, __name__, "_leave_a_trace", 1)},
        {"$message": packed(1, __name__, "_leave_a_trace", [1])},
        {"$message": packed(2, "subprocess", "Popen", {"args": ["true"]})},
        {"$message": packed(3, "builtins", "str", "x", "upper")},
        {"$message": packed(5, __name__, "OwnMessage", {"content": "a"}, "model_validate_json")},
        {"$message": packed(0, "decimal", "Decimal", "1")},
        {"$message": "no base64"},
        {"$message": {"a": 1}},
        {"$langgraph": '["Planted",{}]'},
        {"$langgraph": '["Send",{"node":"n"}]'},
        {"$langgraph": '["Command",{"call":1}]'},
        {"$langgraph": "{"},
    ],
)
def test_stored_bytes_call_nothing(stored: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A pickle, a callable, another type, text that is none: refused, and nothing was run."""
    with pytest.raises(InvalidInput):
        VALUES.decode(stored)
    assert TRACES == []


# --- ids of messages ------------------------------------------------------------------------------


def chat(node: Any, watched: Watched, **options: Any) -> Any:
    """A graph of one node on messages."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return reliable(builder, watched.runner(), code_version="1", **options).compile()


@pytest.mark.conformance("NR-4.4")
def test_a_message_without_id_gets_the_same_one_by_run_resume_and_hit(watched: Watched) -> None:
    """The state after each is equal, ids and all; two tasks never share one."""

    def say(state: MessagesState) -> Any:
        return Command(update={"messages": [AIMessage("a"), AIMessage("b")]})

    given: dict[str, Any] = {"messages": [HumanMessage("hi", id="h")]}
    ran = chat(say, watched).invoke(given, thread("t"))
    resumed = chat(say, watched).invoke(given, thread("t"))
    assert resumed == ran
    for path in (watched.root / "wal" / "t").iterdir():
        # As if another run had filled the cache, and this one had not begun.
        path.unlink() if path.is_file() else [*map(_remove, (path.rglob("*.json")))]
    watched.close()
    hit = chat(say, watched).invoke(given, thread("t"))
    assert hit == ran
    assert statuses(watched) == ["succeeded", "recorded", "cached"]
    other = chat(say, watched).invoke(given, thread("u"))
    ids = [message.id for state in (ran, other) for message in state["messages"][1:]]
    assert None not in ids
    assert len(set(ids)) == 4


def _remove(path: Path) -> None:
    path.unlink()


def test_messages_keep_ids_that_they_came_with(watched: Watched) -> None:
    """An id that the node chose is its own; so are those of messages in plain forms."""
    graph = chat(lambda _: {"messages": [AIMessage("a", id="mine"), ("ai", "b")]}, watched)
    for _ in range(2):
        first, second = graph.invoke({"messages": []}, thread("t"))["messages"]
        assert (first.id, second.content) == ("mine", "b")


@pytest.mark.conformance("NR-4.4")
def test_a_hit_speaks_of_the_messages_of_its_own_run(watched: Watched) -> None:
    """A node that removes and replaces messages by id does so in every run, though ids differ."""
    noted = Noted()

    def trim(state: MessagesState) -> Any:
        noted.calls.append("trim")
        first, second, last = state["messages"]
        kept = AIMessage(f"was {second.content}", id=second.id)
        return {"messages": [RemoveMessage(id=str(first.id)), kept, AIMessage(f"{last.content}!")]}

    given: list[AnyMessage] = [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]
    graph = chat(trim, watched)
    for name in ("t", "u", "t"):
        fresh: list[Any] = [each.model_copy() for each in given]
        made = graph.invoke({"messages": fresh}, thread(name))["messages"]
        assert [each.content for each in made] == ["was b", "c", "c!"]
    assert noted.calls == ["trim"]
    assert statuses(watched) == ["succeeded", "cached", "recorded"]


def test_messages_that_differ_by_id_alone_are_the_same_input(watched: Watched) -> None:
    """Their ids are drawn by chance; their content counts."""
    noted = Noted()
    graph = chat(lambda _: noted.calls.append("n"), watched)
    for number, content in enumerate(["a", "a", "b"]):
        graph.invoke({"messages": [HumanMessage(content)]}, thread(str(number)))
    assert len(noted.calls) == 2


# --- what counts beside the state -----------------------------------------------------------------


@dataclass
class Context:
    """What a run is given beside its state."""

    model: Any


def contextual(watched: Watched, noted: Noted, **options: Any) -> Any:
    """A graph of one node, which may look at the context."""
    builder: Any = StateGraph(State, context_schema=Context)
    builder.add_node("n", noted.node("n"))
    builder.add_edge(START, "n")
    return reliable(builder, watched.runner(), code_version="1", **options).compile()


def test_the_context_and_own_settings_of_a_run_count(watched: Watched) -> None:
    """Another model is another result, unless the node is said not to look; a thread is not."""
    noted = Noted()
    runs: list[tuple[Any, dict[str, Any]]] = [
        (Context(model="a"), {}),
        (Context(model="a"), {}),
        (Context(model="b"), {}),
        (Context(model="a"), {"region": "ks"}),
        (Context(model="a"), {"region": "ks", "langgraph_user": "u", "x-id": "1", "run_id": "9"}),
    ]
    for options, expected in (
        ({}, 3),
        ({"uses_context": False, "data_version": "2"}, 2),
        ({"uses_context": False, "config_keys": (), "data_version": "3"}, 1),
        ({"config_keys": ("x-id",), "data_version": "4"}, 3),
    ):
        noted.calls.clear()
        for number, (context, settings) in enumerate(runs):
            config = thread(f"{options}-{number}", **settings)
            contextual(watched, noted, **options).invoke({"x": 1}, config, context=context)
        assert len(noted.calls) == expected, options


def test_a_context_that_cannot_be_hashed_forbids_to_cache(watched: Watched) -> None:
    """It is said once; within its run the node's result is still recorded."""
    noted = Noted()
    context = Context(model=Opaque())
    graph = contextual(watched, noted)
    for name in ("t", "t", "u"):
        graph.invoke({"x": 1}, thread(name), context=context)
    assert statuses(watched) == ["succeeded", "recorded", "succeeded"]
    said = [fields["node"] for name, fields in watched.recorder.events if name == "node_uncached"]
    assert said == ["n"]


@pytest.mark.conformance("NR-4.2")
def test_a_node_is_given_what_it_uses(watched: Watched) -> None:
    """Other keys of the state change nothing."""
    seen: list[Any] = []
    graph = reliable(
        chain(n=lambda state: seen.append(dict(state))),
        watched.runner(),
        uses=("x",),
        code_version="1",
    ).compile()
    graph.invoke({"x": 1, "log": ["a"]}, thread("t"))
    graph.invoke({"x": 1, "log": ["b"]}, thread("u"))
    assert seen == [{"x": 1}]


class ModelState(BaseModel):
    """A state that is a pydantic model."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    x: int = 0


@dataclass
class RecordState:
    """A state that is a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages]
    x: int = 0


@pytest.mark.conformance("NR-4.4")
@pytest.mark.parametrize("schema", [ModelState, RecordState])
def test_states_may_be_models_and_dataclasses(watched: Watched, schema: Any) -> None:
    """Their nodes are given them as they are, and a hit speaks of its own run's messages."""
    noted = Noted()

    def trim(state: Any) -> Any:
        noted.calls.append(type(state).__name__)
        return {"messages": [RemoveMessage(id=state.messages[0].id)], "x": state.x + 1}

    builder: Any = StateGraph(schema)
    builder.add_node("trim", trim)
    builder.add_edge(START, "trim")
    graph = reliable(builder, watched.runner(), code_version="1").compile()
    for name in ("t", "u"):
        given = {"messages": [HumanMessage("a"), HumanMessage("b")], "x": 1}
        state = graph.invoke(given, thread(name))
        assert ([each.content for each in state["messages"]], state["x"]) == (["b"], 2)
    assert noted.calls == [schema.__name__]


@pytest.mark.parametrize("is_async", [False, True])
def test_tokens_of_a_model_are_streamed_through(watched: Watched, *, is_async: bool) -> None:
    """A node that calls a chat model streams its tokens as if it were not wrapped."""

    def build(wrap: Any) -> Any:
        model = GenericFakeChatModel(messages=iter([AIMessage("high water")]))
        builder: Any = StateGraph(MessagesState)
        builder.add_node("say", lambda state: {"messages": [model.invoke(state["messages"])]})
        builder.add_edge(START, "say")
        return wrap(builder).compile()

    async def tokens(graph: Any) -> list[str]:
        given = {"messages": [HumanMessage("hi")]}
        if is_async:
            stream = graph.astream(given, thread("t"), stream_mode="messages")
            return [part[0].content async for part in stream]
        return [
            part[0].content for part in graph.stream(given, thread("t"), stream_mode="messages")
        ]

    plain = asyncio.run(tokens(build(lambda builder: builder)))
    wrapped = asyncio.run(tokens(build(lambda builder: reliable(builder, watched.runner()))))
    assert wrapped == plain
    assert plain[:3] == ["high", " ", "water"]
