"""Pages of lists: a limit, an opaque cursor, and the link to what comes next."""

import base64
import binascii
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import Query, Request

from tallgrass.errors import InvalidInput

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1000
_CURSOR_CHARS_MAX = 500
#: Rows have numbers of 64 bits.
_NUMBER_MAX = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="entries on a page")]
Cursor = Annotated[
    str | None,
    Query(max_length=_CURSOR_CHARS_MAX, description="`next_cursor` of the page before"),
]


def encode_cursor(kind: str, place: str) -> str:
    """Return where a page of a list ended, for that list alone."""
    return base64.urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str | None) -> str | None:
    """Return the place that a cursor of this list means; any other text is refused."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as exc:
        raise _not_a_cursor(cursor) from exc
    found, _, place = text.partition(":")
    if found != kind or encode_cursor(kind, place) != cursor:
        raise _not_a_cursor(cursor)
    return place


def decode_number(kind: str, cursor: str | None) -> int:
    """The same for a list whose places are numbers; 0 is its beginning."""
    place = decode_cursor(kind, cursor)
    if place is None:
        return 0
    if not place.isascii() or not place.isdigit() or len(place) > len(str(_NUMBER_MAX)):
        raise _not_a_cursor(cursor or "")
    return min(int(place), _NUMBER_MAX)


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """Return the Link header that leads to the next page: the same question, further on."""
    if cursor is None:
        return {}
    query = [(name, each) for name, each in request.query_params.multi_items() if name != "cursor"]
    address = f"{request.url.path}?{urlencode([*query, ('cursor', cursor)])}"
    return {"Link": f'<{address}>; rel="next"'}


def _not_a_cursor(cursor: str) -> InvalidInput:
    return InvalidInput(f"cursor: not one that a page of this list ended with: {cursor[:50]!r}")
