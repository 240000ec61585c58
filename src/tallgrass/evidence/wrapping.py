"""gzip and bzip2 around a file: what of the file inside can be seen, and whether the wrapping ends.

The last four bytes of a gzip file are the length of what is inside, so that a reader can hold it
against what the file inside says of itself: a cut or an addition moves them. Only where the two do
not fit is the file read to its end, if it is near. bzip2 tells no length; it ends with a mark.
"""

import bz2
import zlib
from dataclasses import dataclass

from tallgrass.evidence.header import TOO_LONG, TOO_SHORT, Ranges, Seen

GZIP = b"\x1f\x8b\x08"
GZIP_BYTES_MIN = 18
BZIP2 = b"BZh"
#: No file of a dataset is longer inside; what is, is not read to its end.
INFLATED_BYTES_MAX = 512 * 1024 * 1024

_BLOCK = b"1AY&SY"
_FIRST_BYTES = 4096
#: The last 80 bits of a bzip2 file, before up to 7 bits of padding, begin with this number.
_BZIP2_END = 0x177245385090
_BZIP2_END_BYTES = 11
#: A bzip2 file is decompressed whole up to here, 20 ms; of a longer one the end is looked at.
_BZIP2_WHOLE_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The file inside, as far as it can be seen."""

    compression: str
    seen: Seen
    #: What is wrong with the wrapping itself.
    issue: str | None = None
    #: Whether the size inside is known.
    sized: bool = True


def unwrap(seen: Seen) -> Inside | None:
    """Return the file inside, or None where nothing is wrapped around it."""
    if seen.head.startswith(GZIP):
        return _gunzip(seen)
    if seen.head.startswith(BZIP2) and seen.head.startswith(_BLOCK, 4):
        return _bunzip2(seen)
    return None


def unwrap_whole(seen: Seen) -> Inside:
    """Return the file inside a gzip file, read to its end; an issue where it has none."""
    content, issue = inflated(seen)
    inner = Seen(content[:_FIRST_BYTES], content[-_FIRST_BYTES:], len(content), _ranges(content))
    return Inside(compression="gzip", seen=inner, issue=issue)


def _ranges(content: bytes) -> Ranges:
    return lambda position, length: content[position : position + length]


def _gunzip(seen: Seen) -> Inside:
    start = first_inflated(seen.head, _FIRST_BYTES) or b""
    inner = Seen(start, b"", inflated_size(seen.tail))
    issue = TOO_SHORT if seen.size < GZIP_BYTES_MIN else None
    return Inside(compression="gzip", seen=inner, issue=issue)


def _bunzip2(seen: Seen) -> Inside:
    """Look inside: a file of which everything can be seen is decompressed, if it is short."""
    content = seen.content(_BZIP2_WHOLE_BYTES_MAX)
    ended = ends_a_block(seen.tail)
    if content is None:
        return Inside(
            compression="bzip2",
            seen=Seen(_first_of_bzip2(seen.head), b"", 0),
            issue=None if ended else TOO_SHORT,
            sized=False,
        )
    decompressor = bz2.BZ2Decompressor()
    try:
        data = decompressor.decompress(content, INFLATED_BYTES_MAX)
    except OSError:
        data = b""
    issue = TOO_LONG if decompressor.unused_data else None
    issue = issue if decompressor.eof else TOO_SHORT
    inner = Seen(data[:_FIRST_BYTES], data[-_FIRST_BYTES:], len(data), _ranges(data))
    return Inside(compression="bzip2", seen=inner, issue=issue)


def _first_of_bzip2(head: bytes) -> bytes:
    try:
        return bz2.BZ2Decompressor().decompress(head, _FIRST_BYTES)
    except OSError:
        return b""


def ends_a_block(tail: bytes) -> bool:
    """Tell whether the bytes end where a bzip2 file ends."""
    end = int.from_bytes(tail[-_BZIP2_END_BYTES:], "big")
    return any((end >> 32 + padding) & (1 << 48) - 1 == _BZIP2_END for padding in range(8))


def first_inflated(head: bytes, length: int) -> bytes | None:
    """Return the first bytes inside a gzip file, or None where it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, length)
    except zlib.error:
        return None


def inflated_size(tail: bytes) -> int:
    """Return the length, modulo 2**32, that the end of a gzip file tells."""
    return int.from_bytes(tail[-4:], "little")


def inflated(seen: Seen) -> tuple[bytes, str | None]:
    """Return what is inside a gzip file, as far as it goes, and what is wrong with its end."""
    content = seen.content(INFLATED_BYTES_MAX)
    if content is None:
        return b"", TOO_SHORT
    inflater = zlib.decompressobj(wbits=31)
    try:
        data = inflater.decompress(content, INFLATED_BYTES_MAX)
    except zlib.error:
        return b"", TOO_SHORT
    if not inflater.eof:
        return data, TOO_SHORT
    return data, TOO_LONG if inflater.unused_data else None
