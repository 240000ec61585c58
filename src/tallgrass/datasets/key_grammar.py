"""What a key says: a unit of a dataset with its times, or an object to pass over."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tallgrass.datasets.definition import Dataset, IgnoreRule, KeyLayout, TimeRule
from tallgrass.datasets.key_times import UNKNOWN_START, span_of, time_of
from tallgrass.datasets.unknown_layout import of_unknown_layout
from tallgrass.errors import InvalidInput
from tallgrass.made_often import made_often

#: Why a key is passed over that is data in no bucket.
NOT_INGESTABLE = "not_ingestable"
#: Why a sidecar's own notification is passed over.
SIDECAR = "sidecar"
#: Keys that are no data in any bucket: checksums and indexes beside objects, uploads that are under
#: way, pages for people, marks of folders.
NEVER_DATA = (
    IgnoreRule(
        pattern=re.compile(r".*\.(?:idx|md5|sha1|sha256|sha512)", re.DOTALL), reason=SIDECAR
    ),
    IgnoreRule(
        pattern=re.compile(
            r"(?:.*/)?(?:index\.html?|read_?me[^/]*|\.[^/]+|[^/]+\.(?:tmp|part)|[^/]+_\$folder\$)?"
            r"|docs/test\.txt",
            re.DOTALL | re.IGNORECASE,
        ),
        reason=NOT_INGESTABLE,
    ),
)

_DAY = timedelta(days=1)


@made_often
class KeyMatch:
    """A unit of a dataset, and what its key tells of it."""

    #: As its file describes it; of a key that no layout reads, what holds of such objects.
    dataset: Dataset
    #: Groups of the grammar; one that took no part in the match is None. None at all are there
    #: where no layout reads the key.
    groups: Mapping[str, str | None]
    start: datetime
    #: None where the key does not tell.
    end: datetime | None
    #: Time of the model run, for model output.
    reference: datetime | None
    #: How long the data were summed, up to the start; None where they were not.
    accumulation: timedelta | None = None
    #: Whether the dataset's file says what such objects are.
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredKey:
    """An object of a known bucket that is no unit, and why."""

    reason: str
    #: That the key would belong to.
    dataset: Dataset


def read_key(dataset: Dataset, key: str) -> KeyMatch | IgnoredKey:
    """Read a key that begins with a prefix of the dataset; an impossible time is refused."""
    passed = _by_rule(dataset.key.ignore, dataset, key)
    if passed is not None:
        return passed
    found = match_key(dataset, key)
    if found is not None and found.is_known:
        return found
    return _by_rule(NEVER_DATA, dataset, key) or found or _without_a_time(dataset)


def read_unclaimed_key(dataset: Dataset, key: str) -> KeyMatch | IgnoredKey:
    """Read a key of the dataset's bucket that begins with no prefix of any dataset."""
    passed = _by_rule((*dataset.key.ignore, *NEVER_DATA), dataset, key)
    return passed or _without_a_time(dataset)


def _by_rule(rules: Iterable[IgnoreRule], dataset: Dataset, key: str) -> IgnoredKey | None:
    for rule in rules:
        if rule.pattern.fullmatch(key):
            return IgnoredKey(reason=rule.reason, dataset=dataset)
    return None


def _without_a_time(dataset: Dataset) -> KeyMatch:
    return KeyMatch(
        dataset=of_unknown_layout(dataset),
        groups={},
        start=UNKNOWN_START,
        end=None,
        reference=None,
        is_known=dataset.key.generic,
    )


def match_key(dataset: Dataset, key: str) -> KeyMatch | None:
    """Read a key by the dataset's layouts, whether it is ignored or not; None if none takes it."""
    grammar = dataset.key
    match = grammar.pattern.fullmatch(key)
    found = None if match is None else _matched(dataset, grammar, match)
    for layout in () if found is not None else grammar.layouts:
        match = layout.pattern.fullmatch(key)
        found = None if match is None else _matched(dataset, layout, match)
        if found is not None:
            break
    return found


def readings(dataset: Dataset, key: str) -> Iterator[tuple[KeyLayout, KeyMatch]]:
    """Yield what each layout that takes a key makes of it; the first is the one that counts."""
    for layout in (dataset.key, *dataset.key.layouts):
        match = layout.pattern.fullmatch(key)
        found = None if match is None else _matched(dataset, layout, match)
        if found is not None:
            yield layout, found


def _matched(dataset: Dataset, layout: KeyLayout, match: re.Match[str]) -> KeyMatch | None:
    groups: dict[str, str | None] = match.groupdict()
    if not layout.known:
        return _timed(dataset, layout, groups)
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


def _timed(
    dataset: Dataset, layout: KeyLayout, groups: Mapping[str, str | None]
) -> KeyMatch | None:
    """Return a unit of which only the time is known; what only looks like a time tells none."""
    try:
        start = time_of(layout.start, groups)
        end = None if layout.end is None else _end(layout.end, groups, start)
    except InvalidInput:
        return None
    return KeyMatch(
        dataset=of_unknown_layout(dataset),
        groups={},
        start=start,
        end=end,
        reference=None,
        is_known=False,
    )


def _end(rule: TimeRule, groups: Mapping[str, str | None], start: datetime) -> datetime:
    end = time_of(rule, groups)
    if end >= start:
        return end
    if rule.crosses_midnight and start - end < _DAY and end.date() < date.max:
        return end + _DAY
    raise InvalidInput(
        f"by its key it ends at {end.isoformat()}, before it starts at {start.isoformat()}",
        code="invalid_time_range",
    )
