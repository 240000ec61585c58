"""Values of LangGraph in log and cache: messages, and what a node returns to steer its graph.

Messages are written by LangGraph's own serializer in its strict mode: it makes types of a fixed
list and no others, and knows no pickle. Commands, sends and overwrites are written field by field,
so that what they carry keeps its types.
"""

import base64
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import orjson
from langchain_core import messages
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Overwrite, Send

from tallgrass.errors import InvalidInput
from tallgrass.nodes.values import Values, type_name

#: The messages that the serializer makes in its strict mode.
_MESSAGES: Final = frozenset(
    {
        messages.AIMessage,
        messages.AIMessageChunk,
        messages.ChatMessage,
        messages.ChatMessageChunk,
        messages.FunctionMessage,
        messages.FunctionMessageChunk,
        messages.HumanMessage,
        messages.HumanMessageChunk,
        messages.RemoveMessage,
        messages.SystemMessage,
        messages.SystemMessageChunk,
        messages.ToolMessage,
        messages.ToolMessageChunk,
    }
)


class MessageExtension:
    """Stores LangChain's messages. A message of a type of somebody's own must be registered."""

    tag: Final = "$message"

    def __init__(self) -> None:
        self._serializer = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)
        self._values = Values()

    def takes(self, value: object) -> bool:
        """Tell whether the value is one of its own."""
        return type(value) in _MESSAGES

    def identity(self, value: Any) -> Any:
        """Return all but the id, which is drawn anew in every run; of a removal the id is all."""
        content = {**vars(value), **(value.model_extra or {})}
        if not isinstance(value, messages.RemoveMessage):
            content.pop("id", None)
        return [type_name(type(value)), content]

    def encode(self, value: Any) -> str:
        """Return the message as text; one that would be read back as another is refused."""
        try:
            _, data = self._serializer.dumps_typed(value)
            text = base64.b64encode(data).decode()
            if self._values.identity(self._parts(self.decode(text))) == self._values.identity(
                self._parts(value)
            ):
                return text
        except (TypeError, ValueError) as exc:
            raise _unstorable(f"a {type(value).__name__} cannot be written: {exc}") from exc
        raise _unstorable(f"a {type(value).__name__} holds values that would not come back")

    def decode(self, text: str) -> Any:
        """Return the message of a text."""
        data = base64.b64decode(text, validate=True)
        made = self._serializer.loads_typed(("msgpack", data))
        if type(made) not in _MESSAGES:
            raise ValueError(f"a stored message is a {type_name(type(made))}")
        return made

    def _parts(self, value: Any) -> Any:
        return [*self.identity(value), value.id]


class CommandExtension:
    """Stores `Command`, `Send` and `Overwrite`, field by field."""

    tag: Final = "$langgraph"

    def __init__(self, values: Values) -> None:
        #: What the fields hold may be of this extension again.
        self._values = values.extended((self,))

    def takes(self, value: object) -> bool:
        """Tell whether the value is one of its own."""
        return type(value) in _BY_TYPE

    def identity(self, value: Any) -> Any:
        """Return all of it."""
        return [type(value).__name__, _fields_of(value)]

    def encode(self, value: Any) -> str:
        """Return the value as text."""
        if isinstance(value, Send) and value.timeout is not None:
            raise _unstorable(f"a Send to {value.node} has a timeout: give timeout_s to the node")
        try:
            encoded = self._values.encode(_fields_of(value))
        except RecursionError as exc:
            raise _unstorable(f"a {type(value).__name__} holds itself") from exc
        return orjson.dumps([type(value).__name__, encoded]).decode()

    def decode(self, text: str) -> Any:
        """Return the value of a text."""
        name, encoded = orjson.loads(text)
        return _BY_NAME[name](**self._values.decode(encoded))


def graph_extensions(values: Values) -> tuple[MessageExtension, CommandExtension]:
    """Return what stores LangGraph's values beside those that are known already."""
    message = MessageExtension()
    return message, CommandExtension(values.extended((message,)))


_BY_TYPE: Final[Mapping[type, tuple[str, ...]]] = {
    Command: tuple(each.name for each in fields(Command)),
    Overwrite: tuple(each.name for each in fields(Overwrite)),
    Send: ("node", "arg"),
}
_BY_NAME: Final[Mapping[str, type]] = {kind.__name__: kind for kind in _BY_TYPE}


def _fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _BY_TYPE[type(value)]}


def _unstorable(why: str) -> InvalidInput:
    return InvalidInput(why, code="node_result_unstorable")
