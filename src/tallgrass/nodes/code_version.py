"""A version of a node's code, derived from the code itself where nobody gives one.

It covers the function and all that it reaches by name inside its own distribution: code objects,
constants, default and closure values, globals, classes and callees; of other distributions the
version; and Python's own. Places of files and line numbers do not count, so it is the same in every
checkout. What cannot be hashed gives no version, and without one nothing is cached.
"""

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from importlib import metadata
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.nodes.values import Values, hash_of_identity, type_name

_PYTHON = f"{sys.implementation.name}-{'.'.join(map(str, sys.version_info[:3]))}"
#: Attributes of a class that Python makes, or that say nothing about what it does.
_CLASS_NOISE = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"}
)
_WRAPPERS = (classmethod, staticmethod)
_PLAIN_VALUES = Values()
_INSTALLED_BELOW = {"site-packages", "dist-packages"}
#: Beyond so many parts a node is no longer one thing.
_PARTS_MAX = 2_000


def derive_code_version(function: Callable[..., Any], values: Values) -> str:
    """Return the version; InvalidInput says what could not be hashed."""
    walk = _Walk(values, _distribution_of(function))
    try:
        return f"derived-{hash_of_identity([_PYTHON, walk.of(function)])[:40]}"
    except RecursionError:
        raise InvalidInput(
            "the code reaches a value that is too deep, or holds itself",
            code="node_input_unhashable",
        ) from None


class _Walk:
    """One pass over a function and what it reaches; each thing once."""

    def __init__(self, values: Values, home: str) -> None:
        self._values = values
        self._home = home
        self._seen: dict[int, int] = {}
        # Keeps what was seen alive, so that no id is used twice.
        self._kept: list[object] = []

    def of(self, thing: Any) -> Any:
        """Return a JSON value that changes whenever the thing does."""
        known = self._seen.get(id(thing))
        if known is not None and not _is_value(thing):
            return {"again": known}
        if not _is_value(thing):
            self._remember(thing)
        if isinstance(thing, FunctionType):
            return self._function(thing)
        if isinstance(thing, CodeType):
            return {"code": _code_hash(thing)}
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, ModuleType):
            return {"module": _named_module(thing.__name__)}
        return self._other(thing)

    def _other(self, thing: Any) -> Any:
        if isinstance(thing, MethodType):
            return {"method": [self.of(thing.__func__), self.of(thing.__self__)]}
        if isinstance(thing, partial):
            return {"partial": [self.of(thing.func), self.of(thing.args), self.of(thing.keywords)]}
        if isinstance(thing, BuiltinFunctionType):
            return {"builtin": [_named_module(thing.__module__ or ""), thing.__qualname__]}
        if isinstance(thing, functools._lru_cache_wrapper):  # noqa: SLF001 - it has no public name
            return {"cached": self.of(thing.__wrapped__)}
        if isinstance(thing, logging.Logger):
            return {"logger": thing.name}
        if thing is Ellipsis or thing is NotImplemented:
            return {"singleton": repr(thing)}
        if isinstance(thing, tuple | list):
            return {type(thing).__name__: [self.of(each) for each in thing]}
        if type(thing) is dict:
            return {"dict": [[self.of(key), self.of(each)] for key, each in thing.items()]}
        return self._value_or_instance(thing)

    def _value_or_instance(self, thing: Any) -> Any:
        try:
            return {"value": self._values.identity(thing)}
        except InvalidInput:
            kind = type(thing)
            if not self._is_home(kind.__module__) or not hasattr(thing, "__dict__"):
                raise InvalidInput(
                    f"{type_name(kind)} has no stable form", code="node_input_unhashable"
                ) from None
        return {"instance": [self.of(kind), self.of(dict(vars(thing)))]}

    def _function(self, function: FunctionType) -> Any:
        if not self._is_home(function.__module__ or ""):
            return {"function": [_named_module(function.__module__ or ""), function.__qualname__]}
        cells = function.__closure__ or ()
        names = _names_of(function.__code__)
        return {
            "code": _code_hash(function.__code__),
            "defaults": self.of(function.__defaults__ or ()),
            "keywords": self.of(function.__kwdefaults__ or {}),
            "closure": [self._cell(cell) for cell in cells],
            "globals": [[name, self._global(function.__globals__, name, names)] for name in names],
        }

    def _cell(self, cell: Any) -> Any:
        try:
            content = cell.cell_contents
        except ValueError:
            return {"empty": True}
        return self.of(content)

    def _global(self, table: dict[str, Any], name: str, attributes: tuple[str, ...]) -> Any:
        if name not in table:
            return None
        thing = table[name]
        if isinstance(thing, ModuleType) and self._is_home(thing.__name__):
            # ``helpers.compute``: the attributes are among the code's names, whichever they are.
            found = [attribute for attribute in attributes if hasattr(thing, attribute)]
            return {each: self.of(getattr(thing, each)) for each in found}
        return self.of(thing)

    def _class(self, kind: type) -> Any:
        if not self._is_home(kind.__module__):
            return {"class": [_named_module(kind.__module__), kind.__qualname__]}
        members = {
            name: self.of(_unwrapped(member))
            for name, member in sorted(vars(kind).items())
            if name not in _CLASS_NOISE and not name.startswith(("_abc_", "__pydantic_"))
        }
        return {"bases": [self.of(base) for base in kind.__bases__], "members": members}

    def _is_home(self, module: str) -> bool:
        return _distribution(module) == self._home

    def _remember(self, thing: object) -> None:
        if len(self._kept) >= _PARTS_MAX:
            raise InvalidInput(
                f"the code reaches more than {_PARTS_MAX} functions and classes",
                code="node_input_unhashable",
            )
        self._seen[id(thing)] = len(self._kept)
        self._kept.append(thing)


def _is_value(thing: object) -> bool:
    return not isinstance(
        thing, FunctionType | CodeType | type | ModuleType | MethodType | partial
    ) and (not hasattr(thing, "__dict__"))


def _unwrapped(member: Any) -> Any:
    if isinstance(member, _WRAPPERS):
        return member.__func__
    if isinstance(member, property):
        return (member.fget, member.fset, member.fdel)
    if inspect.isgetsetdescriptor(member) or inspect.ismemberdescriptor(member):
        return None
    return member


# Code objects never change, and hashing them took two thirds of a derivation.
@lru_cache(maxsize=4096)
def _code_hash(code: CodeType) -> str:
    return hash_of_identity(
        {
            "bytes": code.co_code.hex(),
            "constants": [_constant(each) for each in code.co_consts],
            "names": [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars],
            "shape": [
                code.co_argcount,
                code.co_posonlyargcount,
                code.co_kwonlyargcount,
                code.co_flags,
            ],
            "exceptions": code.co_exceptiontable.hex(),
        }
    )


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return {"code": _code_hash(constant)}
    if isinstance(constant, tuple):
        return {"tuple": [_constant(each) for each in constant]}
    if constant is Ellipsis:
        return {"singleton": "Ellipsis"}
    return {"value": _PLAIN_VALUES.identity(constant)}


@lru_cache(maxsize=4096)
def _names_of(code: CodeType) -> tuple[str, ...]:
    """Return the names that a code object and those inside it look up."""
    return tuple(sorted({name for each in _codes(code) for name in each.co_names}))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _distribution_of(thing: Any) -> str:
    while isinstance(thing, partial):
        thing = thing.func
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return _distribution(module)


@cache
def _distribution(module: str) -> str:
    """Return the distribution of a module; what was never installed is one: the user's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return "python"
    loaded = sys.modules.get(top)
    places = (getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ()))
    if not any(place and _INSTALLED_BELOW & set(Path(place).parts) for place in places):
        return "."
    found = _installed().get(top)
    return found[0] if found else "."


@cache
def _named_module(module: str) -> list[str]:
    distribution = _distribution(module)
    if distribution in {"python", "."}:
        return [module, distribution]
    return [module, distribution, metadata.version(distribution)]


@cache
def _installed() -> dict[str, list[str]]:
    return {top: sorted(names) for top, names in metadata.packages_distributions().items()}
