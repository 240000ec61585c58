import ast
from pathlib import Path

from tools.conformance_list import ROOT, load_conformance_list


def marked_ids(path: Path) -> list[str]:
    """Return all ids that the file's conformance markers name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        str(argument.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "conformance"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    ]


def test_each_marked_id_is_listed() -> None:
    """No test claims a requirement that is not in the list, collected or not."""
    known = load_conformance_list().requirements
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert [name for name in marked_ids(path) if name not in known] == [], path.name
