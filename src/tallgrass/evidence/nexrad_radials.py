"""NEXRAD Level II volumes of which every record is decompressed, and every radial counted.

It takes some 0.3 s a volume, so that it is done only where a dataset asks for it; times, pattern
and place are told without it.
"""

from collections.abc import Iterator

from tallgrass.evidence import nexrad_level2
from tallgrass.evidence.header import NOT_THE_FORMAT, Seen, Verdict
from tallgrass.evidence.nexrad_level2 import VOLUME_HEADER_BYTES
from tallgrass.evidence.nexrad_messages import Radial, radials_of
from tallgrass.evidence.nexrad_span import inside_record, span_of
from tallgrass.evidence.wrapping import GZIP, INFLATED_BYTES_MAX, inflated

_SIZE_BYTES = 4


def read_header(seen: Seen) -> Verdict:
    """Return what the volume header says, and of a whole volume that is near what radials say."""
    header, issues = nexrad_level2.read_header(seen)
    if issues or seen.more is None:
        return header, issues
    try:
        radials = list(_radials(seen, str(header["compression"])))
    except _DamagedRecord:
        return {**header, "complete": False}, (NOT_THE_FORMAT,)
    header["radials"] = len(radials)
    if radials:
        header |= span_of(radials[0], radials[-1])
    return header, issues


class _DamagedRecord(Exception):
    """A record that cannot be decompressed."""


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
        block = inside_record(seen.at(position, length) or b"")
        if block is None:
            raise _DamagedRecord
        yield block
        position += length
