"""The closed registry of codes: what each means and what to do about it.

A unit's ``last_error_code`` and an error that a command prints come from here; anything else is
refused. Guards, reasons and findings that commands, reports and the journal name are in it as well.
``tallgrass explain CODE`` prints an entry. The texts are kept in ``error_codes.toml`` beside this
module, so that they read as documentation.
"""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files


class CodeScope(StrEnum):
    """Where a code may stand."""

    UNIT = "unit"  # in a record's last_error_code
    COMMAND = "command"  # in the answer of a command or call
    GUARD = "guard"  # the name of a rule that refuses, or leaves something out
    REASON = "reason"  # why something was left alone, let go, sent, put back or passed over
    FINDING = "finding"  # what a comparison or a judgement says


#: Only these are codes of errors; the others are names that reports tell.
_ERRORS = frozenset({CodeScope.UNIT, CodeScope.COMMAND})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One entry of the registry."""

    code: str
    scope: CodeScope
    #: Whether a unit that failed with it is tried again by itself.
    retried: bool
    meaning: str
    remedy: str
    #: The kind of fault behind a unit's code; None for a command's.
    cause: str | None = None


@cache
def registry() -> dict[str, ErrorCode]:
    """Return all codes by name."""
    source = files("tallgrass").joinpath("error_codes.toml").read_text(encoding="utf-8")
    entries: dict[str, ErrorCode] = {}
    for scope, table in tomllib.loads(source).items():
        for code, entry in table.items():
            entries[code] = ErrorCode(
                code=code,
                scope=CodeScope(scope),
                retried=entry.get("retried", False),
                meaning=entry["meaning"],
                remedy=entry["remedy"],
                cause=entry.get("cause"),
            )
    return entries


def lookup(code: str) -> ErrorCode:
    """Return the entry of an error's code; any other raises KeyError with the nearest name."""
    entry = registry().get(code)
    if entry is None or entry.scope not in _ERRORS:
        raise KeyError(f"unknown code {code!r}{nearest(code)}")
    return entry


def is_error_code(code: str | None) -> bool:
    """Tell whether an error may carry the code."""
    entry = registry().get(code or "")
    return entry is not None and entry.scope in _ERRORS


def is_unit_code(code: str) -> bool:
    """Tell whether a unit may carry the code as its last error."""
    entry = registry().get(code)
    return entry is not None and entry.scope is CodeScope.UNIT


def nearest(name: str, *, scope: CodeScope | None = None) -> str:
    """Return `` (did you mean …?)`` for a mistyped code, one of the scope if given, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake, keeps start-up light

    known = [entry.code for entry in registry().values() if scope in {None, entry.scope}]
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
