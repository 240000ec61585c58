"""The table ``[folders]`` of a dataset file: how keys begin by the time of the data.

    begins        such as "hrrr.{YYYY}{MM}{DD}/": {YYYY}, {MM} and {DD} or {DDD}, {HH}, and {*}/
                  for any folder, which listing the bucket finds
    ahead_hours   data start up to so long after the hour or day that their key begins with
    behind_hours  or so long before it

Keys that begin otherwise are not found by a time; a prefix finds them.
"""

import re

from tallgrass.datasets.definition import FolderRules
from tallgrass.datasets.fields import Table

#: What stands for a part of the time, or for any folder.
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
ANY_FOLDER = "{*}/"

#: No forecast reaches further; each day of it is a prefix to list.
HOURS_MAX = 2 * 366 * 24

_TIMES = ("YYYY", "MM", "DD", "DDD", "HH")
#: A time is told down to something: each list of parts that tells one.
_TOLD = (
    {"YYYY"},
    {"YYYY", "MM"},
    {"YYYY", "MM", "DD"},
    {"YYYY", "DDD"},
    {"YYYY", "MM", "DD", "HH"},
    {"YYYY", "DDD", "HH"},
)


def load_folders(table: Table | None, prefixes: tuple[str, ...]) -> FolderRules | None:
    """Read the table; what no key of the dataset could begin with is refused."""
    if table is None:
        return None
    begins = table.texts("begins")
    if not begins:
        raise table.refusal("begins", "must name at least one beginning of keys")
    for begin in begins:
        _require_usable(table, begin, prefixes)
    rules = FolderRules(
        begins=begins,
        ahead_hours=_hours(table, "ahead_hours"),
        behind_hours=_hours(table, "behind_hours"),
    )
    table.close()
    return rules


def _hours(table: Table, field: str) -> int:
    hours = table.whole(field, 0)
    if hours > HOURS_MAX:
        raise table.refusal(field, f"{hours} hours are more than {HOURS_MAX}, two years")
    return hours


def _require_usable(table: Table, begin: str, prefixes: tuple[str, ...]) -> None:
    names = PLACEHOLDER.findall(begin)
    for name in names:
        if name not in (*_TIMES, "*"):
            allowed = ", ".join(f"{{{each}}}" for each in (*_TIMES, "*"))
            raise table.refusal("begins", f"{{{name}}} in {begin!r} means nothing; use {allowed}")
    if set(names) - {"*"} not in _TOLD or len(names) - names.count("*") != len(set(names) - {"*"}):
        raise table.refusal("begins", f"{begin!r} tells no year, month, day or hour, each once")
    if begin.count("{*}") != begin.count(ANY_FOLDER) or names[-1] == "*":
        raise table.refusal("begins", f"{{*}} in {begin!r} must be a folder before a time")
    fixed = begin.partition("{")[0]
    if not any(fixed.startswith(each) or each.startswith(fixed) for each in prefixes):
        raise table.refusal("begins", f"{begin!r} begins with none of key.prefixes")
