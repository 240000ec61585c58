"""What a code object looks up is read from its bytecode as it stands in the source."""

from __future__ import annotations

import pytest

from tallgrass.nodes.code_lookups import Import, Use, lookups_of

KEPT, TESTED, HANDED_ON = Use.KEPT, Use.TESTED, Use.HANDED_ON


def chains(body: str) -> set[tuple[object, ...]]:
    """The lookups of a function of `x` with this body, but for those of builtins."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    table: dict[str, object] = {}
    exec(f"def f(x):\n{lines}\n", table)  # noqa: S102 - the test's own text
    found = lookups_of(table["f"].__code__).chains  # type: ignore[attr-defined]
    return {
        (
            (each.root.name, each.root.level, each.root.whole)
            if isinstance(each.root, Import)
            else each.root,
            ".".join(each.attributes) + ("?" if each.optional else ""),
            each.use,
            each.into,
        )
        for each in found
        if each.root not in {"getattr", "hasattr"}
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return pkg.mod.f(x)", {("pkg", "mod.f", HANDED_ON, None)}),
        ("y = pkg.LIMIT", {("pkg", "LIMIT", KEPT, "y")}),
        ("return call(pkg)", {("call", "", HANDED_ON, None), ("pkg", "", HANDED_ON, None)}),
        ("return [pkg]", {("pkg", "", HANDED_ON, None)}),
        ("x.held = pkg", {("pkg", "", HANDED_ON, None)}),
        ("pkg.held = x", {("pkg", "", TESTED, None)}),
        ("if pkg is None: return", {("pkg", "", TESTED, None)}),
        ("return pkg is not None", {("pkg", "", TESTED, None)}),
        ("while not pkg: pass", {("pkg", "", TESTED, None)}),
        ("return pkg or x", {("pkg", "", HANDED_ON, None)}),
        ("m = pkg\nm.f()", {("pkg", "", KEPT, "m"), ("m", "f", HANDED_ON, None)}),
        ("m = pkg\nreturn m", {("pkg", "", KEPT, "m"), ("m", "", HANDED_ON, None)}),
        ("m = pkg\nreturn lambda: m.f", {("pkg", "", KEPT, "m"), ("m", "f", HANDED_ON, None)}),
        ("global m\nm = pkg", {("pkg", "", HANDED_ON, None)}),
        ("a = b = pkg", {("pkg", "", HANDED_ON, None)}),
        ("return getattr(pkg.mod, 'f')(x)", {("pkg", "mod.f?", HANDED_ON, None)}),
        ("return getattr(pkg, 'mod').f", {("pkg", "mod.f", HANDED_ON, None)}),
        ("m = getattr(pkg, 'mod', None)", {("pkg", "mod?", KEPT, "m")}),
        ("return getattr(pkg, x)", {("pkg", "", HANDED_ON, None)}),
        ("return getattr(pkg, 'a' + x)", {("pkg", "", HANDED_ON, None)}),
        ("return getattr(pkg, 'A'.lower())", {("pkg", "", HANDED_ON, None)}),
        ("return getattr(pkg, 'a', x())", {("pkg", "", HANDED_ON, None)}),
        ("return hasattr(pkg, 'a')", {("pkg", "a?", HANDED_ON, None)}),
        ("import pkg", {(("pkg", 0, False), "", KEPT, "pkg")}),
        ("import pkg as m", {(("pkg", 0, False), "", KEPT, "m")}),
        ("import pkg.mod.sub", {(("pkg.mod.sub", 0, False), "", KEPT, "pkg")}),
        ("import pkg.mod.sub as m", {(("pkg.mod.sub", 0, True), "", KEPT, "m")}),
        ("import pkg.mod as m", {(("pkg.mod", 0, True), "", KEPT, "m")}),
        ("global m\nimport pkg.mod as m", {(("pkg.mod", 0, True), "", HANDED_ON, None)}),
        (
            "from pkg.mod import f, g as h",
            {(("pkg.mod", 0, True), "f", KEPT, "f"), (("pkg.mod", 0, True), "g", KEPT, "h")},
        ),
        ("from .. import mod", {(("", 2, True), "mod", KEPT, "mod")}),
        ("from .mod import f", {(("mod", 1, True), "f", KEPT, "f")}),
        (
            "class Inner:\n    import pkg\n    limit = pkg.LIMIT",
            {(("pkg", 0, False), "", KEPT, "pkg"), ("pkg", "LIMIT", KEPT, "limit")},
        ),
        ("return x.a.b(x)", set()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_lookups_are_those_of_the_source(body: str, expected: set[tuple[object, ...]]) -> None:
    """Names with the attributes looked up from there, imports, and what becomes of them."""
    found = chains(body)
    # The name of a class statement is looked up by nobody here.
    assert {each for each in found if each[0] != "__name__"} == expected


def test_names_are_told_apart_from_attributes() -> None:
    """A method that has a builtin's name is not the builtin."""

    def node(model: object) -> object:
        return model.eval(len(model.items))  # type: ignore[attr-defined]

    assert lookups_of(node.__code__).names == ("len",)
