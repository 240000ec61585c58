"""Reliable nodes for LangGraph: `reliable` puts every node of a graph behind a `NodeRunner`.

    builder = StateGraph(State)
    builder.add_node(...)
    graph = reliable(builder, NodeRunner("work")).compile()
    graph.invoke(inputs, {"configurable": {"thread_id": "2026-11-16"}})

Each node keeps its name, its inputs, its edges and its config; sync, async, streams, interrupts,
commands and sends work as before. The thread is the run, unless the runner was given one. With a
checkpointer LangGraph goes on from its checkpoint; without one the graph starts again, and every
node that has a result in the run's log returns it.

- A graph inside a graph whose own nodes are reliable is left as it is; any other is one node.
- Retries, caches and timeouts of LangGraph beside those of the runner are refused.
- In a strict graph every node is wrapped here or by the runner; what is compiled is checked.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig

# LangGraph's own nodes are of this class; it has no public name.
from langgraph._internal._runnable import RunnableCallable, coerce_to_runnable
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._utils import find_subgraph_pregel

from tallgrass.errors import InvalidInput
from tallgrass.nodes.declarations import Asked, declaration_of, require_names, wrapped_node
from tallgrass.nodes.graph_messages import MessageIds
from tallgrass.nodes.graph_places import Attempts, beside_of, langgraph_whereabouts, place_of
from tallgrass.nodes.graph_values import graph_extensions
from tallgrass.nodes.identity import declared_inputs
from tallgrass.nodes.node_runner import NodeRunner
from tallgrass.nodes.protocols import NodeDeclaration
from tallgrass.nodes.retry_policy import RetryPolicy
from tallgrass.nodes.values import Values

__all__ = ["ReliableNode", "graph_values", "langgraph_whereabouts", "reliable", "require_reliable"]

Builder = TypeVar("Builder", bound=StateGraph[Any, Any, Any, Any])
Options = Mapping[str, Mapping[str, Any] | None]

_START: Final = "__start__"
#: Arguments of a node that hold the store.
_STORE_GIVEN: Final = frozenset({"store", "runtime"})
#: What LangGraph would do beside the runner, by its own names, and what to say instead.
_STACKED: Final = {
    "retry_policy": "retry=RetryPolicy(…)",
    "cache_policy": "cached=True, which is the default",
    "timeout": "timeout_s=…",
}


class ReliableNode(RunnableCallable):
    """A node of a graph that a runner executes."""

    def __init__(
        self,
        inner: Runnable[Any, Any],
        runner: NodeRunner,
        declaration: NodeDeclaration,
        *,
        retry: RetryPolicy | None = None,
        uses_context: bool = True,
        uses_store: bool | None = None,
        config_keys: tuple[str, ...] | None = None,
    ) -> None:
        self.inner = inner
        self.runner = runner
        self.declaration = declaration
        self._retry = retry
        self._uses_context = uses_context
        require_names("config_keys", config_keys)
        self._config_keys = config_keys
        self._holds_graph = _holds_graph(inner)
        self._is_placed_here = runner.whereabouts is langgraph_whereabouts
        function = _function_of(inner)
        self._code = inner if function is None else function
        self._uses_store = _may_use_store(inner) if uses_store is None else uses_store

        def call(state: Any, config: RunnableConfig) -> Any:
            if _is_async_only(inner):
                # An async node in a plain call: LangGraph says so better, and it is no failure.
                return inner.invoke(state, config)
            return self._call(state, config)

        async def acall(state: Any, config: RunnableConfig) -> Any:
            return await self._acall(state, config)

        super().__init__(call, acall, name=inner.get_name(), trace=False, recurse=False)
        # LangGraph looks there for graphs inside of nodes; set after it has read the signature.
        call.__wrapped__ = function or (lambda: inner)  # type: ignore[attr-defined]

    def _call(self, state: Any, config: RunnableConfig) -> Any:
        ids, attempts, asked = self._surroundings(state, config)

        def attempt(used: Any) -> Any:
            with attempts.one_more() as given:
                return ids.hide(self.inner.invoke(used, given))

        runner = self.runner
        result = runner.call(self.declaration, state, attempt, code=self._code, asked=asked)
        return ids.show(result)

    async def _acall(self, state: Any, config: RunnableConfig) -> Any:
        ids, attempts, asked = self._surroundings(state, config)

        def attempt(used: Any) -> Any:
            with attempts.one_more() as given:
                return ids.hide(self.inner.invoke(used, given))

        async def attempt_async(used: Any) -> Any:
            with attempts.one_more() as given:
                return ids.hide(await self.inner.ainvoke(used, given))

        # A plain function is the runner's to put into a thread: it knows how to measure it there.
        work = attempt if _is_plain(self.inner) else attempt_async
        runner = self.runner
        result = await runner.acall(self.declaration, state, work, code=self._code, asked=asked)
        return ids.show(result)

    def _surroundings(
        self, state: Any, config: RunnableConfig
    ) -> tuple[MessageIds, Attempts, Asked]:
        place = place_of(config)
        name = "" if place is None else place.name
        run_id = self.runner.run_id or (place and place.thread_id)
        used = declared_inputs(state, self.declaration.uses)
        beside = beside_of(
            config,
            uses_context=self._uses_context,
            uses_store=self._uses_store,
            config_keys=self._config_keys,
            holds_graph=self._holds_graph,
            hash_of=self.runner.hash_of,
        )
        # To find the place a second time takes 8 µs.
        found = (place.thread_id, place.name) if place and self._is_placed_here else None
        place_name = f"{run_id}|{self.declaration.node_id}|{name}"
        return (
            MessageIds(used, place_name, self.runner.hash_of),
            Attempts(config, name),
            Asked(retry=self._retry, beside=beside, found=found),
        )


class InnerGraph(RunnableCallable):
    """A graph inside a graph whose own nodes are reliable: it only learns its place."""

    def __init__(self, graph: Pregel[Any, Any, Any, Any]) -> None:
        self.graph = graph

        def call(state: Any, config: RunnableConfig) -> Any:
            with Attempts(config, _place_name(config)).one_more() as given:
                return graph.invoke(state, given)

        async def acall(state: Any, config: RunnableConfig) -> Any:
            with Attempts(config, _place_name(config)).one_more() as given:
                return await graph.ainvoke(state, given)

        super().__init__(call, acall, name=graph.get_name(), trace=False, recurse=False)


def reliable(
    builder: Builder,
    runner: NodeRunner,
    *,
    strict: bool | None = None,
    options: Options | None = None,
    **common: Any,
) -> Builder:
    """Wrap every node of a graph that is not compiled yet, in place, and return it.

    `common` are options of all nodes and `options` those of single ones: `retry`, the fields of
    `NodeDeclaration`, and `uses_context` and `config_keys`, which say what of the run's context and
    configuration counts as input (all of it, if nothing is said), and `uses_store`, which says
    whether the node looks into the graph's store. None leaves a node as it is.

    `strict` (as the runner, if nothing is said): a node left out, or added later and not wrapped,
    is refused when the graph is compiled. Else what is added later is wrapped then.
    """
    if isinstance(builder, Pregel):
        raise _invalid("the graph is compiled: wrap its builder, and compile what is returned")
    made = _Wrapping(builder, runner, options or {}, common)
    strict = runner.strict if strict is None else strict
    made.wrap_all()
    compile_graph = builder.compile

    @functools.wraps(compile_graph)
    def compiled(*arguments: Any, **keywords: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        if not strict:
            made.wrap_all()
        graph = compile_graph(*arguments, **keywords)
        made.wrap_handlers(graph)
        require_reliable(graph, unwrapped=() if strict else made.left_out)
        return graph

    builder.compile = compiled  # type: ignore[method-assign]
    return builder


def require_reliable(graph: Pregel[Any, Any, Any, Any], *, unwrapped: tuple[str, ...] = ()) -> None:
    """Refuse a compiled graph with a node that no runner executes, or with policies beside it."""
    if not isinstance(graph, Pregel):
        raise _invalid("the graph is not compiled yet, and compiling may add nodes to it")
    for name, node in graph.nodes.items():
        if name == _START or name in unwrapped:
            continue
        _refuse_stacked(name, node)
        if isinstance(node.bound, InnerGraph):
            require_reliable(node.bound.graph)
        elif not _is_reliable(node.bound):
            raise InvalidInput(
                f"{name} is executed by no runner: wrap it by `reliable` after it was added",
                code="node_unwrapped",
            )
    _refuse_stacked("the graph", graph)


def graph_values(values: Values | None = None) -> Values:
    """Return values that know LangGraph's own, for a runner that wraps nodes by itself."""
    known = Values() if values is None else values
    return known.extended(graph_extensions(known))


class _Wrapping:
    """The options of one graph, and the ways to wrap its nodes."""

    def __init__(
        self,
        builder: StateGraph[Any, Any, Any, Any],
        runner: NodeRunner,
        options: Options,
        common: Any,
    ) -> None:
        self._builder = builder
        self._runner = runner
        self._options = options
        self._common = common
        #: By the ids of their nodes: two with one id would be given each other's results.
        self._names: dict[str, str] = {}
        self._adapted = runner.adapted(langgraph_whereabouts, graph_extensions)
        unknown = sorted(set(options) - set(builder.nodes))
        if unknown:
            raise _invalid(f"the graph has no node {', '.join(unknown)}")

    @property
    def left_out(self) -> tuple[str, ...]:
        """The nodes that are left as they are."""
        return tuple(name for name, options in self._options.items() if options is None)

    def wrap_all(self) -> None:
        """Wrap what is not wrapped yet."""
        for name, spec in self._builder.nodes.items():
            if name in self.left_out:
                continue
            _refuse_stacked(name, spec)
            spec.runnable = self._wrapped(name, spec.runnable, handler=spec.is_error_handler)

    def wrap_handlers(self, graph: Pregel[Any, Any, Any, Any]) -> None:
        """Wrap the handler of errors that compiling adds, if the graph has one for all nodes."""
        for name, node in graph.nodes.items():
            if node.is_error_handler and not _is_reliable(node.bound):
                node.bound = self._wrapped(name, node.bound, handler=True)

    def _wrapped(self, name: str, runnable: Any, *, handler: bool) -> Runnable[Any, Any]:
        options = self._options.get(name) or {}
        if _is_reliable(runnable):
            return self._known(name, runnable, options)
        if isinstance(runnable, Pregel) and _all_reliable(runnable):
            if options:
                raise _invalid(f"{name} is a graph of reliable nodes: options are given to them")
            return InnerGraph(runnable)
        declared = {**self._common, **options}
        if handler:
            # What it does depends on the error too, which has no hash.
            declared["cached"] = False
        own = {key: declared.pop(key) for key in _OWN_OPTIONS if key in declared}
        declaration = declaration_of(declared.pop("node_id", name), **declared)
        taken_by = self._names.setdefault(declaration.node_id, name)
        if taken_by != name:
            raise _invalid(f"{taken_by} and {name} are both said to be {declaration.node_id}")
        self._runner.require_declared(declaration)
        return ReliableNode(runnable, self._adapted, declaration, **own)

    def _known(self, name: str, runnable: Any, options: Mapping[str, Any]) -> Runnable[Any, Any]:
        """Return a node that was wrapped before; a runner's own learns to live in a graph."""
        known: Runnable[Any, Any] = runnable
        if isinstance(runnable, ReliableNode):
            self._require_own(name, runnable.runner)
            return known
        if options:
            raise _invalid(f"{name} was wrapped before: its options are given there")
        function = _function_of(runnable)
        node = wrapped_node(function)
        if isinstance(runnable, InnerGraph) or node is None:
            return known
        self._require_own(name, node.runner)
        inner = coerce_to_runnable(function.__wrapped__, name=name, trace=False)
        return ReliableNode(inner, self._adapted, node.declaration, retry=node.retry)

    def _require_own(self, name: str, runner: NodeRunner) -> None:
        if runner.wal is not self._runner.wal:
            raise _invalid(f"{name} is executed by another runner already")


_OWN_OPTIONS: Final = ("retry", "uses_context", "uses_store", "config_keys")


def _is_reliable(runnable: Any) -> bool:
    """Tell a node that was wrapped here, or whose function was wrapped by a runner."""
    if isinstance(runnable, ReliableNode | InnerGraph):
        return True
    return wrapped_node(_function_of(runnable)) is not None


def _is_plain(runnable: Any) -> bool:
    """Tell a plain function, whose async form LangGraph made by handing it to a thread."""
    by_thread = isinstance(getattr(runnable, "afunc", None), functools.partial)
    return by_thread and getattr(runnable, "func", None) is not None


def _is_async_only(runnable: Any) -> bool:
    """Tell an async function without a plain form."""
    return getattr(runnable, "func", None) is None and getattr(runnable, "afunc", None) is not None


def _may_use_store(runnable: Any) -> bool:
    """Tell what is given the graph's store, or asks for it; of what is no function nobody knows."""
    accepts = getattr(runnable, "func_accepts", None)
    code = getattr(_function_of(runnable), "__code__", None)
    if accepts is None or code is None:
        return True
    return not _STORE_GIVEN.isdisjoint(accepts) or "get_store" in code.co_names


def _holds_graph(runnable: Any) -> bool:
    """Tell a graph, and a function that names one: whether it calls it cannot be known."""
    return isinstance(runnable, Pregel) or find_subgraph_pregel(runnable) is not None


def _function_of(runnable: Any) -> Any:
    """Return the function of a node that is one; None of any other."""
    return getattr(runnable, "func", None) or getattr(runnable, "afunc", None)


def _all_reliable(graph: Pregel[Any, Any, Any, Any]) -> bool:
    return all(_is_reliable(node.bound) for name, node in _own_nodes(graph))


def _own_nodes(graph: Pregel[Any, Any, Any, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, node) for name, node in graph.nodes.items() if name != _START)


def _place_name(config: RunnableConfig) -> str:
    place = place_of(config)
    return "" if place is None else place.name


def _refuse_stacked(name: str, holder: Any) -> None:
    for policy, instead in _STACKED.items():
        if getattr(holder, policy, None):
            raise InvalidInput(
                f"{name} has LangGraph's {policy} beside the runner's: give {instead} instead",
                code="node_policy_stacked",
            )


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="node_declaration_invalid")
