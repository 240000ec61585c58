"""Reading single fields of loaded JSON: wrong types and texts that cannot be kept are refused."""

import re
from typing import Any

from tallgrass.errors import InvalidInput
from tallgrass.intake.strict_json import INTEGER_MAX

#: Longer than any id, etag, sequencer or version that a provider sends.
TEXT_CHARS_MAX = 1024

_DIGITS = re.compile(r"[0-9]{1,19}")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def short_text(table: dict[str, Any], name: str) -> str | None:
    """Return a text that can be stored, or None where it is absent, null or empty."""
    value = table.get(name)
    if not value and (value is None or value == ""):
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is not a text")
    if len(value) > TEXT_CHARS_MAX:
        raise InvalidInput(f"{name} has more than {TEXT_CHARS_MAX} characters")
    if not value.isprintable() and _UNPRINTABLE.search(value):
        raise InvalidInput(f"{name} holds control characters")
    return value


def required_text(table: dict[str, Any], name: str) -> str:
    """Return a text that must be there."""
    value = short_text(table, name)
    if value is None:
        raise InvalidInput(f"{name} is missing", code="missing_required_field")
    return value


def table_of(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object that must be there."""
    value = table.get(name)
    if not isinstance(value, dict):
        problem = "missing" if value is None else "not an object"
        raise InvalidInput(f"{name} is {problem}", code="missing_required_field")
    return value


def required_key(table: dict[str, Any], name: str) -> str:
    """Return an object's key, or a text that ends with one, as it is; the URI's rules judge it."""
    value = table.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is missing", code="missing_required_field")
    return value


def size_in_bytes(table: dict[str, Any], name: str) -> int | None:
    """Return a size that is given as a number, or None where it is absent or null."""
    value = table.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise InvalidInput(f"{name} is not a whole number from 0")
    return value


def decimal_number(table: dict[str, Any], name: str) -> int | None:
    """Return a whole number that is given as text, as Google's interfaces do, or None."""
    value = short_text(table, name)
    if value is None:
        return None
    if not _DIGITS.fullmatch(value) or int(value) > INTEGER_MAX:
        raise InvalidInput(f"{name} is not a whole number in decimal digits")
    return int(value)
