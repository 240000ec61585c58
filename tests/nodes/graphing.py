"""Graphs for tests: nodes that note their calls, and builders of small graphs."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

if TYPE_CHECKING:
    from collections.abc import Callable


class State(TypedDict, total=False):
    """A channel that is replaced, and one that is added to."""

    x: int
    log: Annotated[list[Any], operator.add]


def thread(name: str, **configurable: Any) -> Any:
    """A config of LangGraph for one thread."""
    return {"configurable": {"thread_id": name, **configurable}}


def chain(**nodes: Any) -> Any:
    """A builder with these nodes one after the other."""
    builder: Any = StateGraph(State)
    names = [START, *nodes, END] if nodes else []
    for name, node in nodes.items():
        builder.add_node(name, node)
    for start, end in itertools.pairwise(names):
        builder.add_edge(start, end)
    return builder


class Noted:
    """Makes nodes that note their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def node(self, name: str, work: Callable[[State], Any] | None = None) -> Callable[..., Any]:
        """A node that adds its name to the log, or does what is said."""

        def node(state: State) -> Any:
            self.calls.append(name)
            return {"log": [name]} if work is None else work(state)

        return node

    def async_node(self, name: str) -> Callable[..., Any]:
        """An async node that adds its name to the log."""

        async def node(state: State) -> Any:
            self.calls.append(name)
            return {"log": [name]}

        return node
