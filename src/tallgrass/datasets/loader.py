"""Dataset files: TOML in, a checked `Dataset` out.

    id, title, description, provider, buckets, topics, retired_topics, format, cadence_s,
    priority
    [aliases]        former bucket = the one of buckets that its objects moved to
    [mirrors]        other provider = its buckets with the same keys
    [folders]        begins, ahead_hours, behind_hours: see `folder_loader`
    [key]            prefixes or rest, pattern (a verbose regular expression, matched as a whole),
                     accumulation, generic where nothing but the time is known of such objects
    [key.start]      form, groups and what is added; likewise [key.end] and [key.reference]
    [[key.layouts]]  further layouts, each with pattern, start, end, reference, accumulation,
                     generic
    [[key.ignore]]   pattern, reason: keys that are no units
    [item]           collection, media_type, region, license, license_url, bbox, place_group,
                     range_km, placeless, sidecar_keys (a regular expression: whose keys have some),
                     numbers, known_only (properties of from_key: whole numbers; only known words)
    [item.places]    value of place_group = [west, south, east, north], or the circle around
                     [longitude, latitude] or [longitude, latitude, range in km]
    [item.properties], [item.from_key], [item.vocabulary.PROPERTY], [item.sidecars],
    [item.media_types]
    [item.bands]     groups, [item.bands.of], [item.bands.sets]: see `band_loader`
    [integrity]      min_size_bytes, max_size_bytes, etag_required
    [severities]     issue code = "suspect" or "failed"
    [governance]     care_label, sensitivity, reject, governance_ref (restricted data need one),
                     replay_modes, approvals_needed, masking_degrees, overwrite, policy_ref
    [governance.sovereignty]  texts that events carry: tribal_authority, review_status …
    [[examples]]     key with start, end, reference, or with ignored: the file proves its grammar

Without [key] or its pattern every object is a unit without a time, and so is one whose key no
pattern takes: only what [[key.ignore]] names, and what is never data, is passed over. Without
`format` only the kind of file is told, by its first bytes; without `cadence_s` objects come
irregularly.

Whatever cannot be used is refused with the file, the field and what is allowed there.
"""

import re
import tomllib
from collections.abc import Collection, Iterable
from typing import Any

from tallgrass.datasets.band_loader import load_bands
from tallgrass.datasets.definition import (
    Dataset,
    FileFormat,
    IntegrityRules,
    ItemRules,
    Severity,
)
from tallgrass.datasets.examples import Example, read_examples
from tallgrass.datasets.fields import INVALID, Table, nearest_or_all
from tallgrass.datasets.folder_loader import load_folders
from tallgrass.datasets.governance_loader import load_governance
from tallgrass.datasets.key_loader import load_grammar, require_group
from tallgrass.datasets.unknown_layout import COMMON_MEDIA_TYPES
from tallgrass.error_codes import is_unit_code, registry
from tallgrass.errors import ConfigError

#: How soon a unit is wanted.
PRIORITIES = ("high", "normal", "low")
_ID_FORM = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
# NODD's registry writes one name with a hyphen before it, which S3 itself would not take.
_BUCKET_FORM = re.compile(r"-?[A-Za-z0-9][A-Za-z0-9._-]*")

_LONGITUDE_MAX = 180.0
_LATITUDE_MAX = 90.0

#: Where a provider keeps NODD's buckets, unless a dataset's file says otherwise.
_REGIONS = {"aws": "us-east-1"}
#: STAC's word for a licence that SPDX does not list.
OTHER_LICENSE = "other"
_LICENSE_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
#: No instrument on the ground sees further; a circle beyond a quarter of the Earth is none.
RANGE_KM_MAX = 5_000.0

Box = tuple[float, float, float, float]
Circle = tuple[float, float, float]


def load_dataset(text: str, place: str) -> Dataset:
    """Return the dataset that a file describes; `place` names the file in refusals."""
    return load_with_examples(text, place)[0]


def load_with_examples(text: str, place: str) -> tuple[Dataset, tuple[Example, ...]]:
    """Return the dataset of a file, and what each of its examples gave."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # also too long a number, too many brackets
        raise ConfigError(f"{place}: not TOML: {exc}", code=INVALID) from exc
    table = Table(values, place)
    grammar, groups = load_grammar(table.optional_table("key"), _sidecars(table.table("item")))
    dataset = Dataset(
        id=table.formed("id", _ID_FORM, "small letters, digits and single hyphens"),
        title=table.text("title"),
        description=table.text("description").strip(),
        provider=table.formed("provider", _ID_FORM, "a provider's name such as aws"),
        buckets=_buckets(table, "buckets"),
        aliases=_texts_by_name(table.optional_table("aliases")),
        mirrors=_mirrors(table.optional_table("mirrors")),
        topics=table.texts("topics", []),
        retired_topics=table.texts("retired_topics", []),
        format=table.word("format", FileFormat) if table.has("format") else None,
        cadence_s=table.positive("cadence_s", "seconds") if table.has("cadence_s") else None,
        priority=table.choice("priority", PRIORITIES),
        key=grammar,
        item=_item(table.table("item"), groups, table.text("provider"), generic=grammar.generic),
        integrity=_integrity(table.optional_table("integrity")),
        folders=load_folders(table.optional_table("folders"), grammar.prefixes),
        severities=_severities(table.optional_table("severities")),
        governance=load_governance(table.table("governance")),
    )
    _require_moved(table, dataset)
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


def _require_moved(table: Table, dataset: Dataset) -> None:
    """Refuse an alias that is no former bucket of the dataset."""
    for former, present in dataset.aliases.items():
        if not _BUCKET_FORM.fullmatch(former) or former in dataset.buckets:
            raise table.refusal("aliases", f"{former!r} is not the name of a former bucket")
        if present not in dataset.buckets:
            raise table.refusal(
                "aliases", f"{former!r} moved to {present!r}, which is not in buckets"
            )


def _mirrors(table: Table | None) -> dict[str, tuple[str, ...]]:
    return {} if table is None else {name: _buckets(table, name) for name in table.names()}


# --- items ----------------------------------------------------------------------------------------


def _sidecars(item: Table) -> dict[str, str]:
    return _texts_by_name(item.optional_table("sidecars"))


def _texts_by_name(table: Table | None) -> dict[str, str]:
    return {} if table is None else {name: table.text(name) for name in table.names()}


def _item(table: Table, groups: Collection[str], provider: str, *, generic: bool) -> ItemRules:
    place_group = table.optional_text("place_group")
    places = table.optional_table("places")
    if place_group is not None:
        require_group(table, "place_group", place_group, groups)
    if (place_group is None) != (places is None):
        raise table.refusal("places", "place_group and places go together; one of them is missing")
    range_km = table.positive("range_km", "kilometres") if table.has("range_km") else None
    boxes, circles = _places(places, range_km)
    from_key = _from_key(table.optional_table("from_key"), groups)
    item = ItemRules(
        collection=table.formed("collection", _ID_FORM, "small letters, digits and hyphens"),
        media_type=table.text("media_type"),
        region=table.optional_text("region") or _REGIONS.get(provider),
        license=_license(table),
        license_url=table.optional_text("license_url"),
        bbox=_box(table, "bbox") if table.has("bbox") else None,
        place_group=place_group,
        places=boxes,
        circles=circles,
        range_km=range_km,
        properties=_json_values(table.optional_table("properties")),
        from_key=from_key,
        vocabulary=_vocabulary(table.optional_table("vocabulary"), from_key),
        numbers=_from_key_names(table, "numbers", from_key),
        known_only=_from_key_names(table, "known_only", from_key),
        sidecars=_sidecars(table),
        sidecar_keys=table.pattern("sidecar_keys") if table.has("sidecar_keys") else None,
        placeless=table.flag("placeless", default=generic),
        media_types=_texts_by_name(table.optional_table("media_types"))
        or (COMMON_MEDIA_TYPES if generic else {}),
        bands=load_bands(table.optional_table("bands"), groups),
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


def _license(table: Table) -> str | None:
    """Read the licence of data that are not NOAA's own: an SPDX id, or `other` and its address."""
    if not table.has("license"):
        if table.has("license_url"):
            raise table.refusal("license", "is missing: license_url goes with it")
        return None
    name = table.formed("license", _LICENSE_FORM, "an SPDX id such as CC-BY-4.0, or other")
    if name == OTHER_LICENSE and not table.has("license_url"):
        raise table.refusal("license_url", "is missing: another licence must be read somewhere")
    return name


def _places(
    table: Table | None, range_km: float | None
) -> tuple[dict[str, Box], dict[str, Circle]]:
    """Read boxes, and circles: [longitude, latitude], with a range in km if it has its own."""
    boxes: dict[str, Box] = {}
    circles: dict[str, Circle] = {}
    for name in () if table is None else table.names():
        assert table is not None  # noqa: S101 - it has names
        value = table.value(name)
        if isinstance(value, list) and len(value) in {2, 3}:
            circles[name] = _circle(table, name, range_km)
        else:
            boxes[name] = _box(table, name)
    return boxes, circles


def _circle(table: Table, field: str, range_km: float | None) -> Circle:
    value = table.value(field)
    if not all(type(one) in {int, float} for one in value):
        raise table.refusal(field, f"must be [longitude, latitude, range in km], not {value!r}")
    longitude, latitude, *own = (float(one) for one in value)
    reach = own[0] if own else range_km
    if reach is None:
        raise table.refusal(field, "has no range: add it in km, or item.range_km for all places")
    on_earth = abs(longitude) <= _LONGITUDE_MAX and abs(latitude) <= _LATITUDE_MAX
    if not (on_earth and 0 < reach <= RANGE_KM_MAX):
        raise table.refusal(field, f"is not on Earth, or its range is not below 5,000: {value!r}")
    return longitude, latitude, reach


def _from_key(table: Table | None, groups: Collection[str]) -> dict[str, str]:
    if table is None:
        return {}
    pairs = {name: table.text(name) for name in table.names()}
    for name, group in pairs.items():
        require_group(table, name, group, groups)
    return pairs


def _from_key_names(table: Table, field: str, known: Iterable[str]) -> frozenset[str]:
    names = table.texts(field, [])
    for name in names:
        if name not in known:
            hint = nearest_or_all(name, known)
            raise table.refusal(field, f"item.from_key has no property {name!r}{hint}")
    return frozenset(names)


def _vocabulary(table: Table | None, known: Iterable[str]) -> dict[str, dict[str, object]]:
    if table is None:
        return {}
    vocabulary: dict[str, dict[str, object]] = {}
    for name in table.names():
        if name not in known:
            hint = nearest_or_all(name, known)
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
            raise table.refusal(code, f"unknown issue code{nearest_or_all(code, issues)}")
    return {code: table.word(code, Severity) for code in table.names()}
