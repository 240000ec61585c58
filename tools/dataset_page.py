"""The parts of docs/reference/datasets.md, from the dataset files that come with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.datasets.catalogue import default_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallgrass.datasets.definition import Dataset

_HOUR_S = 3600
_MINUTE_S = 60


def read_keys() -> str:
    """Return the datasets whose keys are read: times, items and names come from a grammar."""
    return _table(each for each in default_catalogue().datasets if not each.key.generic)


def generic_keys() -> str:
    """Return the datasets of whose keys nothing is known: every object is a unit."""
    return _table(each for each in default_catalogue().datasets if each.key.generic)


def _table(datasets: Iterable[Dataset]) -> str:
    head = ("dataset", "what it is", "buckets", "topics", "header", "comes", "label")
    rows = [
        (
            f"`{each.id}`",
            each.title,
            "<br>".join(f"`{name}`" for name in _buckets(each)),
            "<br>".join(f"`{topic.rpartition(':')[2]}`" for topic in each.topics),
            f"`{each.format}`" if each.format else "",
            _cadence(each.cadence_s),
            each.governance.care_label,
        )
        for each in datasets
    ]
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _buckets(dataset: Dataset) -> list[str]:
    mirrors = [
        f"{provider}:{name}" for provider, names in dataset.mirrors.items() for name in names
    ]
    return [*dataset.buckets, *mirrors]


def _cadence(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, name in ((24 * _HOUR_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"every {seconds / unit:g} {name}"
    return f"every {seconds:g} s"
