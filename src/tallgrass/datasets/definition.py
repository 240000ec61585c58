"""A dataset as its file describes it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """What an issue makes of the operator's status."""

    SUSPECT = "suspect"
    FAILED = "failed"


class FileFormat(StrEnum):
    """The formats whose header is read."""

    NETCDF4 = "netcdf4"
    NEXRAD_LEVEL2 = "nexrad-level2"
    GRIB2 = "grib2"


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """Keys of a dataset's bucket that are no units, and why."""

    pattern: re.Pattern[str]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRule:
    """How a time is made from the groups of the key grammar."""

    #: Names of groups, joined before they are read.
    groups: tuple[str, ...]
    #: A form of ``key_times.FORMS``, such as ``goes`` or ``date-hour``.
    form: str
    #: A group whose whole hours are added (the forecast hour).
    plus_hours: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGrammar:
    """Which keys are units of the dataset, and what their parts mean."""

    #: Tells the units of the dataset from the other keys of its buckets; matched as a whole.
    pattern: re.Pattern[str]
    start: TimeRule
    end: TimeRule | None
    #: Time of the model run that the unit belongs to.
    reference: TimeRule | None
    ignore: tuple[IgnoreRule, ...]
    #: How the dataset's keys begin. Datasets that share a bucket are told apart by it alone.
    prefixes: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityRules:
    """What integrity-check asks of an object."""

    min_size_bytes: int = 1
    max_size_bytes: int | None = None
    etag_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceDefaults:
    """What holds for the dataset unless a policy says otherwise."""

    care_label: str
    sensitivity: str
    #: Rejects every unit of the dataset, with this reason, or None.
    reject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRules:
    """What an item says beside time and place."""

    collection: str
    media_type: str
    #: Where the data lie if neither key nor file tells: west, south, east, north.
    bbox: tuple[float, float, float, float] | None
    #: Group of the key whose value chooses a place in `places`.
    place_group: str | None
    places: Mapping[str, tuple[float, float, float, float]]
    #: Fixed STAC properties.
    properties: Mapping[str, object]
    #: STAC property → group of the key.
    from_key: Mapping[str, str]
    #: STAC property of `from_key` → value of its group → value of the property, where the key's own
    #: is not what STAC wants.
    vocabulary: Mapping[str, Mapping[str, object]]
    #: Suffix of the key → asset key of a sidecar that is published beside every object.
    sidecars: Mapping[str, str]
    #: Region of the buckets, where items are to tell it.
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One dataset of the catalogue."""

    id: str
    title: str
    description: str
    provider: str
    buckets: tuple[str, ...]
    topics: tuple[str, ...]
    format: FileFormat
    cadence_s: float
    priority: str
    key: KeyGrammar
    item: ItemRules
    integrity: IntegrityRules
    #: Issue code → severity; an issue that is not listed has its default.
    severities: Mapping[str, Severity] = field(default_factory=dict)
    governance: GovernanceDefaults
