"""A selection made of words: as flags, a form or a program's question give them (pure)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallgrass.errors import InvalidInput
from tallgrass.ledger.vocabulary import Status, word
from tallgrass.replay.selection import IdRange, Purpose, Selection, Span
from tallgrass.replay.selection_file import SavedSelection, instant_or_date, parse_selection


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionWords:
    """What somebody wrote; None and nothing leave out nothing."""

    datasets: Sequence[str] = ()
    bucket_prefix: str | None = None
    since: str | None = None
    until: str | None = None
    event_since: str | None = None
    event_until: str | None = None
    created_since: str | None = None
    created_until: str | None = None
    wal_ids: Sequence[str] = ()
    #: FROM..TO, either may be left out.
    wal_id_range: str | None = None
    message_ids: Sequence[str] = ()
    statuses: Sequence[str] = ()
    error_codes: Sequence[str] = ()
    attempts_min: int | None = None
    attempts_max: int | None = None
    include_succeeded: bool = False
    max_events: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What words and a saved selection say together."""

    selection: Selection
    #: The file that the words narrowed, if one was given.
    saved: SavedSelection | None = None


def narrowed(file: bytes, words: Selection) -> Selected:
    """Return a saved selection, made smaller by words."""
    saved = parse_selection(file)
    return Selected(selection=saved.selection.narrowed(words), saved=saved)


def require_conditions(selected: Selected) -> Selection:
    """Return the selection; one that says nothing at all is refused, for it would say all."""
    if selected.selection.is_empty:
        message = (
            "nothing is selected: name a dataset and a time (dataset, since), units (wal-id),"
            " a message (message-id) or a saved selection (selection-file)"
        )
        raise InvalidInput(message, code="selection_invalid")
    return selected.selection


def selection_of(words: SelectionWords, *, named: Callable[[str], str] = str) -> Selection:
    """Return the selection; `named` tells how a field is called where it was written."""
    return Selection(
        datasets=tuple(words.datasets),
        bucket_prefix=words.bucket_prefix,
        data_time=_span({"since": words.since, "until": words.until}, named),
        event_time=_span(
            {"event_since": words.event_since, "event_until": words.event_until}, named
        ),
        created_at=_span(
            {"created_since": words.created_since, "created_until": words.created_until}, named
        ),
        wal_ids=tuple(each.lower() for each in words.wal_ids),
        wal_id_range=_id_range(words.wal_id_range, named("wal_id_range")),
        message_ids=tuple(words.message_ids),
        statuses=tuple(word(Status, name) for name in words.statuses),
        error_codes=tuple(words.error_codes),
        attempts_min=words.attempts_min,
        attempts_max=words.attempts_max,
        purpose=Purpose.REPAIR if words.include_succeeded else Purpose.FAILED_ONLY,
        max_records=words.max_events,
    )


def _span(ends: Mapping[str, str | None], named: Callable[[str], str]) -> Span:
    first, last = (None if text is None else instant_or_date(text) for text in ends.values())
    if first is not None and last is not None and first >= last:
        start, end = (named(name) for name in ends)
        raise InvalidInput(f"{start} must be before {end}", code="selection_invalid")
    return Span(first, last)


def _id_range(text: str | None, name: str) -> IdRange:
    if text is None:
        return IdRange()
    start, dots, end = text.lower().partition("..")
    if not dots or not (start or end):
        message = f"{name} takes FROM..TO, FROM.. or ..TO, not {text!r}"
        raise InvalidInput(message, code="selection_invalid")
    return IdRange(start or None, end or None)
