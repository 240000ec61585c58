"""The form of a replay: reads what a browser sends, and fills the form on the next page."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError

from tallgrass.api.replay_wish import ReplayWish
from tallgrass.config import Config
from tallgrass.errors import InvalidInput
from tallgrass.ledger.replay_reasons import DLQ_DRAIN, LISTED

#: Fields that may hold several words, apart by blanks, commas or lines.
_LISTS: Final = frozenset(
    {"dataset", "status", "error_code", "wal_id", "message_id", "expect_changes"}
)
_ERRORS_MAX = 5


def wish_of(pairs: Iterable[tuple[str, str]]) -> ReplayWish:
    """Return the wish that a form's fields make; empty and unknown fields are passed over."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        text = value.strip()
        if name not in ReplayWish.model_fields or not text:
            continue
        if name in _LISTS:
            found.setdefault(name, []).extend(text.replace(",", " ").split())
        else:
            found[name] = text
    try:
        return ReplayWish.model_validate(found)
    except ValidationError as exc:
        told = [
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
            for each in exc.errors()[:_ERRORS_MAX]
        ]
        raise InvalidInput("; ".join(told), code="selection_invalid") from None


def fields_of(wish: ReplayWish) -> list[tuple[str, str]]:
    """Return a wish as fields of a form: those that say something."""
    given = wish.model_dump(exclude_defaults=True)
    return list(
        chain.from_iterable(
            [(name, str(each)) for each in value]
            if isinstance(value, list)
            else [(name, str(value).lower() if isinstance(value, bool) else str(value))]
            for name, value in given.items()
        )
    )


def reasons(config: Config) -> list[str]:
    """Return the reasons that a replay may have; a drain has a page of its own."""
    listed = [each for each in LISTED if each not in {"none", DLQ_DRAIN}]
    return [*listed, *sorted(dict(config.rules.custom_reasons))]
