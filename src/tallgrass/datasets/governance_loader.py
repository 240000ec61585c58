"""Governance of a dataset: [governance] of its file, and what a configuration replaces."""

from collections.abc import Callable
from typing import Any

from tallgrass.datasets.fields import Table, nearest_or_all
from tallgrass.governance.policy import (
    CARE_LABELS,
    MASKING_DEGREES,
    GovernanceDefaults,
    Overlay,
    Overwrite,
    ReplayMode,
)

_Read = Callable[[Table, str], Any]

#: More than anybody could ask; a mistyped number would lock a dataset for ever.
APPROVALS_MAX = 10
DAYS_MAX = 36_500

NEEDS_REFERENCE = "is missing; restricted data need what allows them to be told of"


def load_governance(table: Table) -> GovernanceDefaults:
    """Return the rules of a dataset's file; label and sensitivity must be there."""
    rules = GovernanceDefaults(
        care_label=_label(table, "care_label"),
        sensitivity=table.text("sensitivity"),
        **{name: read(table, name) for name, read in _OPTIONAL.items() if table.has(name)},
    )
    _close(table)
    if rules.lacks_reference:
        raise table.refusal("governance_ref", NEEDS_REFERENCE)
    return rules


def load_overlay(table: Table) -> Overlay:
    """Return the rules that a table gives, which may be any of them."""
    readers: dict[str, _Read] = {"care_label": _label, "sensitivity": Table.text, **_OPTIONAL}
    overlay = {name: read(table, name) for name, read in readers.items() if table.has(name)}
    _close(table)
    return overlay


def _label(table: Table, name: str) -> str:
    return table.choice(name, CARE_LABELS)


def _sovereignty(table: Table, name: str) -> dict[str, str]:
    texts = table.table(name)
    return {each: texts.text(each) for each in texts.names()}


def _modes(table: Table, name: str) -> tuple[ReplayMode, ...]:
    wanted = table.texts(name)
    for text in wanted:
        if text not in set(ReplayMode):
            raise table.refusal(name, f"unknown mode {text!r}{nearest_or_all(text, ReplayMode)}")
    return tuple(mode for mode in ReplayMode if mode in wanted)


def _approvals(table: Table, name: str) -> int:
    number = table.whole(name)
    if number > APPROVALS_MAX:
        raise table.refusal(name, f"must be at most {APPROVALS_MAX}, not {number}")
    return number


def _degrees(table: Table, name: str) -> float:
    value = table.value(name)
    if isinstance(value, bool) or value not in MASKING_DEGREES:
        allowed = ", ".join(f"{each:g}" for each in MASKING_DEGREES)
        raise table.refusal(name, f"must be one of {allowed} (0: not masked), not {value!r}")
    return float(value)


def _days(table: Table, name: str) -> int:
    number = table.whole(name)
    if not 1 <= number <= DAYS_MAX:
        raise table.refusal(name, f"must be between 1 and {DAYS_MAX}, not {number}")
    return number


def _overwrite(table: Table, name: str) -> Overwrite:
    return table.word(name, Overwrite)


_OPTIONAL: dict[str, _Read] = {
    "reject": Table.text,
    "governance_ref": Table.text,
    "sovereignty": _sovereignty,
    "replay_modes": _modes,
    "approvals_needed": _approvals,
    "masking_degrees": _degrees,
    "overwrite": _overwrite,
    "policy_ref": Table.text,
    "expires_after_days": _days,
}


def _close(table: Table) -> None:
    """Refuse unknown fields; those that are known but absent are offered as what was meant."""
    table.may_have(("care_label", "sensitivity", *_OPTIONAL))
    table.close()
