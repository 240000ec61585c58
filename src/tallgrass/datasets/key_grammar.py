"""What a key says: a unit of a dataset with its times, or an object to pass over."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.key_times import time_of
from tallgrass.errors import InvalidInput

#: Why a key of a known bucket is passed over that no rule and no grammar takes.
NOT_INGESTABLE = "not_ingestable"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredKey:
    """An object of a known bucket that is no unit, and why."""

    reason: str
    #: Whose prefix the key has, or None.
    dataset: Dataset | None


def read_key(dataset: Dataset, key: str) -> KeyMatch | IgnoredKey:
    """Read a key that begins with a prefix of the dataset; an impossible time is refused."""
    grammar = dataset.key
    for rule in grammar.ignore:
        if rule.pattern.fullmatch(key):
            return IgnoredKey(reason=rule.reason, dataset=dataset)
    match = grammar.pattern.fullmatch(key)
    if match is None:
        return IgnoredKey(reason=NOT_INGESTABLE, dataset=dataset)
    groups = match.groupdict()
    start = time_of(grammar.start, groups)
    end = None if grammar.end is None else time_of(grammar.end, groups)
    if end is not None and end < start:
        raise InvalidInput(
            f"by its key it ends at {end.isoformat()}, before it starts at {start.isoformat()}",
            code="invalid_time_range",
        )
    reference = None if grammar.reference is None else time_of(grammar.reference, groups)
    return KeyMatch(dataset=dataset, groups=groups, start=start, end=end, reference=reference)
