"""The messages of a radar volume: how long each is, and the radials among them.

Layout: ICD 2620002. Before each message stand 12 bytes of the communication manager. A message is
stored in a block of fixed length, but for radials of today's form (31), which are as long as they
say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct

FIXED_MESSAGE_BYTES = 2432

_MANAGER_BYTES = 12
#: length in half-words, channel, type
_START = Struct(">HBB")
_HEADER_BYTES = 16
_RADIAL_OLD, _RADIAL = 1, 31
#: milliseconds of the day, day
_OLD_TIME = Struct(">IH")
#: site, milliseconds of the day, day
_TIME = Struct(">4sIH")
#: where the block about the volume begins, counted from the radial's own begin
_VOLUME_BLOCK_AT = Struct(">I")
_POINTERS_AT = 32
#: name, latitude, longitude, pattern
_VOLUME_BLOCK = Struct(">4s4xff24xH")
_VOLUME_NAME = b"RVOL"
_DAY_ZERO = datetime(1969, 12, 31, tzinfo=UTC)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Radial:
    """One radial's time, and what it says of the radar, if anything."""

    time: datetime
    latitude: float | None = None
    longitude: float | None = None
    pattern: int | None = None


def messages_end(data: bytes, position: int) -> int:
    """Return where the last of the messages ends; beyond the data where it is cut off."""
    while position < len(data):
        length = _length_at(data, position)
        if length is None:
            return len(data) + 1
        position += length
    return position


def radials_of(data: bytes, position: int = 0) -> Iterator[Radial]:
    """Yield the radials among the messages that begin at a position."""
    while position < len(data):
        length = _length_at(data, position)
        if length is None or position + length > len(data):
            return
        kind = data[position + _MANAGER_BYTES + 3]
        body = position + _MANAGER_BYTES + _HEADER_BYTES
        if kind == _RADIAL:
            yield _radial(data, body, position + length)
        elif kind == _RADIAL_OLD:
            milliseconds, day = _OLD_TIME.unpack_from(data, body)
            if day and milliseconds < _DAY_MS:
                yield Radial(time=_instant(day, milliseconds))
        position += length


def _length_at(data: bytes, position: int) -> int | None:
    """Return how many bytes the message at a position takes; None where it is cut off."""
    at = position + _MANAGER_BYTES
    if at + _HEADER_BYTES > len(data):
        return None
    half_words, _, kind = _START.unpack_from(data, at)
    return _MANAGER_BYTES + 2 * half_words if kind == _RADIAL else FIXED_MESSAGE_BYTES


def _radial(data: bytes, body: int, end: int) -> Radial:
    _, milliseconds, day = _TIME.unpack_from(data, body)
    time = _instant(day, milliseconds)
    pointer = body + _POINTERS_AT
    if pointer + _VOLUME_BLOCK_AT.size <= end:
        block = body + _VOLUME_BLOCK_AT.unpack_from(data, pointer)[0]
        if block + _VOLUME_BLOCK.size <= end and data.startswith(_VOLUME_NAME, block):
            _, latitude, longitude, pattern = _VOLUME_BLOCK.unpack_from(data, block)
            return Radial(time=time, latitude=latitude, longitude=longitude, pattern=pattern)
    return Radial(time=time)


def _instant(day: int, milliseconds: int) -> datetime:
    return _DAY_ZERO + timedelta(days=day, milliseconds=milliseconds)
