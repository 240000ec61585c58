"""The examples of a dataset file: keys by which it proves its own grammar."""

from collections.abc import Mapping
from dataclasses import dataclass

from tallgrass.clock import parse_instant
from tallgrass.datasets.definition import Dataset, KeyLayout
from tallgrass.datasets.fields import Table
from tallgrass.datasets.key_grammar import IgnoredKey, KeyMatch, read_key, readings
from tallgrass.datasets.key_times import FORMS
from tallgrass.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A key, and what the grammar makes of it: its times, or why it is ignored."""

    key: str
    found: Mapping[str, str | None]


def read_examples(dataset: Dataset, table: Table) -> tuple[Example, ...]:
    """Read the file's examples by its own grammar; one that comes out otherwise is refused."""
    read: list[Example] = []
    units = 0
    for example in table.tables("examples"):
        key, wanted = example.text("key"), _wanted(example)
        example.close()
        found = _reading(dataset, example, key)
        if found != wanted:
            raise example.refusal("key", f"{key!r} gives {found}, and the example says {wanted}")
        if "ignored" not in wanted:
            units += _has_one_reading(dataset, example, key)
        read.append(Example(key=key, found=found))
    if not units and not dataset.key.generic:
        raise table.refusal("examples", "needs at least one key of a unit, with its start")
    return tuple(read)


def _wanted(example: Table) -> dict[str, str | None]:
    if example.has("ignored"):
        return {"ignored": example.text("ignored")}
    wanted: dict[str, str | None] = {}
    for field in ("start", "end", "reference"):
        text = example.optional_text(field)
        try:
            wanted[field] = None if text is None else parse_instant(text).isoformat()
        except InvalidInput as exc:
            raise example.refusal(field, str(exc)) from exc
    return wanted


def _reading(dataset: Dataset, example: Table, key: str) -> dict[str, str | None]:
    if not key.startswith(dataset.key.prefixes):
        raise example.refusal("key", f"{key!r} begins with none of key.prefixes")
    try:
        found = read_key(dataset, key)
    except InvalidInput as exc:
        raise example.refusal("key", f"{key!r}: {exc}") from exc
    if isinstance(found, IgnoredKey):
        return {"ignored": found.reason}
    return _times(found)


def _times(found: KeyMatch) -> dict[str, str | None]:
    times = {"start": found.start, "end": found.end, "reference": found.reference}
    return {field: None if time is None else time.isoformat() for field, time in times.items()}


def _has_one_reading(dataset: Dataset, example: Table, key: str) -> bool:
    """Tell whether a layout reads the key at all; refuse one that another layout reads otherwise.

    A layout for what is left may: it tells less, no end or no run, or else a coarser start.
    """
    try:
        all_readings = list(readings(dataset, key))
    except InvalidInput:
        return True  # what counts was read before; another layout's time does not exist
    if not all_readings:
        return False
    (first, found), *others = all_readings
    for layout, other in others:
        if _times(other) != _times(found) and _told(layout) >= _told(first):
            raise example.refusal(
                "key",
                f"{key!r} is taken by two layouts, which give {_times(found)} and {_times(other)}; "
                "make one of their patterns narrower",
            )
    return True


def _told(layout: KeyLayout) -> tuple[int, int]:
    """Return how much a layout tells: what it has beside its start, and the digits of that."""
    more = (layout.end is not None) + (layout.reference is not None)
    return more, len(FORMS[layout.start.form].layout)
