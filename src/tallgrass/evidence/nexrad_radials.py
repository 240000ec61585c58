"""NEXRAD Level II volumes, with what their radials say: first and last time, pattern, place.

Every record is decompressed for it, some 0.3 s a volume, so that it is done only where a dataset
asks for it.
"""

import bz2
from collections.abc import Iterator

from tallgrass.clock import format_instant
from tallgrass.evidence import nexrad_level2
from tallgrass.evidence.header import NOT_THE_FORMAT, Seen, Verdict
from tallgrass.evidence.nexrad_level2 import VOLUME_HEADER_BYTES
from tallgrass.evidence.nexrad_messages import Radial, radials_of
from tallgrass.evidence.wrapping import GZIP, INFLATED_BYTES_MAX, inflated

_SIZE_BYTES = 4
_DIGITS = 4


def read_header(seen: Seen) -> Verdict:
    """Return what the volume header says, and of a whole volume that is near what radials say."""
    header, issues = nexrad_level2.read_header(seen)
    if issues or seen.more is None:
        return header, issues
    try:
        header |= _told(list(_radials(seen, str(header["compression"]))))
    except (OSError, EOFError):
        return {**header, "complete": False}, (NOT_THE_FORMAT,)
    return header, issues


def _told(radials: list[Radial]) -> dict[str, object]:
    told: dict[str, object] = {"radials": len(radials)}
    if not radials:
        return told
    first, last = radials[0], radials[-1]
    told |= {"start": format_instant(first.time), "end": format_instant(last.time)}
    if first.latitude is not None and first.longitude is not None:
        told["latitude"] = round(first.latitude, _DIGITS)
        told["longitude"] = round(first.longitude, _DIGITS)
        told["pattern"] = first.pattern
    return told


def _radials(seen: Seen, compression: str) -> Iterator[Radial]:
    if compression == "bzip2":
        for block in _blocks(seen):
            yield from radials_of(block)
        return
    content = seen.content(INFLATED_BYTES_MAX) or b""
    if content.startswith(GZIP):
        content, _ = inflated(seen)
    yield from radials_of(content, VOLUME_HEADER_BYTES)


def _blocks(seen: Seen) -> Iterator[bytes]:
    """Yield what is in each record."""
    position = VOLUME_HEADER_BYTES
    while position + _SIZE_BYTES < seen.size:
        start = seen.at(position, _SIZE_BYTES) or b""
        length = abs(int.from_bytes(start, "big", signed=True))
        position += _SIZE_BYTES
        yield bz2.decompress(seen.at(position, length) or b"")
        position += length
