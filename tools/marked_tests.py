"""Which tests carry which requirement, read from their source: no test is imported or run."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from tools.conformance_list import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

TESTS = ROOT / "tests"


@functools.cache
def ids_to_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return, for each id, the tests that carry it, as `folder/file.py::test`, in their order."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        place = path.relative_to(folder).as_posix()
        for test, ids in marked_tests(path.read_text(encoding="utf-8")):
            for requirement_id in ids:
                found.setdefault(requirement_id, []).append(f"{place}::{test}")
    return found


def marked_tests(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each test of a module that carries ids, and its ids: its own and its class's."""
    module = ast.parse(source)
    named = dict(_named_marks(module.body))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            above = _ids(node.decorator_list, named)
            for inner in node.body:
                yield from _test(inner, named, above=above, of=f"{node.name}::")
        else:
            yield from _test(node, named)


def _test(
    node: ast.stmt,
    named: Mapping[str, tuple[str, ...]],
    *,
    above: tuple[str, ...] = (),
    of: str = "",
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    ids = tuple(dict.fromkeys([*_ids(node.decorator_list, named), *above]))
    if ids and node.name.startswith("test_"):
        yield f"{of}{node.name}", ids


def _named_marks(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield names of the module that stand for marks, or for parameters with marks."""
    for node in statements:
        if isinstance(node, ast.Assign):
            ids = _ids([node.value], {})
            for target in node.targets:
                if ids and isinstance(target, ast.Name):
                    yield target.id, ids


def _ids(expressions: Iterable[ast.expr], named: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ids that expressions name, themselves or by a name of the module."""
    found: list[str] = []
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Name):
                found += named.get(node.id, ())
            elif isinstance(node, ast.Call) and _is_mark(node.func):
                found += [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
    return tuple(dict.fromkeys(found))


def _is_mark(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "conformance"
