"""What a code object looks up while it runs, read from its bytecode: names, attributes, imports.

A module is code of its own, and which part of it counts is told by how it is used. So each lookup
is followed as far as attributes lead: ``pkg.mod.f(x)`` is the name ``pkg`` and ``mod``, ``f``. What
becomes of the last of them is said too: kept under a local name, merely tested, or handed on. An
instruction that nothing here knows counts as the last, which is the careful reading.
"""

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import CodeType
from typing import Any, Final, NamedTuple


class Use(Enum):
    """What becomes of what a lookup gives."""

    #: It is kept under the local name `into`.
    KEPT = 1
    #: It is compared with None, judged true or false, given an attribute, or dropped.
    TESTED = 2
    #: It goes anywhere: to a call, into a container, out of the function.
    HANDED_ON = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import statement inside a function."""

    #: As written, without the dots before it.
    name: str
    #: How many dots; None where the bytecode could not be read.
    level: int | None
    #: Whether it gives the module named, or the first package of its name: ``import pkg.mod``.
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A name or an import, and the attributes that are looked up from there."""

    root: str | Import
    attributes: tuple[str, ...]
    #: Whether the last attribute may be missing: it is asked for by `getattr` or `hasattr`.
    optional: bool
    use: Use
    into: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """All lookups of a code object and of those inside it, in an order that is always the same."""

    #: Names of globals and builtins.
    names: tuple[str, ...]
    #: Lookups whose root may be a module.
    chains: tuple[Lookup, ...]
    #: Attributes by which anything may be reached, of those that are looked up anywhere.
    untold: tuple[str, ...]


class _Step(NamedTuple):
    kind: str
    value: Any


#: Instructions that leave the stack as it is, for what is told here.
_SILENT: Final = frozenset(
    {
        "CACHE",
        "COPY_FREE_VARS",
        "EXTENDED_ARG",
        "MAKE_CELL",
        "NOP",
        "NOT_TAKEN",
        "PRECALL",
        "PUSH_NULL",
        "RESUME",
    }
)
_KINDS: Final = {
    "CALL": "call",
    "DELETE_ATTR": "test",
    "IMPORT_FROM": "import_from",
    "IMPORT_NAME": "import",
    "IS_OP": "is",
    "LOAD_ATTR": "attribute",
    "LOAD_CLOSURE": "other",
    "LOAD_CONST": "constant",
    "LOAD_METHOD": "attribute",
    "LOAD_SMALL_INT": "constant",
    "LOAD_SUPER_ATTR": "other",
    "POP_TOP": "test",
    "STORE_ATTR": "test",
    "STORE_DEREF": "store",
    "STORE_FAST": "store",
    "STORE_NAME": "store",
    "SWAP": "swap",
    "TO_BOOL": "test",
    "UNARY_NOT": "test",
}
_UNTOLD: Final = frozenset({"__globals__", "__subclasses__", "f_globals"})
_ASKING: Final = frozenset({"getattr", "hasattr"})
_NAMED: Final = frozenset(dis.hasname)
_LOCAL: Final = frozenset({*dis.haslocal, *dis.hasfree})


# Code objects never change, and reading one takes far longer than all else that is done with it.
@lru_cache(maxsize=4096)
def lookups_of(code: CodeType) -> Lookups:
    """Return what a code object and those inside it look up."""
    names: set[str] = set()
    chains: set[Lookup] = set()
    for each in codes_in(code):
        steps = list(_steps(each))
        names |= {step.value for step in steps if step.kind == "name"}
        chains |= set(_chains(steps))
    kept = {each.into for each in chains if each.into is not None}
    roots = names | kept | set(code.co_freevars)
    found = [each for each in chains if isinstance(each.root, Import) or each.root in roots]
    untold = {name for each in codes_in(code) for name in each.co_names} & _UNTOLD
    return Lookups(
        names=tuple(sorted(names)),
        chains=tuple(sorted(found, key=repr)),
        untold=tuple(sorted(untold)),
    )


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions and classes that it makes."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _steps(code: CodeType) -> Iterator[_Step]:
    cells = {*code.co_cellvars, *code.co_freevars}
    for each in dis.get_instructions(code):
        if each.opname in _SILENT:
            continue
        if each.opcode in _LOCAL and isinstance(each.argval, tuple):
            # Two instructions in one, such as STORE_FAST_LOAD_FAST.
            first, second = each.argval
            yield _Step("store" if each.opname.startswith("STORE") else "local", first)
            yield _Step("store" if "_STORE_" in each.opname else "local", second)
        else:
            yield _Step(_kind(each, cells), each.argval)


def _kind(step: dis.Instruction, cells: set[str]) -> str:
    known = _KINDS.get(step.opname)
    if known is not None:
        return known
    if step.opname.startswith("POP_JUMP"):
        return "test"
    if step.opname.startswith(("STORE_", "DELETE_")):
        return "other"
    if step.opcode in _NAMED:
        return "name"
    if step.opcode in _LOCAL:
        # The cell itself, on its way into the closure of an inner function.
        return "other" if step.opname == "LOAD_FAST" and step.argval in cells else "local"
    return "other"


def _chains(steps: list[_Step]) -> Iterator[Lookup]:
    for at, step in enumerate(steps):
        if step.kind in {"name", "local"}:
            asked = at > 0 and steps[at - 1].kind == "name" and steps[at - 1].value in _ASKING
            yield _chain(steps, at + 1, step.value, asked=asked)
        elif step.kind == "import":
            yield from _imported(steps, at)


def _chain(steps: list[_Step], at: int, root: str, *, asked: bool) -> Lookup:
    """Follow attributes from a place in the code on, also through ``getattr(thing, "name")``."""
    attributes: list[str] = []
    optional = False
    while True:
        step = steps[at]
        if step.kind == "attribute":
            attributes.append(step.value)
            optional = False
            at += 1
        elif asked and (end := _end_of_asking(steps, at)) is not None:
            attributes.append(step.value)
            asked, optional = False, True
            at = end
        else:
            break
    use, into = _use(steps, at)
    return Lookup(root=root, attributes=tuple(attributes), optional=optional, use=use, into=into)


def _end_of_asking(steps: list[_Step], at: int) -> int | None:
    """Return the place after ``"name")`` or ``"name", default)``, if this is one of them."""
    if steps[at].kind != "constant" or not isinstance(steps[at].value, str):
        return None
    if steps[at + 1] == _Step("call", 2):
        return at + 2
    has_default = steps[at + 1].kind in {"constant", "local", "name"}
    return at + 3 if has_default and steps[at + 2] == _Step("call", 3) else None


def _use(steps: list[_Step], at: int) -> tuple[Use, str | None]:
    step = steps[at]
    if step.kind == "store":
        return Use.KEPT, step.value
    is_none = step == _Step("constant", None) and steps[at + 1].kind == "is"
    return (Use.TESTED if step.kind == "test" or is_none else Use.HANDED_ON), None


def _imported(steps: list[_Step], at: int) -> Iterator[Lookup]:
    name = steps[at].value
    level, wanted = (steps[each].value for each in (at - 2, at - 1))
    if not isinstance(level, int) or not (wanted is None or isinstance(wanted, tuple)):
        root = Import(name=name, level=None, whole=True)
        yield Lookup(root=root, attributes=(), optional=False, use=Use.HANDED_ON)
        return
    at += 1
    if wanted is None:
        # ``import pkg.mod.sub as m`` takes ``mod`` and then ``sub`` out before it is kept.
        whole = steps[at].kind == "import_from"
        if whole:
            at += 1
            while [each.kind for each in steps[at : at + 3]] == ["swap", "test", "import_from"]:
                at += 3
        use, into = _use(steps, at)
        root = Import(name=name, level=level, whole=whole)
        yield Lookup(root=root, attributes=(), optional=False, use=use, into=into)
        return
    root = Import(name=name, level=level, whole=True)
    while steps[at].kind == "import_from":
        use, into = _use(steps, at + 1)
        yield Lookup(root=root, attributes=(steps[at].value,), optional=False, use=use, into=into)
        at += 2
