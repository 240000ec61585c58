"""What of a class or of an object counts for the code that uses it.

The objects of Python's own libraries that stand in user's modules are taken apart here: fields of
dataclasses, descriptors, schemas of pydantic, patterns. Nothing here imports pydantic.
"""

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from datetime import timezone
from enum import Enum
from pathlib import PurePath
from types import (
    DynamicClassAttribute,
    GenericAlias,
    MethodDescriptorType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Final
from zoneinfo import ZoneInfo

from tallgrass.errors import InvalidInput
from tallgrass.nodes.values import type_name

#: Types of values that hold nothing.
PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})
#: Attributes of a class that Python makes, or that say nothing about what it does.
_CLASS_NOISE: Final = frozenset(
    {
        "__dict__",
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__signature__",
        "__static_attributes__",
        "__weakref__",
    }
)
_NOISE_BEGINS: Final = ("_abc_", "__pydantic_")
_SCHEMA: Final = "__pydantic_core_schema__"
#: Types of values that there is one of in a process.
_SINGLETONS: Final = frozenset(
    {
        "builtins.NotImplementedType",
        "builtins.ellipsis",
        "dataclasses._HAS_DEFAULT_FACTORY_CLASS",
        "dataclasses._KW_ONLY_TYPE",
        "dataclasses._MISSING_TYPE",
        "pydantic_core._pydantic_core.PydanticUndefinedType",
    }
)
#: Descriptors whose place in the class says it all.
_PLACES: Final = frozenset({"_collections._tuplegetter"})
_CONTAINERS: Final = frozenset({list, tuple, set, frozenset})
_COMPILED: Final = MethodDescriptorType | WrapperDescriptorType
_HEAP_TYPE: Final = 1 << 9
#: What an object holds beside its attributes, where its class is made from one of these.
_CONTENT: Final[Mapping[type, Any]] = {
    object: lambda _: None,
    dict: lambda thing: dict(dict.items(thing)),
    list: lambda thing: list(list.__iter__(thing)),
    tuple: lambda thing: tuple(tuple.__iter__(thing)),
    set: lambda thing: set(set.__iter__(thing)),
    frozenset: lambda thing: frozenset(frozenset.__iter__(thing)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda thing: bytes(memoryview(thing)),
    BaseException: lambda thing: thing.args,
}


def class_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the members of a class that count, by name, as what they do."""
    for name, member in sorted(vars(kind).items()):
        if isinstance(member, _COMPILED) and member.__objclass__ is kind:
            raise InvalidInput(
                f"{type_name(kind)} is compiled, and has no version", code="node_input_unhashable"
            )
        if name not in _CLASS_NOISE and not name.startswith(_NOISE_BEGINS):
            yield name, _unwrapped(member)
    if _SCHEMA in vars(kind):
        # Types, constraints, defaults, validators: all by which a model of pydantic judges.
        yield _SCHEMA, _without_ids(vars(kind)[_SCHEMA])


def taken_apart(thing: Any) -> tuple[str, Any] | None:
    """Return what an object of a known library consists of, under a word for it."""
    kind = type(thing)
    if type_name(kind) in _SINGLETONS:
        return "singleton", type_name(kind)
    if isinstance(thing, re.Pattern):
        return "pattern", (thing.pattern, thing.flags)
    if isinstance(thing, timezone | ZoneInfo):
        return "zone", repr(thing)
    if isinstance(thing, PurePath):
        return "path", (kind.__name__, str(thing))
    if isinstance(thing, GenericAlias | UnionType) or kind.__module__ in {"typing", "_typing"}:
        origin = typing.get_origin(thing)
        return "type", repr(thing) if origin is None else (origin, typing.get_args(thing))
    if inspect.ismethoddescriptor(thing) and hasattr(thing, "__objclass__"):
        return "descriptor", (thing.__objclass__, thing.__name__)
    if isinstance(thing, dataclasses.Field):
        names = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
        return "field", [*(getattr(thing, each) for each in names), dict(thing.metadata)]
    if type_name(kind) == "dataclasses._DataclassParams":
        return "dataclass", repr(thing)
    if type_name(kind) == "pydantic.fields.ModelPrivateAttr":
        return "private", [thing.default, thing.default_factory]
    return None


def state_of(thing: Any) -> dict[str, Any]:
    """Return all that an object holds; what it holds where nobody can look is refused."""
    kind = type(thing)
    if isinstance(thing, Enum):
        return {"name": thing.name, "value": thing.value}
    base = next(each for each in kind.__mro__ if not each.__flags__ & _HEAP_TYPE)
    if issubclass(base, BaseException):
        base = BaseException
    if base not in _CONTENT:
        raise InvalidInput(f"{type_name(kind)} has no stable form", code="node_input_unhashable")
    found = {name: getattr(thing, name) for name in _slots(kind) if hasattr(thing, name)}
    # Without what was computed from the rest and remembered.
    found |= {
        name: value
        for name, value in getattr(thing, "__dict__", {}).items()
        if not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    return {"content": _CONTENT[base](thing), "attributes": dict(sorted(found.items()))}


def kinds_in(value: Any) -> list[type]:
    """Return the classes of all objects in a value that can be hashed, sorted by their names."""
    if type(value) in PLAIN:
        return []
    kinds: set[type] = set()
    _add_kinds(value, kinds)
    return sorted(kinds, key=type_name)


def _add_kinds(value: Any, kinds: set[type]) -> None:
    kind = type(value)
    parts: Iterable[Any] = ()
    if kind is dict:
        parts = (*value.keys(), *value.values())
    elif kind in _CONTAINERS:
        parts = value
    elif isinstance(value, Enum):
        kinds.add(kind)
    elif dataclasses.is_dataclass(kind):
        kinds.add(kind)
        parts = [getattr(value, each.name, None) for each in dataclasses.fields(kind)]
    elif hasattr(kind, _SCHEMA):
        kinds.add(kind)
        parts = vars(value).values()
    # Long lists of numbers need no look at each.
    if not PLAIN.issuperset(map(type, parts)):
        for each in parts:
            _add_kinds(each, kinds)


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        for name, member in vars(each).items():
            if inspect.ismemberdescriptor(member) and member.__objclass__ is each:
                yield name


def _unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    if isinstance(member, property | DynamicClassAttribute):
        return (member.fget, member.fset, member.fdel)
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, functools.singledispatchmethod):
        return member.dispatcher
    if isinstance(member, functools.partialmethod):
        return (member.func, member.args, member.keywords)
    if inspect.isgetsetdescriptor(member) or inspect.ismemberdescriptor(member):
        return None
    return None if type_name(type(member)) in _PLACES else member


def _without_ids(schema: Any) -> Any:
    """Return a schema of pydantic without the addresses that it names classes by."""
    if isinstance(schema, dict):
        return {
            key: re.sub(r":\d+", "", each)
            if key in {"ref", "schema_ref"} and isinstance(each, str)
            else _without_ids(each)
            for key, each in schema.items()
        }
    if isinstance(schema, list):
        return [_without_ids(each) for each in schema]
    return schema
