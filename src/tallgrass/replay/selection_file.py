"""A selection that was saved: YAML or JSON, read strictly and written back.

``apiVersion: kfm.nodd.replay/v1alpha1``, ``kind: ReplaySelection``. An unknown field is refused
with its place and the nearest name: a condition that is mistyped must not select more than meant.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tallgrass.clock import format_instant, parse_instant
from tallgrass.errors import InvalidInput, did_you_mean
from tallgrass.intake.strict_json import load_strict
from tallgrass.ledger.vocabulary import Status, word
from tallgrass.replay.selection import IdRange, Purpose, Selection, Span

API_VERSION = "kfm.nodd.replay/v1alpha1"
KIND = "ReplaySelection"
#: A file with the most ids that a selection may name has half of it.
FILE_BYTES_MAX = 1 << 20

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SPANS = ("data_time", "time_range_overlap", "event_time", "created_at")
_LISTS = ("datasets", "datasets_exclude", "error_codes", "message_ids", "wal_ids")
_FILTERS = (*_LISTS, *_SPANS, "attempts", "bucket_prefix", "status", "wal_id_range")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSelection:
    """A selection with what its file says beside it."""

    selection: Selection
    #: The only environment that it is for.
    env: str | None = None
    replay_reason: str | None = None
    incident_id: str | None = None
    batch_size: int | None = None
    max_batches: int | None = None
    #: It was saved for looking, not for running.
    dry_run: bool = False


def parse_selection(data: bytes) -> SavedSelection:
    """Read a saved selection; whatever is not known or not of its type is refused."""
    document = _table(_loaded(data), "", ("apiVersion", "kind", "metadata", "spec"))
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(name) != wanted:
            raise _invalid(f"{name} must be {wanted}, not {document.get(name)!r}")
    metadata = _table(
        document.get("metadata", {}), "metadata", ("name", "description", "env", "labels")
    )
    labels = _table(
        metadata.get("labels", {}),
        "metadata.labels",
        ("replay_reason", "incident_id", "owner_team"),
    )
    spec = _table(document.get("spec"), "spec", ("mode", "filters", "limits", "options"))
    limits = _table(
        spec.get("limits", {}), "spec.limits", ("max_records", "batch_size", "max_batches")
    )
    options = _options(spec.get("options", {}), spec.get("mode"))
    # Of no consequence, but text.
    _text(metadata, "metadata", "name")
    _text(metadata, "metadata", "description")
    _text(labels, "metadata.labels", "owner_team")
    _text(options, "spec.options", "notes")
    return SavedSelection(
        selection=selection_from({"filters": {}, **spec}),
        env=_text(metadata, "metadata", "env"),
        replay_reason=_text(labels, "metadata.labels", "replay_reason"),
        incident_id=_text(labels, "metadata.labels", "incident_id"),
        batch_size=_number(limits, "spec.limits", "batch_size"),
        max_batches=_number(limits, "spec.limits", "max_batches"),
        dry_run=_flag(options, "spec.options", "dry_run", default=False),
    )


def selection_from(spec: Mapping[str, Any]) -> Selection:
    """Return the selection of a `spec`, as a file or a plan's header holds it."""
    filters = _table(spec["filters"], "spec.filters", _FILTERS)
    place = "spec.filters"
    attempts = _table(filters.get("attempts", {}), f"{place}.attempts", ("min", "max"))
    ids = _table(filters.get("wal_id_range", {}), f"{place}.wal_id_range", ("start", "end"))
    many: dict[str, Any] = {name: _texts(filters, place, name) for name in _LISTS}
    many |= {name: _span(filters, place, name) for name in _SPANS}
    return Selection(
        **many,
        bucket_prefix=_text(filters, place, "bucket_prefix"),
        wal_id_range=IdRange(
            _text(ids, f"{place}.wal_id_range", "start"), _text(ids, f"{place}.wal_id_range", "end")
        ),
        statuses=tuple(word(Status, name) for name in _texts(filters, place, "status")),
        attempts_min=_number(attempts, f"{place}.attempts", "min"),
        attempts_max=_number(attempts, f"{place}.attempts", "max"),
        purpose=word(Purpose, spec.get("mode", Purpose.FAILED_ONLY)),
        max_records=_number(spec.get("limits", {}), "spec.limits", "max_records"),
    )


def spec_of(selection: Selection) -> dict[str, Any]:
    """Return the `spec` of a selection: conditions that are not given are left out."""
    filters: dict[str, Any] = {
        name: list(getattr(selection, name)) for name in _LISTS if getattr(selection, name)
    }
    for name in _SPANS:
        span: Span = getattr(selection, name)
        if not span.is_open:
            filters[name] = _ends(_instant(span.start), _instant(span.end))
    if not selection.wal_id_range.is_open:
        filters["wal_id_range"] = _ends(selection.wal_id_range.start, selection.wal_id_range.end)
    if selection.bucket_prefix is not None:
        filters["bucket_prefix"] = selection.bucket_prefix
    if selection.statuses:
        filters["status"] = [status.value for status in selection.statuses]
    numbers = {"min": selection.attempts_min, "max": selection.attempts_max}
    if attempts := {name: value for name, value in numbers.items() if value is not None}:
        filters["attempts"] = attempts
    spec: dict[str, Any] = {"mode": selection.purpose.value, "filters": filters}
    if selection.max_records is not None:
        spec["limits"] = {"max_records": selection.max_records}
    return spec


def render_selection(selection: Selection, *, env: str, reason: str | None) -> str:
    """Return a selection as a file that can be read again."""
    metadata: dict[str, Any] = {"env": env}
    if reason is not None:
        metadata["labels"] = {"replay_reason": reason}
    spec = spec_of(selection)
    if selection.includes_succeeded:
        spec["options"] = {"allow_repair_and_replace": True}
    from tallgrass.replay.strict_yaml import dump_yaml  # noqa: PLC0415 - a plan needs no YAML

    return dump_yaml({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})


def instant_or_date(text: str) -> datetime:
    """Read an instant; a date is its midnight, in UTC."""
    return parse_instant(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)


def _loaded(data: bytes) -> Any:
    if len(data) > FILE_BYTES_MAX:
        raise _invalid(f"{len(data):,} bytes; at most {FILE_BYTES_MAX:,} are read")
    if data.lstrip().startswith(b"{"):
        return load_strict(data)
    from tallgrass.replay.strict_yaml import load_yaml  # noqa: PLC0415 - a plan needs no YAML

    return load_yaml(data)


def _options(value: object, mode: object) -> Mapping[str, Any]:
    place = "spec.options"
    known = ("dry_run", "allow_repair_and_replace", "respect_kill_switch", "notes")
    options = _table(value, place, known)
    if not _flag(options, place, "respect_kill_switch", default=True):
        raise _invalid("spec.options.respect_kill_switch: kill switches are always respected")
    allowed = _flag(options, place, "allow_repair_and_replace", default=False)
    if mode not in {None, Purpose.FAILED_ONLY.value} and not allowed:
        raise _invalid(
            f"spec.mode {mode} runs succeeded units again: "
            "it needs spec.options.allow_repair_and_replace: true"
        )
    return options


def _table(value: object, place: str, known: Iterable[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"{place or 'the file'} must be a table of names and values")
    for name in value:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise _invalid(f"{place + ': ' if place else ''}unknown field {str(name)!r}{hint}")
    return value


def _text(table: Mapping[str, Any], place: str, name: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise _invalid(f"{place}.{name} must be text, not {value!r}")
    return value


def _texts(table: Mapping[str, Any], place: str, name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise _invalid(f"{place}.{name} must be a list of texts, not {value!r:.100}")
    if name in table and not value:
        raise _invalid(f"{place}.{name} is empty: leave it out, or name what is meant")
    return tuple(value)


def _number(table: Mapping[str, Any], place: str, name: str) -> int | None:
    value = table.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise _invalid(f"{place}.{name} must be a whole number, not {value!r}")
    return value


def _flag(table: Mapping[str, Any], place: str, name: str, *, default: bool) -> bool:
    value = table.get(name, default)
    if not isinstance(value, bool):
        raise _invalid(f"{place}.{name} must be true or false, not {value!r}")
    return value


def _span(table: Mapping[str, Any], place: str, name: str) -> Span:
    ends = _table(table.get(name, {}), f"{place}.{name}", ("start", "end"))
    start, end = (_text(ends, f"{place}.{name}", side) for side in ("start", "end"))
    return Span(
        None if start is None else instant_or_date(start),
        None if end is None else instant_or_date(end),
    )


def _ends(start: str | None, end: str | None) -> dict[str, str]:
    ends = {"start": start, "end": end}
    return {name: value for name, value in ends.items() if value is not None}


def _instant(value: datetime | None) -> str | None:
    return None if value is None else format_instant(value)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="selection_invalid")
