"""The messages of a radar volume: how long each is, and the radials among them.

Layout: ICD 2620002. Before each message stand 12 bytes of the communication manager. A message is
stored in a block of fixed length, but for radials of today's form (31), which are as long as they
say.
"""

from collections.abc import Iterable, Iterator
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
#: name, latitude, longitude, height of the ground and of the feedhorn above it, pattern
_VOLUME_BLOCK = Struct(">4s4xffhH20xH")
_VOLUME_NAME = b"RVOL"
_DAY_ZERO = datetime(1969, 12, 31, tzinfo=UTC)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Radial:
    """One radial's time, and what it says of the radar, if anything."""

    time: datetime
    latitude: float | None = None
    longitude: float | None = None
    #: Metres above the sea, where the antenna is.
    elevation_m: int | None = None
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
    """Return the radials among the messages that begin at a position."""
    return _sound(data, _radials_at(data, position))


def first_and_last(data: bytes, position: int = 0) -> tuple[Radial | None, Radial | None]:
    """Return the first and the last radial among the messages; only those two are looked into."""
    places = list(_radials_at(data, position))
    first = next(_sound(data, places), None)
    return first, next(_sound(data, reversed(places)), None)


def _sound(data: bytes, places: Iterable[tuple[int, int, int]]) -> Iterator[Radial]:
    for kind, at, end in places:
        radial = _radial(data, kind, at, end)
        if radial is not None:
            yield radial


def _radials_at(data: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield kind, begin and end of the body of each radial."""
    while position < len(data):
        length = _length_at(data, position)
        if length is None or position + length > len(data):
            return
        kind = data[position + _MANAGER_BYTES + 3]
        if kind in {_RADIAL, _RADIAL_OLD}:
            yield kind, position + _MANAGER_BYTES + _HEADER_BYTES, position + length
        position += length


def _length_at(data: bytes, position: int) -> int | None:
    """Return how many bytes the message at a position takes; None where it is cut off."""
    at = position + _MANAGER_BYTES
    if at + _HEADER_BYTES > len(data):
        return None
    half_words, _, kind = _START.unpack_from(data, at)
    return _MANAGER_BYTES + 2 * half_words if kind == _RADIAL else FIXED_MESSAGE_BYTES


def _radial(data: bytes, kind: int, body: int, end: int) -> Radial | None:
    """Return the radial whose body stands there; None where its time cannot be."""
    if kind == _RADIAL_OLD:
        milliseconds, day = _OLD_TIME.unpack_from(data, body)
        return Radial(time=_instant(day, milliseconds)) if _can_be(day, milliseconds) else None
    if body + _TIME.size > end:
        return None
    _, milliseconds, day = _TIME.unpack_from(data, body)
    if not _can_be(day, milliseconds):
        return None
    time = _instant(day, milliseconds)
    pointer = body + _POINTERS_AT
    if pointer + _VOLUME_BLOCK_AT.size <= end:
        block = body + _VOLUME_BLOCK_AT.unpack_from(data, pointer)[0]
        if block + _VOLUME_BLOCK.size <= end and data.startswith(_VOLUME_NAME, block):
            _, latitude, longitude, ground, feed, pattern = _VOLUME_BLOCK.unpack_from(data, block)
            return Radial(
                time=time,
                latitude=latitude,
                longitude=longitude,
                elevation_m=ground + feed,
                pattern=pattern,
            )
    return Radial(time=time)


def _can_be(day: int, milliseconds: int) -> bool:
    return day > 0 and milliseconds < _DAY_MS


def _instant(day: int, milliseconds: int) -> datetime:
    return _DAY_ZERO + timedelta(days=day, milliseconds=milliseconds)
