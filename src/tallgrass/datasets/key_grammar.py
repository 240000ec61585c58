"""What a key says: a unit of a dataset with its times, or an object to pass over."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallgrass.datasets.definition import Dataset, KeyLayout, TimeRule
from tallgrass.datasets.key_times import span_of, time_of
from tallgrass.errors import InvalidInput

#: Why a key of a known bucket is passed over that no rule and no grammar takes.
NOT_INGESTABLE = "not_ingestable"

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatch:
    """A unit of a dataset, and what its key tells of it."""

    dataset: Dataset
    #: Groups of the grammar; one that took no part in the match is None.
    groups: Mapping[str, str | None]
    start: datetime
    #: None where the key does not tell.
    end: datetime | None
    #: Time of the model run, for model output.
    reference: datetime | None
    #: How long the data were summed, up to the start; None where they were not.
    accumulation: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredKey:
    """An object of a known bucket that is no unit, and why."""

    reason: str
    #: Whose prefix the key has, or None.
    dataset: Dataset | None


def read_key(dataset: Dataset, key: str) -> KeyMatch | IgnoredKey:
    """Read a key that begins with a prefix of the dataset; an impossible time is refused."""
    for rule in dataset.key.ignore:
        if rule.pattern.fullmatch(key):
            return IgnoredKey(reason=rule.reason, dataset=dataset)
    return match_key(dataset, key) or IgnoredKey(reason=NOT_INGESTABLE, dataset=dataset)


def match_key(dataset: Dataset, key: str) -> KeyMatch | None:
    """Read a key by the dataset's layouts, whether it is ignored or not; None if none takes it."""
    grammar = dataset.key
    match = grammar.pattern.fullmatch(key)
    if match is not None:
        return _matched(dataset, grammar, match)
    for layout in grammar.layouts:
        match = layout.pattern.fullmatch(key)
        if match is not None:
            return _matched(dataset, layout, match)
    return None


def readings(dataset: Dataset, key: str) -> Iterator[tuple[KeyLayout, KeyMatch]]:
    """Yield what each layout that takes a key makes of it; the first is the one that counts."""
    for layout in (dataset.key, *dataset.key.layouts):
        match = layout.pattern.fullmatch(key)
        if match is not None:
            yield layout, _matched(dataset, layout, match)


def _matched(dataset: Dataset, layout: KeyLayout, match: re.Match[str]) -> KeyMatch:
    groups: dict[str, str | None] = match.groupdict()
    if dataset.key.groups:
        groups = dict.fromkeys(dataset.key.groups) | groups
    start = time_of(layout.start, groups)
    span = None if layout.accumulation is None else groups[layout.accumulation]
    reference = None if layout.reference is None else time_of(layout.reference, groups)
    return KeyMatch(
        dataset=dataset,
        groups=groups,
        start=start,
        end=None if layout.end is None else _end(layout.end, groups, start),
        reference=reference,
        accumulation=None if span is None else span_of(span),
    )


def _end(rule: TimeRule, groups: Mapping[str, str | None], start: datetime) -> datetime:
    end = time_of(rule, groups)
    if end >= start:
        return end
    if rule.crosses_midnight and start - end < _DAY:
        return end + _DAY
    raise InvalidInput(
        f"by its key it ends at {end.isoformat()}, before it starts at {start.isoformat()}",
        code="invalid_time_range",
    )
