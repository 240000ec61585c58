"""Which arguments of a node's function are its inputs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from tallgrass.errors import InvalidInput

#: What LangGraph hands to a node beside its state; none of it is an input.
_HANDED_IN: Final = frozenset({"config", "runtime", "store", "writer", "previous"})
_VARIABLE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class NodeSignature:
    """The parameters of a function: its state, or its inputs by name, and what is handed in."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        names = list(self._signature.parameters)
        for name, parameter in self._signature.parameters.items():
            if parameter.kind in _VARIABLE:
                raise InvalidInput(
                    f"{name} takes any number of arguments: name a node's inputs one by one",
                    code="node_declaration_invalid",
                )
        self._inputs = [name for at, name in enumerate(names) if at == 0 or name not in _HANDED_IN]

    def bind(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[Any, Callable[[Any], Any]]:
        """Return the inputs of a call, and a function of them alone."""
        bound = self._signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        if len(self._inputs) == 1:
            inputs: Any = given[self._inputs[0]]
        else:
            inputs = {name: given[name] for name in self._inputs}

        def parts(used: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
            named = {self._inputs[0]: used} if len(self._inputs) == 1 else used
            # An input that the node did not declare as used keeps its default, if it has one.
            call = self._signature.bind_partial()
            call.arguments.update(
                {
                    name: named[name] if name in self._inputs else given[name]
                    for name in self._signature.parameters
                    if name in named or name not in self._inputs
                }
            )
            return call.args, call.kwargs

        if inspect.iscoroutinefunction(self._function):

            async def call_async(used: Any) -> Any:
                positional, named = parts(used)
                return await self._function(*positional, **named)

            return inputs, call_async

        def call(used: Any) -> Any:
            positional, named = parts(used)
            return self._function(*positional, **named)

        return inputs, call
