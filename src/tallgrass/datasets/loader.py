"""Dataset files: TOML in, a checked `Dataset` out.

    id, title, description, provider, buckets, topics, retired_topics, format, cadence_s,
    priority
    [mirrors]        other provider = its buckets with the same keys
    [key]            prefixes or rest, pattern (a verbose regular expression, matched as a whole),
                     accumulation
    [key.start]      form, groups and what is added; likewise [key.end] and [key.reference]
    [[key.layouts]]  further layouts, each with pattern, start, end, reference, accumulation
    [[key.ignore]]   pattern, reason: keys that are no units
    [item]           collection, media_type, bbox, place_group, placeless
    [item.places]    value of place_group = [west, south, east, north]
    [item.properties], [item.from_key], [item.vocabulary.PROPERTY], [item.sidecars],
    [item.media_types]
    [integrity]      min_size_bytes, max_size_bytes, etag_required
    [severities]     issue code = "suspect" or "failed"
    [governance]     care_label, sensitivity, reject
    [[examples]]     key with start, end, reference, or with ignored: the file proves its grammar

Without [key] or its pattern every object is a unit without a time. Without `format` only the kind
of file is told, by its first bytes; without `cadence_s` objects come irregularly.

Whatever cannot be used is refused with the file, the field and what is allowed there.
"""

import re
import tomllib
from collections.abc import Collection, Iterable
from typing import Any

from tallgrass.datasets.definition import (
    Dataset,
    FileFormat,
    GovernanceDefaults,
    IntegrityRules,
    ItemRules,
    Severity,
)
from tallgrass.datasets.examples import Example, read_examples
from tallgrass.datasets.fields import INVALID, Table, did_you_mean
from tallgrass.datasets.key_loader import load_grammar, require_group
from tallgrass.error_codes import is_unit_code, registry
from tallgrass.errors import ConfigError

#: How soon a unit is wanted.
PRIORITIES = ("high", "normal", "low")
#: How open an object's data are.
CARE_LABELS = ("public", "sensitive", "restricted")
#: Media types of generic units, of which the ending of the key is all that is known.
COMMON_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".grb2": "application/wmo-GRIB2",
    ".grib2": "application/wmo-GRIB2",
    ".gz": "application/gzip",
    ".h5": "application/x-hdf5",
    ".json": "application/json",
    ".nc": "application/netcdf",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".tif": "image/tiff; application=geotiff",
    ".txt": "text/plain",
    ".zip": "application/zip",
}

_ID_FORM = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
# NODD's registry writes one name with a hyphen before it, which S3 itself would not take.
_BUCKET_FORM = re.compile(r"-?[A-Za-z0-9][A-Za-z0-9._-]*")

_LONGITUDE_MAX = 180.0
_LATITUDE_MAX = 90.0

Box = tuple[float, float, float, float]


def load_dataset(text: str, place: str) -> Dataset:
    """Return the dataset that a file describes; `place` names the file in refusals."""
    return load_with_examples(text, place)[0]


def load_with_examples(text: str, place: str) -> tuple[Dataset, tuple[Example, ...]]:
    """Return the dataset of a file, and what each of its examples gave."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{place}: not TOML: {exc}", code=INVALID) from exc
    table = Table(values, place)
    grammar, groups = load_grammar(table.optional_table("key"), _sidecars(table.table("item")))
    dataset = Dataset(
        id=table.formed("id", _ID_FORM, "small letters, digits and single hyphens"),
        title=table.text("title"),
        description=table.text("description").strip(),
        provider=table.formed("provider", _ID_FORM, "a provider's name such as aws"),
        buckets=_buckets(table, "buckets"),
        mirrors=_mirrors(table.optional_table("mirrors")),
        topics=table.texts("topics", []),
        retired_topics=table.texts("retired_topics", []),
        format=table.word("format", FileFormat) if table.has("format") else None,
        cadence_s=table.seconds("cadence_s") if table.has("cadence_s") else None,
        priority=table.choice("priority", PRIORITIES),
        key=grammar,
        item=_item(table.table("item"), groups, generic=grammar.generic),
        integrity=_integrity(table.optional_table("integrity")),
        severities=_severities(table.optional_table("severities")),
        governance=_governance(table.table("governance")),
    )
    if dataset.provider in dataset.mirrors:
        raise table.refusal("mirrors", f"{dataset.provider!r} is the provider of buckets itself")
    examples = read_examples(dataset, table)
    table.close()
    return dataset, examples


def _buckets(table: Table, field: str) -> tuple[str, ...]:
    buckets = table.texts(field)
    for bucket in buckets:
        if not _BUCKET_FORM.fullmatch(bucket):
            raise table.refusal(field, f"{bucket!r} is not a bucket's name")
    if not buckets:
        raise table.refusal(field, "must name at least one bucket")
    return buckets


def _mirrors(table: Table | None) -> dict[str, tuple[str, ...]]:
    return {} if table is None else {name: _buckets(table, name) for name in table.names()}


# --- items ----------------------------------------------------------------------------------------


def _sidecars(item: Table) -> dict[str, str]:
    return _texts_by_name(item.optional_table("sidecars"))


def _texts_by_name(table: Table | None) -> dict[str, str]:
    return {} if table is None else {name: table.text(name) for name in table.names()}


def _item(table: Table, groups: Collection[str], *, generic: bool) -> ItemRules:
    place_group = table.optional_text("place_group")
    places = table.optional_table("places")
    if place_group is not None:
        require_group(table, "place_group", place_group, groups)
    if (place_group is None) != (places is None):
        raise table.refusal("places", "place_group and places go together; one of them is missing")
    from_key = _from_key(table.optional_table("from_key"), groups)
    item = ItemRules(
        collection=table.formed("collection", _ID_FORM, "small letters, digits and hyphens"),
        media_type=table.text("media_type"),
        bbox=_box(table, "bbox") if table.has("bbox") else None,
        place_group=place_group,
        places={} if places is None else {name: _box(places, name) for name in places.names()},
        properties=_json_values(table.optional_table("properties")),
        from_key=from_key,
        vocabulary=_vocabulary(table.optional_table("vocabulary"), from_key),
        sidecars=_sidecars(table),
        placeless=table.flag("placeless", default=generic),
        media_types=_texts_by_name(table.optional_table("media_types"))
        or (COMMON_MEDIA_TYPES if generic else {}),
    )
    table.close()
    return item


def _box(table: Table, field: str) -> Box:
    """Read west, south, east, north; a west beyond the east crosses the antimeridian."""
    value = table.value(field)
    numbers = isinstance(value, list) and all(type(one) in {int, float} for one in value)
    if not numbers or len(value) != len(("west", "south", "east", "north")):
        raise table.refusal(field, f"must be [west, south, east, north], not {value!r}")
    west, south, east, north = (float(one) for one in value)
    # Asked for what must hold, so that no NaN slips through.
    on_earth = abs(west) <= _LONGITUDE_MAX and abs(east) <= _LONGITUDE_MAX
    if not (on_earth and -_LATITUDE_MAX <= south <= north <= _LATITUDE_MAX):
        raise table.refusal(field, f"is not on Earth, or south lies above north: {value!r}")
    return west, south, east, north


def _from_key(table: Table | None, groups: Collection[str]) -> dict[str, str]:
    if table is None:
        return {}
    pairs = {name: table.text(name) for name in table.names()}
    for name, group in pairs.items():
        require_group(table, name, group, groups)
    return pairs


def _vocabulary(table: Table | None, known: Iterable[str]) -> dict[str, dict[str, object]]:
    if table is None:
        return {}
    vocabulary: dict[str, dict[str, object]] = {}
    for name in table.names():
        if name not in known:
            hint = did_you_mean(name, known)
            raise table.refusal(name, f"item.from_key has no such property{hint}")
        vocabulary[name] = _json_values(table.table(name))
    return vocabulary


def _json_values(table: Table | None) -> dict[str, object]:
    """Return a table as it stands; TOML's own dates are refused, JSON has none."""
    if table is None:
        return {}
    values = {name: table.value(name) for name in table.names()}
    for name, value in values.items():
        if not _is_json(value):
            raise table.refusal(name, f"must be a JSON value, not {value!r}; write times as text")
    return values


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_json(one) for one in value.values())
    if isinstance(value, list):
        return all(_is_json(one) for one in value)
    return isinstance(value, str | int) or (isinstance(value, float) and abs(value) < float("inf"))


# --- the rest -------------------------------------------------------------------------------------


def _integrity(table: Table | None) -> IntegrityRules:
    if table is None:
        return IntegrityRules()
    least = table.whole("min_size_bytes", 1)
    most = table.whole("max_size_bytes") if table.has("max_size_bytes") else None
    if most is not None and most < least:
        raise table.refusal("max_size_bytes", f"{most} is less than min_size_bytes, {least}")
    rules = IntegrityRules(
        min_size_bytes=least,
        max_size_bytes=most,
        etag_required=table.flag("etag_required", default=False),
    )
    table.close()
    return rules


def _severities(table: Table | None) -> dict[str, Severity]:
    if table is None:
        return {}
    for code in table.names():
        if not is_unit_code(code):
            issues = [name for name in registry() if is_unit_code(name)]
            raise table.refusal(code, f"unknown issue code{did_you_mean(code, issues)}")
    return {code: table.word(code, Severity) for code in table.names()}


def _governance(table: Table) -> GovernanceDefaults:
    defaults = GovernanceDefaults(
        care_label=table.choice("care_label", CARE_LABELS),
        sensitivity=table.text("sensitivity"),
        reject=table.optional_text("reject"),
    )
    table.close()
    return defaults
