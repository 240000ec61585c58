"""What a function reaches through modules: by their attributes, and by imports inside it.

A module as such has no version: which of its code a function uses is told by the attributes that
it looks up there. Where that is not told, there is no answer, and `InvalidInput` says why.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from tallgrass.errors import InvalidInput
from tallgrass.nodes.code_homes import imported_name, is_there, loaded, named_module, submodule
from tallgrass.nodes.code_lookups import Import, Lookup, Lookups, Use

#: By these, code reaches other code under names that are not in it.
_DYNAMIC: Final = frozenset(
    {
        "builtins.__import__",
        "builtins.eval",
        "builtins.exec",
        "builtins.globals",
        "importlib.__import__",
        "importlib._bootstrap.module_from_spec",
        "importlib.import_module",
        "importlib.reload",
        "importlib.util.module_from_spec",
        "pkgutil.resolve_name",
        "runpy.run_module",
        "runpy.run_path",
        "sys.modules",
    }
)
_DYNAMIC_MODULES: Final = frozenset(each.partition(".")[0] for each in _DYNAMIC)
#: Stands for an attribute that a module does not have.
_ABSENT: Final = NotImplemented


class _Named(NamedTuple):
    """Something in a module that is told by its version."""

    module: str
    path: str

    @property
    def is_followed(self) -> bool:
        """Whether anything in it matters beside its version."""
        return self.module.partition(".")[0] in _DYNAMIC_MODULES


class Reach:
    """Follows lookups through the modules that `is_home` picks by their names."""

    def __init__(self, is_home: Callable[[str], bool]) -> None:
        self._is_home = is_home
        #: Whether a module had to be imported, which may have changed what was seen before.
        self.has_imported = False

    def of(self, function: FunctionType, looked: Lookups) -> list[tuple[str, Any]]:
        """Return what a function reaches through modules, each under the name by which it does."""
        table = function.__globals__
        _refuse_untold(looked, table)
        if not looked.chains:
            return []
        closed = dict(closed_over(function))
        kept: dict[str, list[Any]] = {}
        found: dict[str, Any] = {}
        has_grown = True
        while has_grown:
            has_grown = False
            for chain in looked.chains:
                for start in self._starts(chain.root, table, closed, kept):
                    end = self._end(chain, start, found)
                    if end is None:
                        continue
                    if chain.into is not None:
                        has_grown |= _is_added(end, kept.setdefault(chain.into, []))
                    elif chain.use is Use.HANDED_ON and isinstance(end, ModuleType):
                        raise unfollowed(
                            f"{function.__qualname__} hands on the module {end.__name__}, "
                            "and which of its code is used then is not told"
                        )
        return sorted(found.items(), key=lambda pair: pair[0])

    def _starts(
        self,
        root: str | Import,
        table: Mapping[str, Any],
        closed: Mapping[str, Any],
        kept: Mapping[str, list[Any]],
    ) -> Iterator[Any]:
        if isinstance(root, Import):
            yield self._imported(root, table)
            return
        for value in (table.get(root), closed.get(root)):
            if isinstance(value, ModuleType):
                start = self._told(value)
                if isinstance(start, ModuleType) or start.is_followed:
                    yield start
        yield from kept.get(root, ())

    def _end(self, chain: Lookup, start: Any, found: dict[str, Any]) -> Any:
        """Return the module that a chain ends at, or None; all else is added to `found`."""
        value = start
        name = start.path if isinstance(start, _Named) else start.__name__
        for number, attribute in enumerate(chain.attributes, 1):
            if isinstance(value, _Named):
                value = _Named(value.module, f"{value.path}.{attribute}")
                refuse_dynamic(value.path)
            elif isinstance(value, ModuleType):
                is_last = number == len(chain.attributes)
                value = self._told(self._attribute(value, attribute, chain, is_last=is_last))
            else:
                # A function, a class or a value: all of it counts, whatever is looked up there.
                break
            name = f"{name}.{attribute}"
        if isinstance(value, ModuleType):
            return value
        if isinstance(value, _Named):
            found[value.module] = named_module(value.module)
            return value if value.is_followed else None
        found[name] = value
        return None

    def _told(self, value: Any) -> Any:
        """Return a value, or the name of a module that is told by its version."""
        if isinstance(value, ModuleType) and not self._is_home(value.__name__):
            return _Named(value.__name__, value.__name__)
        return value

    def _attribute(self, module: ModuleType, name: str, chain: Lookup, *, is_last: bool) -> Any:
        place = f"{module.__name__}.{name}"
        if name == "__dict__":
            raise unfollowed(_untold(place))
        members = vars(module)
        if name in members:
            return members[name]
        with self._running_code_of(place):
            # A module may have a function that makes attributes.
            found = getattr(module, name, _ABSENT)
            if found is _ABSENT and isinstance(chain.root, Import):
                found = submodule(module, name) or _ABSENT
        if found is _ABSENT and not (chain.optional and is_last):
            raise unfollowed(f"{place} is used, and is not there")
        return found

    def _imported(self, wanted: Import, table: Mapping[str, Any]) -> Any:
        with self._running_code_of(wanted.name):
            full = imported_name(wanted, table)
        given = full if wanted.whole else full.partition(".")[0]
        if not is_there(full):
            raise unfollowed(f"{full} is imported inside a function, and is not there")
        if not self._is_home(full):
            return _Named(given, given)
        with self._running_code_of(full):
            loaded(full)
            return loaded(given)

    @contextmanager
    def _running_code_of(self, name: str) -> Iterator[None]:
        """Note what is imported meanwhile: it is code that the function itself would run."""
        before = len(sys.modules)
        try:
            yield
        except Exception as exc:
            raise unfollowed(f"{name} cannot be imported: {exc}") from exc
        finally:
            self.has_imported |= len(sys.modules) != before


def closed_over(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function closes over and that have a value, by name."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def refuse_dynamic(path: str) -> None:
    """Refuse that by which code reaches other code under names that are not in it."""
    if path in _DYNAMIC:
        raise unfollowed(_untold(path.removeprefix("builtins.")))


def unfollowed(why: str) -> InvalidInput:
    """Say why code cannot be followed to all that it uses."""
    return InvalidInput(why, code="node_input_unhashable")


def _refuse_untold(looked: Lookups, table: Mapping[str, Any]) -> None:
    if looked.untold:
        raise unfollowed(_untold(looked.untold[0]))
    for name in looked.names:
        if name not in table:
            refuse_dynamic(f"builtins.{name}")


def _untold(path: str) -> str:
    return f"{path} is used, and which code is reached by it is not told"


def _is_added(end: Any, kept: list[Any]) -> bool:
    if any(each is end or each == end for each in kept):
        return False
    kept.append(end)
    return True
