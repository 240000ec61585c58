"""Where in a LangGraph run a node stands, and what it is given there beside its state.

LangGraph draws the ids of its tasks anew where it has no checkpoint to go on from. A place depends
on the thread and on the way through the graph alone: the step, the node, the position in a fan-out,
and the same of the graphs around it. So a run that is started again finds its tasks with a
checkpointer and without one.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_config

# LangGraph gives these names to nobody, but hands every node a config that holds them.
_SCRATCHPAD: Final = "__pregel_scratchpad"
_RUNTIME: Final = "__pregel_runtime"
_RESUMING: Final = "__pregel_resuming"
_CHECKPOINTER: Final = "__pregel_checkpointer"
_TASK_ID: Final = "__pregel_task_id"
#: Keys of ``configurable`` that say where a run is, or who serves it; none is an input.
_NO_INPUTS: Final = frozenset(
    {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "graph_id"}
    | {"assistant_id", "user-agent"}
)
_NO_INPUT_STARTS: Final = ("__", "langgraph_", "x-")
#: But for whom it is computed: what a node made for one user is not another's.
_USER: Final = "langgraph_auth_user_id"

#: The place of the node around this one: a graph inside a node has steps of its own.
_AROUND: ContextVar[str] = ContextVar("tallgrass_graph_place", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node's place in a run; `name` is the same whenever the run comes to it."""

    thread_id: str | None
    name: str


def place_of(config: Mapping[str, Any]) -> Place | None:
    """Return the place of the node that was given this config; None outside of a graph."""
    metadata, configurable = config.get("metadata") or {}, config.get("configurable") or {}
    step = metadata.get("langgraph_step")
    if step is None:
        return None
    thread_id = configurable.get("thread_id")
    names = _names(metadata)
    parts = [thread_id, _AROUND.get(), names, step, metadata.get("langgraph_path")]
    digest = sha256(repr(parts).encode()).hexdigest()
    return Place(
        thread_id=None if thread_id is None else str(thread_id), name=f"s{step}-{digest[:12]}"
    )


def _names(metadata: Mapping[str, Any]) -> list[str]:
    """Return the names of a node and of those around it; the namespace has their tasks' ids too."""
    spaces = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")
    return [space.partition(":")[0] for space in spaces]


def langgraph_whereabouts() -> tuple[str | None, str | None]:
    """Return the run and the place of the node at work: the thread is the run."""
    try:
        place = place_of(get_config())
    except RuntimeError:
        return None, None
    return (None, None) if place is None else (place.thread_id, place.name)


def beside_of(
    config: Mapping[str, Any],
    *,
    uses_context: bool,
    uses_store: bool,
    config_keys: tuple[str, ...] | None,
    holds_graph: bool,
    hash_of: Callable[[Any], str],
) -> dict[str, Any]:
    """Return what a node's result may depend on beside its state, by name.

    Answers to its interrupts, the run's context, the caller's own keys of ``configurable``, and the
    graph that it stands in, where that is inside of another: two of them may have nodes of one
    name. A store has no hash, so what uses it is not cached. Answers inside of a graph that it
    holds are not told; LangGraph's task stands for them.
    """
    configurable = config.get("configurable") or {}
    runtime = configurable.get(_RUNTIME)
    # Each on its own: one that has no hash takes no other with it.
    own = {
        f"configurable.{key}": value
        for key, value in configurable.items()
        if (_is_input(key) if config_keys is None else key in config_keys)
    }
    answered_inside = holds_graph and configurable.get(_CHECKPOINTER) is not None
    answers = _answers(configurable.get(_SCRATCHPAD))
    parts = {
        "graph": _names(config.get("metadata") or {})[:-1] or None,
        "task": configurable.get(_TASK_ID) if answered_inside else None,
        # Hashed here: an answer that counts for nothing would be taken for another one.
        "answers": hash_of(answers) if answers else None,
        "context": getattr(runtime, "context", None) if uses_context else None,
        "store": getattr(runtime, "store", None) if uses_store else None,
    }
    return {name: part for name, part in parts.items() if part is not None} | own


@lru_cache(maxsize=1024)
def _is_input(key: str) -> bool:
    if key == _USER:
        return True
    return key not in _NO_INPUTS and not key.startswith(_NO_INPUT_STARTS)


def _answers(scratchpad: Any) -> list[Any]:
    """Return what was answered to the node's interrupts, the one that it has not asked for too."""
    if scratchpad is None:
        return []
    waiting = scratchpad.get_null_resume(consume=False)
    return [*scratchpad.resume, *([] if waiting is None else [waiting])]


class Attempts:
    """The surroundings of the attempts of one call, each as if it were the first."""

    def __init__(self, config: RunnableConfig, place: str) -> None:
        self._config = config
        self._place = place
        self._next: Callable[[], int] = itertools.count().__next__

    @contextmanager
    def one_more(self) -> Iterator[RunnableConfig]:
        """Give the node's config; a retry asks its interrupts from the first one on."""
        config = self._config if self._next() == 0 else _again(self._config)
        around = _AROUND.set(self._place)
        told = var_child_runnable_config.set(config)
        try:
            yield config
        finally:
            var_child_runnable_config.reset(told)
            _AROUND.reset(around)


def _again(config: RunnableConfig) -> RunnableConfig:
    configurable = dict(config.get("configurable") or {})
    scratchpad = configurable.get(_SCRATCHPAD)
    if scratchpad is not None:
        fresh = replace(scratchpad, interrupt_counter=itertools.count().__next__)
        configurable |= {_SCRATCHPAD: fresh, _RESUMING: True}
    return cast("RunnableConfig", {**config, "configurable": configurable})
