"""A dataset as its file describes it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tallgrass.governance.policy import GovernanceDefaults


class Severity(StrEnum):
    """What an issue makes of the operator's status."""

    SUSPECT = "suspect"
    FAILED = "failed"


class FileFormat(StrEnum):
    """The formats whose header is read, each also through gzip or bzip2."""

    #: HDF5 by its superblock: key or dataset tell times and places.
    NETCDF4 = "netcdf4"
    #: The same with the attributes that tell a place, where key or dataset tell the times.
    NETCDF4_PLACE = "netcdf4-place"
    #: HDF5 with the attributes that tell times and places.
    HDF5 = "hdf5"
    NEXRAD_LEVEL2 = "nexrad-level2"
    #: With first and last time, pattern and place of the radials: every record is decompressed.
    NEXRAD_LEVEL2_RADIALS = "nexrad-level2-radials"
    NEXRAD_CHUNK = "nexrad-chunk"
    NEXRAD_LEVEL3 = "nexrad-level3"
    GRIB2 = "grib2"
    #: With times and place from messages and grid, where the key does not tell them.
    GRIB2_GRID = "grib2-grid"
    TIFF = "tiff"
    FITS = "fits"
    #: Of several formats, told by the end of the key, else by the first bytes.
    BY_NAME = "by-name"
    #: The same, where key and dataset tell times and places: no attributes are read.
    BY_NAME_HEADER = "by-name-header"


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
    plus_minutes: str | None = None
    #: A group whose whole hours lie before the time (``tm02`` of an analysis).
    minus_hours: str | None = None
    minus_minutes: str | None = None
    #: Always added; may be negative.
    offset_minutes: int = 0
    #: ``day``, ``month`` or ``year``: the last second of the one that the time lies in.
    until: str | None = None
    #: For an end of which the key holds no date: before the start, it is on the next day.
    crosses_midnight: bool = False
    #: Whether it is the time of its groups, unchanged. Asked once here, not for every key.
    plain: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Settle whether anything is to be added."""
        moved = (self.plus_hours, self.plus_minutes, self.minus_hours, self.minus_minutes)
        plain = not any((*moved, self.offset_minutes, self.until))
        object.__setattr__(self, "plain", plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLayout:
    """One way in which keys of the dataset are written, and what their parts mean."""

    #: Matched as a whole.
    pattern: re.Pattern[str]
    start: TimeRule
    end: TimeRule | None
    #: Time of the model run that the unit belongs to.
    reference: TimeRule | None
    #: Group that holds a span such as ``01H``: the data were summed over it, up to the start.
    accumulation: str | None = None
    #: False where nothing is known of such objects but what their key tells of their time.
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGrammar(KeyLayout):
    """Which keys are units of the dataset: those of its own layout, or of one of `layouts`."""

    ignore: tuple[IgnoreRule, ...]
    #: How the dataset's keys begin. Datasets that share a bucket are told apart by it alone.
    prefixes: tuple[str, ...] = ("",)
    #: Takes the keys of its buckets that begin with no prefix of another dataset.
    rest: bool = False
    #: Further layouts, tried in order.
    layouts: tuple[KeyLayout, ...] = ()
    #: Groups of all layouts, where there are several; those of another layout are None.
    groups: tuple[str, ...] = ()
    #: Nothing is known of the keys: every object is a unit without a time of its own.
    generic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRules:
    """How keys begin by the time of the data, so that a bucket is listed for that time alone."""

    #: Such as ``GLM-L2-LCFA/{YYYY}/{DDD}/{HH}/``; ``{*}/`` stands for any folder.
    begins: tuple[str, ...]
    #: Data may start so long after the hour or day that their key begins with: forecasts do.
    ahead_hours: int = 0
    #: Or so long before it.
    behind_hours: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityRules:
    """What integrity-check asks of an object."""

    min_size_bytes: int = 1
    max_size_bytes: int | None = None
    etag_required: bool = False


#: A spectral band: its name, and fields of STAC such as `eo:center_wavelength`.
Band = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRules:
    """Which bands an object holds."""

    #: Groups of the key; the first whose value is in `of` counts.
    groups: tuple[str, ...]
    #: Value of a group → bands.
    of: Mapping[str, tuple[Band, ...]]


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
    #: Properties of `from_key` that are whole numbers, however many zeros stand before them.
    numbers: frozenset[str] = frozenset()
    #: Properties of `from_key` that are told only in words of `vocabulary`.
    known_only: frozenset[str] = frozenset()
    #: Suffix of the key → asset key of a sidecar that is published beside every object.
    sidecars: Mapping[str, str]
    #: Keys, matched as a whole, beside which sidecars are published; None for all.
    sidecar_keys: re.Pattern[str] | None = None
    #: Region of the provider's own buckets, where items are to tell it.
    region: str | None = None
    #: SPDX id or `other`, where it is not that of NOAA's open data, and where it can be read.
    license: str | None = None
    license_url: str | None = None
    #: Whether an item may have no place: its geometry is null then.
    placeless: bool = False
    #: Suffix of the key → media type, where it is not `media_type`.
    media_types: Mapping[str, str] = field(default_factory=dict)
    bands: BandRules | None = None
    #: Value of `place_group` → longitude, latitude and range in km of what looks all round it.
    circles: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    #: The range where the file alone tells longitude and latitude.
    range_km: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One dataset of the catalogue."""

    id: str
    title: str
    description: str
    provider: str
    buckets: tuple[str, ...]
    #: Former bucket → the one of `buckets` that its objects moved to, under the same keys.
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Other provider → its buckets with the same keys.
    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: tuple[str, ...]
    #: Topics that are gone; their messages are still met in archives.
    retired_topics: tuple[str, ...] = ()
    #: None where only the kind of file is told, and nothing is judged.
    format: FileFormat | None
    #: None where objects come irregularly.
    cadence_s: float | None
    priority: str
    key: KeyGrammar
    item: ItemRules
    integrity: IntegrityRules
    #: None where keys do not begin with a time that could be told beforehand.
    folders: FolderRules | None = None
    #: Issue code → severity; an issue that is not listed has its default.
    severities: Mapping[str, Severity] = field(default_factory=dict)
    governance: GovernanceDefaults

    def places(self) -> Iterator[tuple[str, str]]:
        """Yield provider and name of each bucket, former ones too."""
        for bucket in (*self.buckets, *self.aliases):
            yield self.provider, bucket
        for provider, buckets in self.mirrors.items():
            for bucket in buckets:
                yield provider, bucket
