"""The examples of a dataset file: keys by which it proves its own grammar."""

from collections.abc import Mapping
from dataclasses import dataclass

from tallgrass.clock import parse_instant
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.fields import Table
from tallgrass.datasets.key_grammar import IgnoredKey, read_key
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
        units += "ignored" not in wanted
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
    times = {"start": found.start, "end": found.end, "reference": found.reference}
    return {field: None if time is None else time.isoformat() for field, time in times.items()}
