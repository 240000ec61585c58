"""Small NEXRAD Level II volumes: volume header, a record of metadata, records of radials.

Layout: ICD 2620010 and 2620002. Real volumes hold some 6,000 radials; these hold a few, without
moments, and so compress to short records.
"""

import bz2
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from struct import pack

from tallgrass.evidence.nexrad_messages import FIXED_MESSAGE_BYTES

_DAY_ZERO = datetime(1969, 12, 31, tzinfo=UTC)
_CLEAR_AIR_PATTERN = 35
_RADIALS_A_RECORD = 6
#: Status of a radial: start of a volume, within, end of a volume.
_FIRST, _MIDDLE, _LAST = 3, 1, 4
_RADIAL_EVERY = timedelta(milliseconds=65)


def nexrad_volume(
    *, site: str, start: datetime, volume_number: int, records: int, random: Random
) -> bytes:
    """Return a complete volume with so many records of radials after the metadata."""
    day, milliseconds = _day_and_time(start)
    header = pack(
        ">9s3sII4s", b"AR2V0006.", b"%03d" % volume_number, day, milliseconds, site.encode()
    )
    blocks = [_metadata(start)]
    total = records * _RADIALS_A_RECORD
    for record in range(records):
        numbers = range(record * _RADIALS_A_RECORD, (record + 1) * _RADIALS_A_RECORD)
        blocks.append(b"".join(_radials(site, start, numbers, total, random)))
    return header + b"".join(
        _record(block, last=number == records) for number, block in enumerate(blocks)
    )


def _record(messages: bytes, *, last: bool) -> bytes:
    """Return an LDM record; the size of the last one is negative."""
    # Level 1: the blocks are tiny, and level 9 takes three times as long for the same bytes.
    block = bz2.compress(messages, 1)
    return pack(">i", -len(block) if last else len(block)) + block


def _metadata(start: datetime) -> bytes:
    """Return an RDA status (2) and a volume coverage pattern (5), in messages of fixed length."""
    status = pack(">HH", 16, 2) + bytes(76)
    pattern = pack(">HHH", 11, 2, _CLEAR_AIR_PATTERN) + bytes(16)
    return b"".join(
        _message(kind, number, start, body).ljust(FIXED_MESSAGE_BYTES, b"\x00")
        for number, (kind, body) in enumerate(((2, status), (5, pattern)), start=1)
    )


def _radials(
    site: str, start: datetime, numbers: Iterable[int], total: int, random: Random
) -> Iterable[bytes]:
    for number in numbers:
        time = start + number * _RADIAL_EVERY
        day, milliseconds = _day_and_time(time)
        status = _FIRST if number == 0 else _LAST if number == total - 1 else _MIDDLE
        azimuth = (number * 0.5 + random.randrange(100) / 1000) % 360
        body = pack(
            ">4sIHHfBBHBBBBfBbH",
            site.encode(),
            milliseconds,
            day,
            number + 1,
            azimuth,
            0,
            0,
            32,
            1,
            status,
            1,
            0,
            0.5,
            0,
            0,
            0,
        )
        yield _message(31, number + 1, time, body)


def _message(kind: int, number: int, time: datetime, body: bytes) -> bytes:
    """Return a message of one segment behind the 12 bytes of the communication manager."""
    day, milliseconds = _day_and_time(time)
    half_words = (16 + len(body)) // 2
    return (
        bytes(12) + pack(">HBBHHIHH", half_words, 8, kind, number, day, milliseconds, 1, 1) + body
    )


def _day_and_time(instant: datetime) -> tuple[int, int]:
    days, rest = divmod(instant - _DAY_ZERO, timedelta(days=1))
    return days, rest // timedelta(milliseconds=1)
