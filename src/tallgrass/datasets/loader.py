"""Dataset files: TOML in, a checked `Dataset` out.

    id, title, description, provider, buckets, topics, format, cadence_s, priority
    [key]            prefixes, pattern (a verbose regular expression, matched as a whole)
    [key.start]      form, groups, plus_hours; likewise [key.end] and [key.reference]
    [[key.ignore]]   pattern, reason: keys that are no units
    [item]           collection, media_type, bbox, place_group
    [item.places]    value of place_group = [west, south, east, north]
    [item.properties], [item.from_key], [item.vocabulary.PROPERTY], [item.sidecars]
    [integrity]      min_size_bytes, max_size_bytes, etag_required
    [severities]     issue code = "suspect" or "failed"
    [governance]     care_label, sensitivity, reject
    [[examples]]     key with start, end, reference, or with ignored: the file proves its grammar

Whatever cannot be used is refused with the file, the field and what is allowed there.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from tallgrass.clock import parse_instant
from tallgrass.datasets.definition import (
    Dataset,
    FileFormat,
    GovernanceDefaults,
    IgnoreRule,
    IntegrityRules,
    ItemRules,
    KeyGrammar,
    Severity,
    TimeRule,
)
from tallgrass.datasets.fields import Table, did_you_mean
from tallgrass.datasets.key_grammar import IgnoredKey, read_key
from tallgrass.datasets.key_times import FORMS
from tallgrass.error_codes import is_unit_code, registry
from tallgrass.errors import ConfigError, InvalidInput

#: How soon a unit is wanted.
PRIORITIES = ("high", "normal", "low")
#: How open an object's data are.
CARE_LABELS = ("public", "sensitive", "restricted")
#: Why a sidecar's own notification is passed over.
SIDECAR = "sidecar"

_ID_FORM = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_BUCKET_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REASON_FORM = re.compile(r"[a-z][a-z0-9_]*")

_LONGITUDE_MAX = 180.0
_LATITUDE_MAX = 90.0

Box = tuple[float, float, float, float]


def load_dataset(text: str, place: str) -> Dataset:
    """Return the dataset that a file describes; `place` names the file in refusals."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{place}: not TOML: {exc}") from exc
    table = Table(values, place)
    dataset = Dataset(
        id=_formed(table, "id", _ID_FORM, "small letters, digits and single hyphens"),
        title=table.text("title"),
        description=table.text("description").strip(),
        provider=_formed(table, "provider", _ID_FORM, "a provider's name such as aws"),
        buckets=_buckets(table),
        topics=table.texts("topics", []),
        format=table.word("format", FileFormat),
        cadence_s=table.seconds("cadence_s"),
        priority=table.choice("priority", PRIORITIES),
        key=_grammar(table.table("key"), _sidecars(table.table("item"))),
        item=_item(table.table("item"), _groups(table.table("key"))),
        integrity=_integrity(table.optional_table("integrity")),
        severities=_severities(table.optional_table("severities")),
        governance=_governance(table.table("governance")),
    )
    _prove(dataset, table)
    table.close()
    return dataset


def _formed(table: Table, field: str, form: re.Pattern[str], meaning: str) -> str:
    text = table.text(field)
    if not form.fullmatch(text):
        raise table.refusal(field, f"must be {meaning}, not {text!r}")
    return text


def _buckets(table: Table) -> tuple[str, ...]:
    buckets = table.texts("buckets")
    for bucket in buckets:
        if not _BUCKET_FORM.fullmatch(bucket):
            raise table.refusal("buckets", f"{bucket!r} is not a bucket's name")
    if not buckets:
        raise table.refusal("buckets", "must name at least one bucket")
    return buckets


# --- keys -----------------------------------------------------------------------------------------


def _groups(key: Table) -> Mapping[str, int]:
    return key.pattern("pattern").groupindex


def _grammar(table: Table, sidecars: Iterable[str]) -> KeyGrammar:
    pattern = table.pattern("pattern")
    prefixes = table.texts("prefixes", [""])
    if not prefixes:
        raise table.refusal("prefixes", 'must hold at least one prefix; "" takes every key')
    # A sidecar has notifications of its own, so its suffix is passed over without a rule.
    by_suffix = [
        IgnoreRule(pattern=re.compile(f".*{re.escape(suffix)}", re.DOTALL), reason=SIDECAR)
        for suffix in sidecars
    ]
    grammar = KeyGrammar(
        pattern=pattern,
        start=_time_rule(table.table("start"), pattern.groupindex),
        end=_optional_rule(table.optional_table("end"), pattern.groupindex),
        reference=_optional_rule(table.optional_table("reference"), pattern.groupindex),
        ignore=(*(_ignore_rule(rule) for rule in table.tables("ignore")), *by_suffix),
        prefixes=prefixes,
    )
    table.close()
    return grammar


def _optional_rule(table: Table | None, groups: Mapping[str, int]) -> TimeRule | None:
    return None if table is None else _time_rule(table, groups)


def _time_rule(table: Table, groups: Mapping[str, int]) -> TimeRule:
    form = table.text("form")
    if form not in FORMS:
        raise table.refusal("form", f"unknown time form {form!r}{did_you_mean(form, FORMS)}")
    names = table.texts("groups", [])
    for name in names:
        _require_group(table, "groups", name, groups)
    if bool(names) != bool(FORMS[form].layout):
        problem = "must name the groups that hold the time" if not names else "takes no groups"
        raise table.refusal("groups", f"the form {form!r} {problem}")
    plus_hours = table.optional_text("plus_hours")
    if plus_hours is not None:
        _require_group(table, "plus_hours", plus_hours, groups)
    table.close()
    return TimeRule(groups=names, form=form, plus_hours=plus_hours)


def _require_group(table: Table, field: str, name: str, groups: Mapping[str, int]) -> None:
    if name not in groups:
        hint = did_you_mean(name, groups)
        raise table.refusal(field, f"key.pattern has no group {name!r}{hint}")


def _ignore_rule(table: Table) -> IgnoreRule:
    reason = _formed(table, "reason", _REASON_FORM, "small letters, digits and underscores")
    rule = IgnoreRule(pattern=table.pattern("pattern"), reason=reason)
    table.close()
    return rule


# --- items ----------------------------------------------------------------------------------------


def _sidecars(item: Table) -> dict[str, str]:
    table = item.optional_table("sidecars")
    return {} if table is None else {suffix: table.text(suffix) for suffix in table.names()}


def _item(table: Table, groups: Mapping[str, int]) -> ItemRules:
    place_group = table.optional_text("place_group")
    places = table.optional_table("places")
    if place_group is not None:
        _require_group(table, "place_group", place_group, groups)
    if (place_group is None) != (places is None):
        raise table.refusal("places", "place_group and places go together; one of them is missing")
    from_key = _from_key(table.optional_table("from_key"), groups)
    item = ItemRules(
        collection=_formed(table, "collection", _ID_FORM, "small letters, digits and hyphens"),
        media_type=table.text("media_type"),
        bbox=_box(table, "bbox") if table.has("bbox") else None,
        place_group=place_group,
        places={} if places is None else {name: _box(places, name) for name in places.names()},
        properties=_json_values(table.optional_table("properties")),
        from_key=from_key,
        vocabulary=_vocabulary(table.optional_table("vocabulary"), from_key),
        sidecars=_sidecars(table),
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


def _from_key(table: Table | None, groups: Mapping[str, int]) -> dict[str, str]:
    if table is None:
        return {}
    pairs = {name: table.text(name) for name in table.names()}
    for name, group in pairs.items():
        _require_group(table, name, group, groups)
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


# --- examples -------------------------------------------------------------------------------------


def _prove(dataset: Dataset, table: Table) -> None:
    """Read the file's examples by its own grammar; one that comes out otherwise is refused."""
    units = 0
    for example in table.tables("examples"):
        key, wanted = example.text("key"), _wanted(example)
        example.close()
        found = _reading(dataset, example, key)
        if found != wanted:
            raise example.refusal("key", f"{key!r} gives {found}, and the example says {wanted}")
        units += "ignored" not in wanted
    if not units:
        raise table.refusal("examples", "needs at least one key of a unit, with its start")


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
