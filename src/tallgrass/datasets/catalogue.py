"""All datasets together: which one an object belongs to."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import combinations
from typing import Any

from tallgrass.canonical_json import canonical_bytes, sha256_hex
from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.fields import INVALID, nearest_or_all
from tallgrass.datasets.key_grammar import (
    IgnoredKey,
    KeyMatch,
    read_key,
    read_unclaimed_key,
)
from tallgrass.datasets.loader import load_dataset
from tallgrass.errors import ConfigError, InvalidInput

__all__ = ["Catalogue", "IgnoredKey", "KeyMatch", "default_catalogue"]

#: Fields of a dataset that change no output: addresses, and what only plans the work.
_SHAPES_NO_OUTPUT = frozenset(
    {"topics", "retired_topics", "cadence_s", "priority", "folders", "expires_after_days"}
)
#: Keys that are remembered: those of some batches.
_ROUTES_KEPT = 2048


class Catalogue:
    """The datasets that are ingested. Built once; the same whatever order they are given in."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets: tuple[Dataset, ...] = tuple(sorted(datasets, key=lambda one: one.id))
        self._by_id = {dataset.id: dataset for dataset in self.datasets}
        if len(self._by_id) != len(self.datasets):
            ids = [dataset.id for dataset in self.datasets]
            problem = f"two datasets have the id {_repeated(ids)!r}; rename one"
            raise ConfigError(problem, code=INVALID)
        self._by_bucket: dict[tuple[str, str], tuple[Dataset, ...]] = {}
        self._aliases: dict[tuple[str, str], str] = {}
        for dataset in self.datasets:
            for place in dataset.places():
                self._by_bucket[place] = (*self._by_bucket.get(place, ()), dataset)
            for former, present in dataset.aliases.items():
                self._aliases[dataset.provider, former] = present
        for place, sharers in self._by_bucket.items():
            _require_disjoint(place[1], sharers)
            # The one that takes what is left is asked last.
            self._by_bucket[place] = tuple(sorted(sharers, key=lambda one: one.key.rest))
        # A unit is routed when its message is parsed and again when it is worked on: 1 µs instead
        # of 7 the second time.
        self._routed = lru_cache(maxsize=_ROUTES_KEPT)(self._route)

    def dataset(self, dataset_id: str) -> Dataset | None:
        """Return a dataset by its id."""
        return self._by_id.get(dataset_id)

    def named(self, dataset_id: str) -> Dataset:
        """Return the dataset that somebody asks for by its id."""
        found = self.dataset(dataset_id)
        if found is None:
            hint = nearest_or_all(dataset_id, self._by_id)
            raise InvalidInput(f"there is no dataset {dataset_id!r}{hint}", code="dataset_unknown")
        return found

    def by_bucket(self, provider: str, bucket: str) -> tuple[Dataset, ...]:
        """Return the datasets that have objects in a bucket."""
        return self._by_bucket.get((provider, bucket), ())

    def bucket_now(self, provider: str, bucket: str) -> str:
        """Return the bucket that a former one's objects moved to; any other is itself."""
        return self._aliases.get((provider, bucket), bucket)

    def claimant(self, provider: str, bucket: str, key: str) -> Dataset | None:
        """Return the dataset that a key belongs to; None where no dataset has its bucket.

        It is the one with a prefix of the key, else the one that takes the rest, else the first
        dataset of the bucket by its id: an object of a known bucket is never nobody's.
        """
        sharers = self.by_bucket(provider, bucket)
        for each in sharers:
            # At most one has a prefix of the key: `__init__` made sure of it.
            if key.startswith(each.key.prefixes):
                return each
        return sharers[0] if sharers else None

    def route(self, provider: str, bucket: str, key: str) -> KeyMatch | IgnoredKey | None:
        """Return what an object is; None where no dataset has its bucket.

        A key that a grammar takes but whose time is impossible is refused. One that no grammar
        takes is a unit without a time, unless a rule passes it over.
        """
        return self._routed(provider, bucket, key)

    def _route(self, provider: str, bucket: str, key: str) -> KeyMatch | IgnoredKey | None:
        dataset = self.claimant(provider, bucket, key)
        if dataset is None:
            return None
        is_claimed = key.startswith(dataset.key.prefixes)
        return read_key(dataset, key) if is_claimed else read_unclaimed_key(dataset, key)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that can change an output, for `config_version`."""
        described = {
            dataset.id: _described(dataset, _SHAPES_NO_OUTPUT) for dataset in self.datasets
        }
        return sha256_hex(canonical_bytes(described))


def catalogue_of(base: Catalogue, own: Iterable[Dataset]) -> Catalogue:
    """Return a catalogue with further datasets; one of the same id is replaced."""
    own = list(own)
    replaced = {dataset.id for dataset in own}
    return Catalogue([*(each for each in base.datasets if each.id not in replaced), *own])


def as_json_value(dataset: Dataset) -> Any:
    """Return a dataset as a JSON value."""
    return _described(dataset)


@cache
def default_catalogue() -> Catalogue:
    """Return the datasets that come with the package."""
    folder = files("tallgrass.datasets").joinpath("files")
    return Catalogue(
        load_dataset(file.read_text(encoding="utf-8"), f"datasets/files/{file.name}")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    )


def _require_disjoint(bucket: str, sharers: Iterable[Dataset]) -> None:
    """Refuse two datasets of one bucket that could both claim a key."""
    for one, other in combinations(sharers, 2):
        if one.key.rest != other.key.rest:
            continue
        for left in one.key.prefixes:
            for right in other.key.prefixes:
                if left.startswith(right) or right.startswith(left):
                    raise ConfigError(
                        f"the datasets {one.id!r} and {other.id!r} share the bucket {bucket!r} "
                        f"and could claim the same keys: key.prefixes {left!r} and {right!r} "
                        "overlap; give each dataset prefixes that no other has",
                        code=INVALID,
                    )


def _repeated(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def _described(value: Any, leave_out: frozenset[str] = frozenset()) -> Any:
    """Return a definition as a JSON value that does not depend on any order without meaning."""
    if isinstance(value, Dataset):
        names = [field.name for field in fields(value) if field.name not in leave_out]
        described = {name: _described(getattr(value, name), leave_out) for name in names}
        mirrors = {provider: sorted(names) for provider, names in value.mirrors.items()}
        return {**described, "buckets": sorted(value.buckets), "mirrors": mirrors}
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in leave_out]
        return {name: _described(getattr(value, name), leave_out) for name in names}
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, Mapping):
        return {str(name): _described(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_described(one) for one in value]
    return sorted(value) if isinstance(value, frozenset) else value
