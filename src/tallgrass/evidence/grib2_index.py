"""The index beside a GRIB2 file (`.idx`, wgrib2's form): where in it each message begins.

A line is ``3:100527:d=2023082318:UGRD:surface:1 hour fcst:``. Messages of several fields have lines
such as ``4.1`` and ``4.2`` with one offset.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput
from tallgrass.evidence.grib2 import MAGIC
from tallgrass.evidence.header import NOT_THE_FORMAT, Seen, Verdict

#: The indexes of the largest files have some 100 kB.
INDEX_BYTES_MAX = 8 * 1024 * 1024

_LINE = re.compile(r"(\d+)(?:\.(\d+))?:(\d+):d=(\d{10}(?:\d{2}){0,2}):([^:]*):([^:]*):([^:]*):?.*")
_LINES_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLine:
    """One field of the file."""

    message: int
    offset: int
    reference: datetime
    variable: str
    level: str
    #: As wgrib2 writes it, such as ``1 hour fcst`` or ``0-15 min acc fcst``.
    step: str


def read_index(text: str) -> list[IndexLine]:
    """Return the lines of an index; its messages begin one behind the other."""
    lines: list[IndexLine] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None or number > _LINES_MAX:
            raise InvalidInput(f"line {number} of the index is none: {line[:80]!r}")
        read = IndexLine(
            message=int(match[1]),
            offset=int(match[3]),
            reference=_instant(match[4], number),
            variable=match[5],
            level=match[6],
            step=match[7],
        )
        if lines and (read.message < lines[-1].message or read.offset < lines[-1].offset):
            raise InvalidInput(f"line {number} of the index goes back to byte {read.offset}")
        lines.append(read)
    return lines


def offsets_of(lines: list[IndexLine]) -> list[int]:
    """Return where the messages begin, each once."""
    return list(dict.fromkeys(line.offset for line in lines))


def read_header(content: bytes, file: Seen | None = None) -> Verdict:
    """Return run, fields and offsets of an index; what is none has an issue.

    With its file, `wrong_offsets` are those at which no message of it begins.
    """
    try:
        lines = read_index(content.decode("ascii"))
    except (InvalidInput, UnicodeDecodeError):
        lines = []
    if not lines:
        return {}, (NOT_THE_FORMAT,)
    runs = {format_instant(line.reference) for line in lines}
    offsets = offsets_of(lines)
    header: dict[str, object] = {
        "format": "grib2-index",
        "reference_time": runs.pop() if len(runs) == 1 else None,
        "messages": len(offsets),
        "fields": len(lines),
        "offsets": offsets,
    }
    if file is not None:
        header["wrong_offsets"] = [at for at in offsets if file.at(at, len(MAGIC)) != MAGIC]
    return header, ()


def _instant(digits: str, number: int) -> datetime:
    forms = {10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
    try:
        return datetime.strptime(digits, forms[len(digits)]).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(f"line {number} of the index: {digits} is no time") from None
