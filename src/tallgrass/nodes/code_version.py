"""A version of a node's code, derived from the code itself where nobody gives one.

It covers the function and all that it reaches inside its own distribution, and in whatever was
never installed: code objects, constants, default and closure values, globals, classes with their
objects, callees, modules by the attributes that are looked up in them, and imports inside
functions; of other distributions the version; and Python's own. Places of files and line numbers do
not count, so it is the same in every checkout. What cannot be hashed, and what is reached in a way
that the code does not tell, gives no version, and without one nothing is cached.
"""

import functools
import logging
import re
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from tallgrass.canonical_json import canonical_bytes
from tallgrass.errors import InvalidInput
from tallgrass.nodes.code_homes import OWN, distribution_of, is_public, named_module
from tallgrass.nodes.code_lookups import lookups_of
from tallgrass.nodes.code_modules import Reach, closed_over, refuse_dynamic, unfollowed
from tallgrass.nodes.code_state import PLAIN, class_members, kinds_in, state_of, taken_apart
from tallgrass.nodes.values import DEPTH_MAX, Values, hash_of_identity, type_name

_PYTHON: Final = f"{sys.implementation.name}-{'.'.join(map(str, sys.version_info[:3]))}"
_PLAIN_VALUES: Final = Values()
_CALLABLES: Final = FunctionType | MethodType | partial | type
_A_DISPATCHER: Final[Any] = functools.singledispatch(len)
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
#: Beyond so many parts a node is no longer one thing.
_PARTS_MAX: Final = 2_000
#: What is imported on the way may fill a registry that was looked at before.
_WALKS_MAX: Final = 3


def derive_code_version(function: Callable[..., Any], values: Values, inputs: Any = None) -> str:
    """Return the version; InvalidInput says what could not be hashed.

    The classes of objects among the inputs count: the function may call their methods.
    """
    try:
        return f"derived-{_hash(function, values, kinds_in(inputs))[:40]}"
    except InvalidInput:
        raise
    except RecursionError:
        raise _too_deep() from None
    except Exception as exc:
        # Looking at an object may run code of its class, which fails as it likes.
        raise unfollowed(f"the code reaches what cannot be looked at: {exc!r}") from exc


def _hash(function: Callable[..., Any], values: Values, kinds: list[type], walks: int = 1) -> str:
    walk = _Walk(values, _home_of(function))
    found = hash_of_identity([_PYTHON, walk.over(function, *kinds)])
    if walk.reach.has_imported and walks < _WALKS_MAX:
        return _hash(function, values, kinds, walks + 1)
    return found


class _Walk:
    """One pass over functions and classes and what they reach; each thing once."""

    def __init__(self, values: Values, home: str) -> None:
        self.reach = Reach(self._is_home)
        self._values = values
        self._homes = frozenset({home, OWN})
        self._depth = 0
        # By number: the things that have one, and what they were found to be. A thing in another is
        # named by its number, so that code that calls far down is not nested as deep.
        self._things: list[Any] = []
        self._found: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._annotations: list[Any] = []
        self._is_annotation = False

    def over(self, *things: Any) -> Any:
        """Return a JSON value that changes whenever the things do, or what they reach."""
        roots = [self.of(each) for each in things]
        self._find(self._content)
        # What only annotations name is looked at after all that is used, and less closely.
        self._is_annotation = True
        noted = []
        # Classes that annotations name add their own on the way.
        for each in self._annotations:
            noted.append(_or_text(self.of, each))
            self._find(partial(_or_text, self._content))
        return [roots, self._found, noted]

    def _find(self, content: Callable[[Any], Any]) -> None:
        """Look at all that has a number and was not looked at yet."""
        while len(self._found) < len(self._things):
            self._found.append(content(self._things[len(self._found)]))

    def of(self, thing: Any) -> Any:
        """Return a JSON value that changes whenever the thing does; some stand under a number."""
        if type(thing) in PLAIN:
            return {"value": self._values.identity(thing)}
        if hasattr(thing, "__dict__"):
            return {"part": self._number(thing)}
        return self._content(thing)

    def _content(self, thing: Any) -> Any:
        if isinstance(thing, FunctionType):
            return self._function(thing)
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, tuple | list | dict | set | frozenset):
            self._depth += 1
            try:
                if self._depth > DEPTH_MAX:
                    raise _too_deep()
                return self._container(thing)
            finally:
                self._depth -= 1
        return self._other(thing)

    def _container(self, thing: Any) -> Any:
        kind = type(thing)
        if kind is tuple or kind is list:
            return {kind.__name__: [self.of(each) for each in thing]}
        if thing is sys.modules:
            refuse_dynamic("sys.modules")
        if kind is dict:
            return {"dict": [[self.of(key), self.of(each)] for key, each in thing.items()]}
        if kind is set or kind is frozenset:
            return {kind.__name__: [self.of(each) for each in sorted(thing, key=self._order)]}
        return self._instance(thing)

    def _order(self, member: Any) -> bytes:
        """Return that by which members of a set are sorted, whatever the process hashes them to."""
        try:
            return canonical_bytes(self._values.identity(member))
        except InvalidInput:
            names = (getattr(member, each, None) for each in ("__module__", "__qualname__"))
            return canonical_bytes([type_name(type(member)), *map(str, names)])

    def _other(self, thing: Any) -> Any:
        if isinstance(thing, ModuleType):
            return self._module(thing)
        if isinstance(thing, CodeType):
            return {"code": _code_hash(thing)}
        if isinstance(thing, MethodType):
            return {"method": [self.of(thing.__func__), self.of(thing.__self__)]}
        if isinstance(thing, partial):
            return {"partial": [self.of(thing.func), self.of(thing.args), self.of(thing.keywords)]}
        if isinstance(thing, BuiltinFunctionType):
            return self._builtin(thing)
        if isinstance(thing, functools._lru_cache_wrapper):  # noqa: SLF001 - it has no public name
            return {"cached": self.of(thing.__wrapped__)}
        if isinstance(thing, logging.Logger):
            return {"logger": thing.name}
        parts = taken_apart(thing)
        return self._instance(thing) if parts is None else {parts[0]: self.of(parts[1])}

    def _module(self, module: ModuleType) -> Any:
        if self._is_home(module.__name__):
            raise unfollowed(
                f"the module {module.__name__} is held as a value, "
                "and which of its code is used is not told"
            )
        return {"module": named_module(module.__name__)}

    def _builtin(self, thing: BuiltinFunctionType) -> Any:
        owner = thing.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            # A method of a value, such as the `get` of a table.
            return {"builtin": [self.of(owner), thing.__name__]}
        module = thing.__module__ or ""
        refuse_dynamic(f"{module}.{thing.__qualname__}")
        if distribution_of(module) == OWN:
            raise unfollowed(f"{module}.{thing.__qualname__} is compiled, and has no version")
        return {"builtin": [named_module(module), thing.__qualname__]}

    def _instance(self, thing: Any) -> Any:
        """Return an object: its class, for what it can do, and what it holds."""
        kind = type(thing)
        if not self._is_home(kind.__module__):
            try:
                return {"value": self._values.identity(thing), "of": self.of(kind)}
            except InvalidInput:
                if not hasattr(kind, "__dataclass_fields__"):
                    raise unfollowed(f"{type_name(kind)} has no stable form") from None
        return {"instance": [self.of(kind), self.of(state_of(thing))]}

    def _function(self, function: FunctionType) -> Any:
        if function.__code__ is _A_DISPATCHER.__code__:
            return self._dispatched(function)
        # A wrapper takes the module's name of what it wraps; its code is where its globals are.
        owner = str(function.__globals__.get("__name__") or "")
        if not self._is_home(owner):
            refuse_dynamic(f"{owner}.{function.__qualname__}")
            named = {"function": [named_module(owner), function.__qualname__]}
            is_told = not self._is_home(function.__module__ or "") and is_public(function)
            return named if is_told else named | self._made_with(function)
        if self._is_annotation:
            return {"code": _code_hash(function.__code__)}
        looked = lookups_of(function.__code__)
        table = function.__globals__
        return {
            "code": _code_hash(function.__code__),
            "globals": [[name, self._held(table[name])] for name in looked.names if name in table],
            "reached": [[name, self.of(each)] for name, each in self.reach.of(function, looked)],
            **self._made_with(function),
        }

    def _made_with(self, function: FunctionType) -> dict[str, Any]:
        """Return what a function has beside its code: defaults, closure, functions set on it."""
        found: dict[str, Any] = {}
        if function.__defaults__ is not None:
            found["defaults"] = self.of(function.__defaults__)
        if function.__kwdefaults__ is not None:
            found["keywords"] = self.of(function.__kwdefaults__)
        if function.__closure__ is not None:
            found["closure"] = [[name, self._held(each)] for name, each in closed_over(function)]
        for name, each in sorted(vars(function).items()):
            if isinstance(each, _CALLABLES):
                found.setdefault("attributes", []).append([name, self.of(each)])
        return found

    def _held(self, thing: Any) -> Any:
        """Return what a name stands for; what is used of a module is followed by itself."""
        if isinstance(thing, ModuleType) and self._is_home(thing.__name__):
            return {"module": thing.__name__}
        return self.of(thing)

    def _dispatched(self, function: Any) -> Any:
        by_type = sorted(function.registry.items(), key=lambda pair: type_name(pair[0]))
        return {"dispatch": [[self.of(kind), self.of(each)] for kind, each in by_type]}

    def _class(self, kind: type) -> Any:
        if not self._is_home(kind.__module__) and "<locals>" not in kind.__qualname__:
            return {"class": [named_module(kind.__module__), kind.__qualname__]}
        return {
            "bases": [self.of(base) for base in kind.__bases__ if base is not object],
            "made_by": None if type(kind) is type else self.of(type(kind)),
            "members": {
                name: self._annotated(member) if name == "__annotations__" else self.of(member)
                for name, member in class_members(kind)
            },
        }

    def _annotated(self, annotations: dict[str, Any]) -> Any:
        first = len(self._annotations)
        self._annotations.extend(annotations.values())
        return {"annotations": [first, *annotations]}

    def _is_home(self, module: str) -> bool:
        return distribution_of(module) in self._homes

    def _number(self, thing: Any) -> int:
        number = self._numbers.get(id(thing))
        if number is None:
            number = len(self._things)
            if number >= _PARTS_MAX:
                raise unfollowed(f"the code reaches more than {_PARTS_MAX} functions and classes")
            # Kept here it stays alive, so that no id is used twice.
            self._things.append(thing)
            self._numbers[id(thing)] = number
        return number


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


def _or_text(content: Callable[[Any], Any], thing: Any) -> Any:
    try:
        return content(thing)
    except InvalidInput:
        return {"text": _ADDRESS.sub("", repr(thing))}


def _too_deep() -> InvalidInput:
    return unfollowed("the code reaches a value that is too deep, or holds itself")


def _home_of(thing: Any) -> str:
    while isinstance(thing, partial):
        thing = thing.func
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return distribution_of(module)
