"""Which distribution a module belongs to, and how one that code imports is found.

Code of an installed distribution is told by the distribution's version. Code that was never
installed has none, so it must always be followed: it is the user's own.
"""

import importlib
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata, util
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from tallgrass.nodes.code_lookups import Import

#: The distribution of all that was never installed.
OWN: Final = "."
_PYTHON: Final = "python"
#: Packages that are not loaded and were found.
_FOUND: Final[set[str]] = set()
_INSTALLED_BELOW: Final = frozenset({"site-packages", "dist-packages"})


@cache
def distribution_of(module: str) -> str:
    """Return the distribution of a module, or `OWN`; the module need not be loaded."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return _PYTHON
    if not any(_INSTALLED_BELOW & set(Path(each).parts) for each in _places(module)):
        return OWN
    found = _installed().get(top)
    return found[0] if found else OWN


@cache
def named_module(module: str) -> list[Any]:
    """Return what tells the code of a module that is not followed: its name and its version."""
    distribution = distribution_of(module)
    if distribution in {_PYTHON, OWN}:
        return [module, distribution]
    found = _installed()[module.partition(".")[0]]
    return [module, *([each, metadata.version(each)] for each in found)]


def imported_name(wanted: Import, table: Mapping[str, Any]) -> str:
    """Return the full name of what is imported; ImportError where there is none."""
    if wanted.level is None:
        raise ImportError("an import that cannot be read")
    if wanted.level == 0:
        return wanted.name
    package = table.get("__package__")
    if package is None:
        name = str(table.get("__name__") or "")
        package = name if "__path__" in table else name.rpartition(".")[0]
    return util.resolve_name("." * wanted.level + wanted.name, package)


def is_there(module: str) -> bool:
    """Tell whether the package of a module can be found; nothing of it is run."""
    top = module.partition(".")[0]
    return top in sys.modules or _is_findable(top)


def loaded(module: str) -> ModuleType:
    """Return a module, importing it where that did not happen yet."""
    found = sys.modules.get(module)
    return found if isinstance(found, ModuleType) else importlib.import_module(module)


def submodule(package: ModuleType, name: str) -> ModuleType | None:
    """Return a module below a package, also one that nobody imported yet; None where none is."""
    if not hasattr(package, "__path__"):
        return None
    full = f"{package.__name__}.{name}"
    return loaded(full) if full in sys.modules or _spec(full) is not None else None


def is_public(function: FunctionType) -> bool:
    """Tell whether a function is what its module has under its name: its version tells it all."""
    found: Any = sys.modules.get(function.__module__ or "")
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return getattr(found, "__func__", found) is function


def _places(module: str) -> list[str]:
    top, _, below = module.partition(".")
    if file := getattr(sys.modules.get(module), "__file__", None):
        return [file]
    if file := _file(top):
        return [file]
    # A package without a file runs nothing, and several distributions may fill it.
    spec = _spec(f"{top}.{below.partition('.')[0]}" if below else top)
    if spec is None:
        return []
    return [each for each in (spec.origin, *(spec.submodule_search_locations or ())) if each]


def _file(top: str) -> str | None:
    known = sys.modules.get(top)
    if known is not None:
        return getattr(known, "__file__", None)
    spec = _spec(top)
    return None if spec is None else spec.origin


def _is_findable(top: str) -> bool:
    # Looked for on disk at each derivation; what was found once stays, what was not may come.
    if top not in _FOUND and _spec(top) is not None:
        _FOUND.add(top)
    return top in _FOUND


def _spec(module: str) -> Any:
    try:
        return util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None


@cache
def _installed() -> dict[str, list[str]]:
    found = metadata.packages_distributions().items()
    return {top: sorted(set(names)) for top, names in found}
