"""GRIB edition 2: what the messages say that can be seen, and whether the last one ends.

Layout: WMO Manual on Codes, FM 92. A file is a row of messages; each begins with `GRIB` and its
total length and ends with `7777`. Where every byte can be seen all messages are followed; of an
object in a cloud only head and tail are, so that messages between them are taken on trust. Messages
may stand behind headings of bulletins, as the forecast offices' do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from tallgrass.clock import parse_instant
from tallgrass.evidence.grib2_bulletins import HEADINGS_BYTES_MAX, read_headings
from tallgrass.evidence.grib2_grids import grid_of
from tallgrass.evidence.grib2_sections import (
    SECTION_0_BYTES,
    Message,
    reach_the_end,
    read_sections,
)
from tallgrass.evidence.grib2_steps import Valid, interval_s, span_texts, steps_of
from tallgrass.evidence.header import (
    NOT_THE_FORMAT,
    TOO_LONG,
    TOO_SHORT,
    Seen,
    Verdict,
    wrong_start,
)

MAGIC = b"GRIB"
END = b"7777"

#: reserved, discipline, edition, total length
_SECTION_0 = Struct(">4sHBBQ")
_RESERVED = (0, 0xFFFF)
_MISSING = 255
_EDITION = 2
#: Section 0, the shortest section 1, and the end.
_MESSAGE_BYTES_MIN = 16 + 21 + 4
#: Sections 0, 1, 3 and 4 of nearly every message.
_FIRST_BYTES = 320
#: Some makers pad each message to whole words, or end it with a line.
_PADDING, _PADDING_BYTES_MAX = b"\0 \t\r\n", 8
#: A longer file is no forecast; it is not followed to its end.
_MESSAGES_MAX = 100_000
_WIDER_TAIL_BYTES_MAX = 4 * 1024 * 1024


@dataclass(slots=True)
class _Walk:
    """What following the messages yields."""

    #: None where some of them were not seen.
    messages: int | None = 0
    issue: str | None = None
    #: For when the messages are that were seen, but for the first.
    valid: list[Valid] = field(default_factory=list)
    #: Discipline, category and number of what they hold.
    parameters: set[tuple[object, ...]] = field(default_factory=set)


def read_header(seen: Seen, *, place: bool = False) -> Verdict:
    """Return what the first message says, the times of all that are seen, and whether it ends.

    With `place` the file alone tells where and for when it is: the span of its times and, where the
    grid is of a known kind, its parameters, bounding box and, where that is not all, footprint.
    """
    headings = read_headings(seen.head)
    start = seen.head[headings.length :]
    if not start.startswith(MAGIC):
        return {}, (wrong_start(start, MAGIC),)
    if len(start) < _SECTION_0.size:
        return {}, (TOO_SHORT,)
    total = _total_of(start)
    if total is None:
        return {}, (NOT_THE_FORMAT,)
    message = read_sections(start, total)
    walk = _follow(seen)
    # A message that cannot be read is not one whose key is to be believed.
    read = message.sound and "reference_time" in message.header
    if not read and walk.issue != TOO_SHORT:
        walk.issue = NOT_THE_FORMAT
    header: dict[str, object] = {"format": "grib2", "edition": _EDITION, "discipline": start[6]}
    header |= message.header
    header |= {"messages": walk.messages, "complete": walk.issue is None}
    if headings.text is not None:
        header["bulletin"] = headings.text
    if walk.issue is None:
        header |= _times(message, walk.valid, always=place)
        if place:
            header |= _place(message)
            header |= _of_all(message, walk, _parameter(start, message))
    return header, (walk.issue,) if walk.issue else ()


def wider_tail(seen: Seen) -> int:
    """Return how many bytes at the end of a file likely show its last message, where none does.

    Messages of one file are about as long as each other; 0 where the tail need not be wider.
    """
    start = seen.head[read_headings(seen.head).length :]
    total = None if len(start) < _SECTION_0.size else _total_of(start)
    if total is None or total + len(seen.tail) >= seen.size:
        return 0
    return min(total * 5 // 4 + HEADINGS_BYTES_MAX, _WIDER_TAIL_BYTES_MAX, seen.size)


def _times(first: Message, others: list[Valid], *, always: bool) -> dict[str, object]:
    """Return steps and span, where there are several or they are asked for."""
    if first.valid is None:
        return {}
    valid = [first.valid, *others]
    told: dict[str, object] = {}
    if any(each != first.valid for each in others):
        reference = parse_instant(str(first.header["reference_time"]))
        told |= steps_of(reference, valid)
    if always or any(end != first.valid[1] for _, end in others):
        told |= span_texts(valid)
    return told


def _of_all(first: Message, walk: _Walk, parameter: tuple[object, ...] | None) -> dict[str, object]:
    """Return how many messages there are, and the parameter and interval that all of them share."""
    if walk.messages is None:
        return {}
    properties: dict[str, object] = {"grib2:messages": walk.messages}
    if parameter is not None and walk.parameters <= {parameter}:
        properties["grib2:parameter"] = "-".join(map(str, parameter))
    told: dict[str, object] = {"properties": properties}
    if first.valid is not None and walk.messages == len(walk.valid) + 1:
        length_s = interval_s([first.valid, *walk.valid])
        if length_s:
            told["interval_s"] = length_s
    return told


def _parameter(start: bytes, message: Message) -> tuple[object, ...] | None:
    product = message.header.get("product")
    if not isinstance(product, dict):
        return None
    return start[6], product["category"], product["number"]


def _place(first: Message) -> dict[str, object]:
    """Return the grid of the first message with its parameters, and where it lies."""
    grid = grid_of(first.grid)
    if grid is None:
        return {}
    told = first.header["grid"]
    placed: dict[str, object] = {
        "grid": {**(told if isinstance(told, dict) else {}), **grid.told},
        "bbox": grid.bbox,
    }
    if grid.footprint is not None:
        placed["footprint"] = grid.footprint
    return placed


def _total_of(start: bytes) -> int | None:
    """Return the length that section 0 says, or None where it is none."""
    _, reserved, discipline, edition, total = _SECTION_0.unpack_from(start)
    sound = reserved in _RESERVED and discipline != _MISSING and edition == _EDITION
    return total if sound and total >= _MESSAGE_BYTES_MIN else None


def _follow(seen: Seen) -> _Walk:
    """Follow the messages whose start can be seen, from the first on."""
    walk = _Walk()
    position, bulletin_end = 0, 0
    start = seen.at(0, _FIRST_BYTES) or seen.head
    for number in range(_MESSAGES_MAX):
        headings = read_headings(start)
        if headings.length:
            bulletin_end = max(bulletin_end, position + headings.bulletin_end)
            position += headings.length
            start = _look(seen, position, 0) or start[headings.length :]
        walk.issue = _judge_start(start)
        total = None if walk.issue else _total_of(start)
        if total is None:
            walk.issue = walk.issue or NOT_THE_FORMAT
            return walk
        message = read_sections(start, total)
        if number:
            _note(start, message, walk)
        begin, position = position, position + total
        if position > seen.size:
            walk.issue = TOO_SHORT
            return walk
        if not message.sound or not _reaches_its_end(seen, begin, start, total):
            walk.issue = NOT_THE_FORMAT
            return walk
        ahead = _look(seen, position, len(END))
        if ahead is None:
            return _unseen(seen, position, number + 1, walk)
        if not ahead.startswith(END):
            walk.issue = NOT_THE_FORMAT
            return walk
        walk.messages = number + 1
        if position == seen.size:
            walk.issue = TOO_SHORT if bulletin_end > position else None
            return walk
        gap = _padding_before(ahead[len(END) :])
        position += gap
        start = (_look(seen, position, 0) if gap else None) or ahead[len(END) + gap :]
    walk.messages = None
    return walk


def _padding_before(start: bytes) -> int:
    """Return how many blank bytes stand before a message; at the end of a file there are none."""
    message = start.lstrip(_PADDING)
    length = len(start) - len(message)
    begins = bool(message) and MAGIC.startswith(message[: len(MAGIC)])
    return length if begins and length <= _PADDING_BYTES_MAX else 0


def _look(seen: Seen, position: int, before: int) -> bytes | None:
    """Return the first bytes of a message and some before it, as many as can be seen."""
    for length in (_FIRST_BYTES, SECTION_0_BYTES):
        ahead = seen.at(position - before, before + length)
        if ahead is not None:
            return ahead
    return None


def _judge_start(start: bytes) -> str | None:
    if not start.startswith(MAGIC):
        return TOO_SHORT if MAGIC.startswith(start) else TOO_LONG
    return TOO_SHORT if len(start) < _SECTION_0.size else None


def _unseen(seen: Seen, position: int, messages: int, walk: _Walk) -> _Walk:
    """Judge a file whose next message begins between head and tail, by its end."""
    if position == seen.size:
        # The only thing unseen is the end of the last one: the inside of a gzip file.
        walk.messages = messages
        return walk
    end = seen.at(position - len(END), len(END))
    if end is not None and end != END:
        walk.issue = NOT_THE_FORMAT
        return walk
    walk.messages = None
    if not seen.tail.endswith(END):
        walk.issue = TOO_SHORT
        return walk
    for at in _starts_in(seen.tail):
        start = seen.tail[at : at + _FIRST_BYTES]
        total = len(seen.tail) - at
        if len(start) >= SECTION_0_BYTES and _total_of(start) == total:
            message = read_sections(start, total)
            _note(start, message, walk)
            begin = seen.size - total
            if not message.sound or not _reaches_its_end(seen, begin, start, total):
                walk.issue = NOT_THE_FORMAT
            break
    return walk


def _reaches_its_end(seen: Seen, begin: int, start: bytes, total: int) -> bool:
    """Tell whether the sections of a message lead to its end, as far as they can be seen."""

    def look(position: int, length: int) -> bytes | None:
        return seen.at(begin + position, length)

    return reach_the_end(start, total, look)


def _starts_in(tail: bytes) -> Iterator[int]:
    """Yield where messages may begin, the last first."""
    at = tail.rfind(MAGIC)
    while at >= 0:
        yield at
        at = tail.rfind(MAGIC, 0, at)


def _note(start: bytes, message: Message, walk: _Walk) -> None:
    """Remember for when a message is and of what, if its first sections were seen and say so."""
    if message.valid is not None:
        walk.valid.append(message.valid)
    # A message that does not say it is unlike all others.
    walk.parameters.add(_parameter(start, message) or ())
