"""Text and values as people see them: times in one form, no credentials, no control characters."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import orjson

from tallgrass.clock import format_instant

#: Control characters, line and direction marks, halves of pairs: what a terminal would obey.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
#: Those that JSON leaves as they are.
_STEERING_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
#: A database's password may hold a slash; an object's key may hold an @.
_CREDENTIALS = re.compile(
    r"(?P<scheme>\bp[a-z0-9+.-]*://)[^\s?'\"]*@|(?P<other>\b[a-z][a-z0-9+.-]*://)[^\s/?'\"@]*@",
    re.IGNORECASE,
)
_SECRET_PARAMETER = re.compile(
    r"(?P<name>\b\w*(?:password|passfile|secret|token|key)\w*=)[^\s&'\"]+", re.IGNORECASE
)
#: From the longest: how many seconds each has, and what is said beside it.
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def printable(text: str) -> str:
    """Return the text as one line, with what would steer a terminal written as escapes."""
    return _STEERING.sub(lambda match: _escape(ord(match[0])), text)


def hide_credentials(text: str) -> str:
    """Return the text without user, password and keys of the addresses in it."""
    text = _CREDENTIALS.sub(lambda match: f"{match['scheme'] or match['other']}***@", text)
    return _SECRET_PARAMETER.sub(r"\g<name>***", text)


def duration(seconds: float) -> str:
    """Return a time span as people say it: at most two units of time, and none that is zero."""
    left = round(seconds)
    for size, name, smaller_size, smaller in _UNITS:
        if left >= size:
            rest = left % size // smaller_size
            return f"{left // size:,} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{left} s"


def json_bytes(value: object) -> bytes:
    """Return a JSON document for a person or a program: indented, keys in their given order.

    JSON itself escapes only the first control characters; here all that steer a terminal are.
    """
    return _escaped(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def json_line(value: object) -> bytes:
    """Return a JSON document as one line of JSON Lines, with the same escapes."""
    return _escaped(value, orjson.OPT_APPEND_NEWLINE)


def _escaped(value: object, option: int) -> bytes:
    document = orjson.dumps(plain(value), option=option, default=str).decode()
    return _STEERING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", document).encode()


def plain(value: Any) -> Any:
    """Return a value in JSON's types; times in the one fixed form, bytes as their text.

    A path may hold bytes that are no text: they are shown as escapes, as JSON cannot hold them.
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _escape(number: int) -> str:
    one_byte = number <= 0xFF  # noqa: PLR2004 - what two digits can say
    return f"\\x{number:02x}" if one_byte else f"\\u{number:04x}"
