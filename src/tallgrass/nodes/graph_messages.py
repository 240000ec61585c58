"""Ids of messages, which LangGraph draws by chance, made the same in every run of a task.

Ids do not count in a node's identity. So log and cache hold none of another task: the id of a
message that the node was given is stored as its place among the inputs, and a message that it made
without an id is stored so. Both get their ids when the result is handed on, the first its own, the
second one that depends on the task alone: after a hit, after a resume and after a run alike. An id
that a model's call drew is kept for its own task; in any other it would replace a message.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid5

from langchain_core.messages import LC_ID_PREFIX, BaseMessage, RemoveMessage
from langgraph.types import Send
from pydantic import BaseModel

_NAMESPACE: Final = UUID("5e0c3b0e-6f0a-5a3f-9d53-0c1f2b7d8a11")
#: No id that a library draws looks like this.
_PLACE: Final = "tallgrass:input:"
_DRAWN: Final = "tallgrass:drawn:"
_PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes})


class MessageIds:
    """The ids of the messages that one call of a node was given.

    Its place, together with the hash of its inputs, names the call.
    """

    def __init__(self, inputs: Any, place: str, hash_of: Callable[[Any], str]) -> None:
        found: list[str] = []
        _mapped(inputs, lambda message: _noted(message, found))
        self._ids = list(dict.fromkeys(found))
        self._inputs = inputs
        self._place = place
        self._hash_of = hash_of

    @cached_property
    def _task(self) -> str:
        # A thread may come to one place with other inputs: a chat whose caller keeps the messages.
        return sha256(f"{self._place}|{self._hash_of(self._inputs)}".encode()).hexdigest()

    def hide(self, result: Any) -> Any:
        """Return a result without ids that were drawn: those of inputs by their places."""
        places = {known: f"{_PLACE}{place}" for place, known in enumerate(self._ids)}

        def hidden(message: BaseMessage) -> BaseMessage:
            if message.id in places or not _is_drawn(message):
                return _renamed(message, places)
            return message.model_copy(update={"id": f"{_DRAWN}{self._task}:{message.id}"})

        return _mapped(result, hidden)

    def show(self, result: Any) -> Any:
        """Return a result as it is handed on: every message has an id."""
        known = {f"{_PLACE}{place}": each for place, each in enumerate(self._ids)}
        made = 0

        def shown(message: BaseMessage) -> BaseMessage:
            nonlocal made
            if message.id is None:
                made += 1
                return message.model_copy(update={"id": self._made(str(made))})
            if message.id.startswith(_DRAWN):
                task, _, drawn = message.id.removeprefix(_DRAWN).partition(":")
                own = drawn if task == self._task else self._made(drawn)
                return message.model_copy(update={"id": own})
            return _renamed(message, known)

        return _mapped(result, shown)

    def _made(self, name: str) -> str:
        return str(uuid5(_NAMESPACE, f"{self._task}|{name}"))


def _is_drawn(message: BaseMessage) -> bool:
    """Tell an id that LangChain drew for a call of a model; of a removal it is what it removes."""
    drawn = message.id is not None and message.id.startswith(LC_ID_PREFIX)
    return drawn and not isinstance(message, RemoveMessage)


def _noted(message: BaseMessage, found: list[str]) -> BaseMessage:
    if message.id is not None:
        found.append(message.id)
    return message


def _renamed(message: BaseMessage, names: Mapping[str, str]) -> BaseMessage:
    name = names.get(message.id or "")
    return message if name is None else message.model_copy(update={"id": name})


def _mapped(value: Any, change: Callable[[BaseMessage], BaseMessage]) -> Any:
    """Return the value with its messages changed; what holds none is returned as it is."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, BaseMessage):
        return change(value)
    if kind is dict:
        made = {key: _mapped(each, change) for key, each in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if kind in {list, tuple}:
        parts = [_mapped(each, change) for each in value]
        changed = any(new is not old for new, old in zip(parts, value, strict=True))
        return kind(parts) if changed else value
    return _mapped_inside(value, change)


def _mapped_inside(value: Any, change: Callable[[BaseMessage], BaseMessage]) -> Any:
    if isinstance(value, Send):
        arg = _mapped(value.arg, change)
        return value if arg is value.arg else Send(value.node, arg, timeout=value.timeout)
    changed: dict[str, Any] = {}
    for name in _fields_of(value):
        old = getattr(value, name)
        new = _mapped(old, change)
        if new is not old:
            changed[name] = new
    if not changed:
        return value
    made = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(made, name, new)
    return made


def _fields_of(value: Any) -> Iterable[str]:
    """Return the names of what commands, states and other records hold."""
    if isinstance(value, BaseModel):
        return tuple(vars(value))
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(each.name for each in fields(value))
    return ()
