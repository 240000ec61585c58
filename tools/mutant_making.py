"""Mutants of a module: small changes of its meaning, each of which some test should notice.

    for mutant in mutants_of(source):
        mutant.line, mutant.what, mutant.tree()     # the whole module with this one change

Changed are comparisons, `and`, `or` and `not`, arithmetic, numbers, booleans and words, what is
returned, which branch is taken, and whether a statement is there at all. Not changed are texts for
people, annotations, what a decorator or a default says, and whether `zip` is strict.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = Callable[[Any], ast.AST]

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_RECKONED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_WORD = re.compile(r"[a-z][a-z0-9_.-]*")
#: Statements that may be left out; a name that is no longer bound would be no question.
_REMOVABLE = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of a module."""

    line: int
    #: The text that changes, and into what.
    what: str
    #: The outermost function that it is in, by its first line; None where it is in none, or in one
    #: that runs while the module is imported: then it is too late to change it afterwards.
    function: int | None
    module: ast.Module
    #: The way to the changed node: field and place in it, from the module down.
    path: tuple[tuple[str, int | None], ...]
    change: Change

    def tree(self) -> ast.Module:
        """Return the module with this one change."""
        changed = copy.deepcopy(self.module)
        *way, (field, place) = self.path
        parent: ast.AST = changed
        for step, index in way:
            parent = _child(parent, step, index)
        node = self.change(_child(parent, field, place))
        if place is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[place] = node
        return ast.fix_missing_locations(changed)


def mutants_of(source: str) -> list[Mutant]:
    """Return every mutant, in the order of the text."""
    module = ast.parse(source)
    imported = {_first_line(each) for each in module.body if _runs_at_import(each, module)}
    found = [
        Mutant(
            line=_line(node),
            what=f"{_text(node)} → {what}",
            function=None if function in imported else function,
            module=module,
            path=path,
            change=change,
        )
        for node, path, function in _walk(module)
        for what, change in _changes(node, in_function=function is not None)
    ]
    return sorted(found, key=lambda mutant: mutant.line)


# --- where ----------------------------------------------------------------------------------------


def _walk(
    node: ast.AST,
    path: tuple[tuple[str, int | None], ...] = (),
    function: int | None = None,
) -> Iterator[tuple[ast.AST, tuple[tuple[str, int | None], ...], int | None]]:
    """Yield what may be changed, with the way to it."""
    for field, value in ast.iter_fields(node):
        if _is_left_alone(node, field):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_text(child) or _is_for_types(child):
                continue
            step = (*path, (field, place if isinstance(value, list) else None))
            inside = function
            if inside is None and isinstance(node, _FUNCTIONS):
                inside = _first_line(node)
            yield child, step, inside
            yield from _walk(child, step, inside)


def _runs_at_import(node: ast.AST, module: ast.Module) -> bool:
    """Whether it is a function that the module itself calls, outside of all functions."""
    return isinstance(node, _FUNCTIONS) and any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == node.name
        for call in _outside_of_functions(module)
    )


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _outside_of_functions(child)


def _line(node: Any) -> int:
    """Return the line that is reached when the node is; a filter has none of its own."""
    return int(node.ifs[0].lineno if isinstance(node, ast.comprehension) else node.lineno)


def _first_line(node: ast.AST) -> int:
    """Return the line at which the code of a function begins, as Python counts."""
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(each.lineno for each in decorators)]))  # type: ignore[attr-defined]


def _is_left_alone(node: ast.AST, field: str) -> bool:
    """Whether a part of a node says what is there rather than what happens."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"  # of zip: it only guards against what cannot be
    if isinstance(node, ast.Call):
        return field == "func" and isinstance(node.func, ast.Name)
    return (
        field in {"annotation", "returns", "decorator_list", "args", "type_params", "bases"}
        or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign) and _names_all(node))
    )


def _names_all(node: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets)


def _is_text(node: ast.AST) -> bool:
    """Whether it is a docstring, or another statement that only stands there."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.AST) -> bool:
    """Whether only a checker of types reads it."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases
    )


def _child(node: ast.AST, field: str, place: int | None) -> ast.AST:
    value = getattr(node, field)
    child: ast.AST = value if place is None else value[place]
    return child


# --- what -----------------------------------------------------------------------------------------


def _changes(node: ast.AST, *, in_function: bool) -> Iterator[tuple[str, Change]]:
    for kind, changes in _CHANGES:
        if isinstance(node, kind):
            yield from changes(node)
    if in_function and isinstance(node, ast.stmt):
        yield from _statement(node)


def _compared(node: Any) -> Iterator[tuple[str, Change]]:
    for number, operator in enumerate(node.ops):
        other = _COMPARED[type(operator)]

        def change(found: Any, number: int = number, other: type = other) -> ast.AST:
            return _with(found, ops=[*found.ops[:number], other(), *found.ops[number + 1 :]])

        yield other.__name__, change


def _joined(node: Any) -> Iterator[tuple[str, Change]]:
    other = ast.Or if isinstance(node.op, ast.And) else ast.And
    yield other.__name__, lambda found: _with(found, op=other())
    for number, value in enumerate(node.values):

        def change(found: Any, number: int = number) -> ast.AST:
            left = _without(found.values, number)
            return _with(found, values=left) if len(left) > 1 else left[0]

        yield f"without {_text(value)}", change


def _negated(node: Any) -> Iterator[tuple[str, Change]]:
    if isinstance(node.op, ast.Not):
        yield "without not", lambda found: found.operand


def _reckoned(node: Any) -> Iterator[tuple[str, Change]]:
    other = _RECKONED.get(type(node.op))
    if other is not None and not _is_string(node):
        yield other.__name__, lambda found: _with(found, op=other())


def _filtered(node: Any) -> Iterator[tuple[str, Change]]:
    for number in range(len(node.ifs)):

        def change(found: Any, number: int = number) -> ast.AST:
            return _with(found, ifs=_without(found.ifs, number))

        yield "any", change


def _branched(_node: Any) -> Iterator[tuple[str, Change]]:
    for value in (True, False):

        def change(found: Any, value: bool = value) -> ast.AST:  # noqa: FBT001 - bound here
            return _with(found, test=ast.Constant(value))

        yield f"if {value}", change


def _constant(node: Any) -> Iterator[tuple[str, Change]]:
    value = node.value
    if isinstance(value, bool):
        yield str(not value), lambda _found: ast.Constant(not value)
    elif isinstance(value, int | float):
        yield str(value + 1), lambda _found: ast.Constant(value + 1)
    elif isinstance(value, str) and _WORD.fullmatch(value):
        yield repr(f"not {value}"), lambda _found: ast.Constant(f"not {value}")


def _statement(node: ast.stmt) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Return) and not _is_nothing(node.value):
        yield "return None", lambda found: _with(found, value=ast.Constant(None))
    elif isinstance(node, _REMOVABLE) or (isinstance(node, ast.Assign) and _is_kept(node)):
        yield "pass", lambda found: ast.copy_location(ast.Pass(), found)


def _is_kept(node: ast.Assign) -> bool:
    return all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets)


def _is_nothing(node: ast.expr | None) -> bool:
    """Whether None would say the same: nobody asks whether a False is one."""
    return node is None or (
        isinstance(node, ast.Constant) and (node.value is None or node.value is False)
    )


def _is_string(node: Any) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


_CHANGES: tuple[tuple[Any, Callable[[Any], Iterator[tuple[str, Change]]]], ...] = (
    (ast.Compare, _compared),
    (ast.BoolOp, _joined),
    (ast.UnaryOp, _negated),
    (ast.BinOp | ast.AugAssign, _reckoned),
    (ast.Constant, _constant),
    (ast.comprehension, _filtered),
    (ast.If | ast.IfExp, _branched),
)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _without(values: list[ast.expr], number: int) -> list[ast.expr]:
    return values[:number] + values[number + 1 :]


def _text(node: ast.AST) -> str:
    """Return the node's own text in one short line."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"[:80]
    if isinstance(node, ast.comprehension):
        return " if ".join(map(ast.unparse, node.ifs))[:80]
    return " ".join(ast.unparse(node).split())[:80]
