"""Poison messages as documents, and filters for them. A body is never taken for markup."""

from __future__ import annotations

import base64
import codecs
from typing import TYPE_CHECKING

from tallgrass.error_codes import nearest, registry
from tallgrass.errors import InvalidInput
from tallgrass.intake.poison import PoisonFilter, PoisonState, StoredPoison
from tallgrass.views.text import plain
from tallgrass.views.times import time_or_date

if TYPE_CHECKING:
    from tallgrass.intake.message import ParsedMessage
    from tallgrass.poison_feeding import Candidate


def poison_filter(
    *,
    queue: str | None = None,
    code: str | None = None,
    since: str | None = None,
    state: PoisonState | None = None,
) -> PoisonFilter:
    """Read the conditions as people write them."""
    require_code(code)
    return PoisonFilter(queue=queue, error_code=code, since=time_or_date(since), state=state)


def require_code(code: str | None) -> None:
    """Refuse a code that no message can have."""
    if code is not None and code not in registry():
        message = f"no message can have the code {code!r}{nearest(code)}"
        raise InvalidInput(message, code="unknown_code")


def poison_document(message: StoredPoison) -> dict[str, object]:
    """Return a message's facts, without its body."""
    return {**plain(message), "state": message.state.value, "cut": message.is_cut}


def body_document(message: StoredPoison, body: bytes) -> dict[str, object]:
    """Return a body, as text if it is one, else in base64."""
    text = body_text(message, body)
    return {
        "encoding": "base64" if text is None else "utf-8",
        "content": base64.b64encode(body).decode() if text is None else text,
        "bytes": len(body),
        "cut": message.is_cut,
    }


def body_text(message: StoredPoison, body: bytes) -> str | None:
    """Return a body as text, or None if it is not text; its last character may be cut in half."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body, final=not message.is_cut)
    except UnicodeDecodeError:
        return None


def candidate_document(candidate: Candidate) -> dict[str, object]:
    """Return what a message would give now, and whether it was fed."""
    return {
        "poison_id": candidate.message.poison_id,
        "left_out": candidate.left_out,
        "message_id": candidate.sent_as,
        "now": None if candidate.parsed is None else _parsed_document(candidate.parsed),
    }


def _parsed_document(parsed: ParsedMessage) -> dict[str, object]:
    trouble = parsed.poison or parsed.deferred
    return {
        "units": [
            {"wal_id": unit.wal_id, "dataset": unit.dataset, "object_uri": unit.object_uri}
            for unit in parsed.units
        ],
        "ignored": [plain(one) for one in parsed.ignored],
        "error": None if trouble is None else plain(trouble),
    }
