"""The [key] table of a dataset file: which keys are units, and how their times are read."""

import re
from collections.abc import Collection, Iterable

from tallgrass.datasets.definition import IgnoreRule, KeyGrammar, KeyLayout, TimeRule
from tallgrass.datasets.fields import Table, nearest_or_all
from tallgrass.datasets.key_grammar import NEVER_DATA, SIDECAR
from tallgrass.datasets.key_times import FORMS, SPANS

_REASON_FORM = re.compile(r"[a-z][a-z0-9_]*")
_ANY_KEY = re.compile(".*", re.DOTALL)
_NO_TIME = TimeRule(groups=(), form="unknown")


def load_grammar(
    table: Table | None, sidecars: Iterable[str]
) -> tuple[KeyGrammar, Collection[str]]:
    """Return the grammar, and the groups of all its layouts; without a pattern any key is a unit.

    A sidecar has notifications of its own, so its suffix is passed over without a rule.
    """
    by_suffix = [
        IgnoreRule(pattern=re.compile(f".*{re.escape(suffix)}", re.DOTALL), reason=SIDECAR)
        for suffix in sidecars
    ]
    if table is None:
        return _generic((*by_suffix, *NEVER_DATA)), ()
    rules = tuple(_ignore_rule(rule) for rule in table.tables("ignore"))
    rest = table.flag("rest", default=False)
    if rest and table.has("prefixes"):
        raise table.refusal("prefixes", "a dataset that takes the rest has no prefixes")
    prefixes = table.texts("prefixes", [""])
    if not prefixes:
        raise table.refusal("prefixes", 'must hold at least one prefix; "" takes every key')
    if not any(table.has(name) for name in ("pattern", "layouts", "start")):
        grammar = _generic((*rules, *by_suffix, *NEVER_DATA), prefixes=prefixes, rest=rest)
        table.close()
        return grammar, ()
    first = _layout(table)
    further = tuple(_layout(each, closed=True) for each in table.tables("layouts"))
    names = list(dict.fromkeys(n for one in (first, *further) for n in one.pattern.groupindex))
    table.close()
    return KeyGrammar(
        pattern=first.pattern,
        start=first.start,
        end=first.end,
        reference=first.reference,
        accumulation=first.accumulation,
        known=first.known,
        ignore=(*rules, *by_suffix),
        prefixes=prefixes,
        rest=rest,
        layouts=further,
        groups=tuple(names) if further else (),
    ), names


def require_group(table: Table, field: str, name: str, groups: Collection[str]) -> None:
    """Refuse a name that is no group of the keys."""
    if name not in groups:
        hint = nearest_or_all(name, groups)
        raise table.refusal(field, f"key.pattern has no group {name!r}{hint}")


def _generic(
    ignore: tuple[IgnoreRule, ...], *, prefixes: tuple[str, ...] = ("",), rest: bool = False
) -> KeyGrammar:
    return KeyGrammar(
        pattern=_ANY_KEY,
        start=_NO_TIME,
        end=None,
        reference=None,
        ignore=ignore,
        prefixes=prefixes,
        rest=rest,
        generic=True,
    )


def _layout(table: Table, *, closed: bool = False) -> KeyLayout:
    pattern = table.pattern("pattern")
    groups = pattern.groupindex
    accumulation = table.optional_text("accumulation")
    if accumulation is not None:
        require_group(table, "accumulation", accumulation, groups)
    layout = KeyLayout(
        pattern=pattern,
        start=_time_rule(table.table("start"), groups),
        end=_optional_rule(table.optional_table("end"), groups),
        reference=_optional_rule(table.optional_table("reference"), groups),
        accumulation=accumulation,
        known=not table.flag("generic", default=False),
    )
    if closed:
        table.close()
    return layout


def _optional_rule(table: Table | None, groups: Collection[str]) -> TimeRule | None:
    return None if table is None else _time_rule(table, groups)


def _time_rule(table: Table, groups: Collection[str]) -> TimeRule:
    form = table.text("form")
    if form not in FORMS:
        raise table.refusal("form", f"unknown time form {form!r}{nearest_or_all(form, FORMS)}")
    names = table.texts("groups", [])
    for name in names:
        require_group(table, "groups", name, groups)
    if bool(names) != bool(FORMS[form].layout):
        problem = "must name the groups that hold the time" if not names else "takes no groups"
        raise table.refusal("groups", f"the form {form!r} {problem}")
    rule = TimeRule(
        groups=names,
        form=form,
        plus_hours=_group(table, "plus_hours", groups),
        plus_minutes=_group(table, "plus_minutes", groups),
        minus_hours=_group(table, "minus_hours", groups),
        minus_minutes=_group(table, "minus_minutes", groups),
        offset_minutes=table.integer("offset_minutes", 0),
        until=table.choice("until", SPANS) if table.has("until") else None,
        crosses_midnight=table.flag("crosses_midnight", default=False),
    )
    table.close()
    return rule


def _group(table: Table, field: str, groups: Collection[str]) -> str | None:
    name = table.optional_text(field)
    if name is not None:
        require_group(table, field, name, groups)
    return name


def _ignore_rule(table: Table) -> IgnoreRule:
    reason = table.formed("reason", _REASON_FORM, "small letters, digits and underscores")
    rule = IgnoreRule(pattern=table.pattern("pattern"), reason=reason)
    table.close()
    return rule
