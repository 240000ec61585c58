"""NEXRAD Level II archive files (Archive II): the volume header, and where the records end.

Layout: ICD 2620010 for the header, 2620002 for the messages. A volume header of 24 bytes is
followed by LDM records, each a signed size and a bzip2 block; the size of the last one is negative.
Before 2016 whole files were gzipped, with plain messages inside. Sizes are followed, and of the
records only those are decompressed that hold the metadata (1 to 2 ms), the first and the last
radial; of a gzip file the first bytes, and all of it where it is near.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from struct import Struct

from tallgrass.clock import format_instant
from tallgrass.evidence.header import (
    NOT_THE_FORMAT,
    TOO_LONG,
    TOO_SHORT,
    Seen,
    Verdict,
    wrong_start,
)
from tallgrass.evidence.nexrad_messages import FIXED_MESSAGE_BYTES, first_and_last, messages_end
from tallgrass.evidence.nexrad_span import begins_on_a_second, inside_record, span_of
from tallgrass.evidence.wrapping import (
    GZIP,
    GZIP_BYTES_MIN,
    INFLATED_BYTES_MAX,
    ends_a_block,
    first_inflated,
    inflated,
    inflated_size,
)

VOLUME_HEADER_BYTES = 24

_MAGICS = (b"AR2V00", b"ARCHIVE2.")
#: A gzip file of so many bytes shows at least the volume header.
_GZIP_SHOWS_HEADER = 1024
_START = re.compile(rb"(AR2V00(\d\d)|ARCHIVE2)[.](\d{3})")
_SITE = re.compile(rb"[A-Z][A-Z0-9]{3}|[ \x00]{4}")
_DAY_AND_TIME = Struct(">II")
_SIZE = Struct(">i")
_DAY_ZERO = datetime(1969, 12, 31, tzinfo=UTC)
_DAYS_MAX = 65_535
_DAY_MS = 86_400_000

_BZIP2 = b"BZh"
#: How a bzip2 file begins: mark, hundreds of kB that a block holds, mark of the first block.
_BLOCK_START = re.compile(rb"BZh[1-9]1AY&SY")
_BLOCK_START_BYTES = 10
#: The communication manager's bytes, and a message as far as its type.
_MESSAGE_START = 16
_MESSAGE_TYPE_MAX = 33
#: Files before message 31 hold messages of the fixed form only.
_FIXED_FORM = (None, 1)
#: Metadata have 2 to 13 kB, a record of radials up to 125: so many bytes hold the first radial.
_FIRST_RADIALS_BYTES = 160 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """How the records of a volume end, and where its last one is, if that can be seen."""

    #: None: they end well, but whether the last one is there cannot be seen.
    complete: bool | None = False
    issue: str | None = None
    last_at: int = 0
    last_length: int = 0


def read_header(seen: Seen) -> Verdict:
    """Return site, volume and time of a volume, and whether its last record is there."""
    head, size = seen.head, seen.size
    if head.startswith(GZIP):
        return _read_gzip(seen)
    header, version = volume_header(head)
    if header is None:
        return {}, (_why_none(head),)
    if size < VOLUME_HEADER_BYTES + 4:
        return {**header, "compression": None, "complete": False}, (TOO_SHORT,)
    after = head[VOLUME_HEADER_BYTES + 4 : VOLUME_HEADER_BYTES + 4 + len(_BZIP2)]
    if after and _BZIP2.startswith(after):
        return _read_records(seen, header)
    complete, issue = _judge_plain(seen, version)
    header |= {"compression": "none", "complete": complete}
    if complete and seen.more is not None:
        header |= _span_in(seen.content(INFLATED_BYTES_MAX) or b"", header)
    return header, (issue,) if issue else ()


def wider_head(seen: Seen, header: Mapping[str, object]) -> int:
    """Return how many first bytes would hold the first radial; 0 where it is not asked for."""
    records = header.get("compression") == "bzip2" and header.get("complete")
    if not records or "start" in header or seen.more is not None:
        return 0
    if not begins_on_a_second(header["volume_time"]):
        return 0
    wanted = min(_FIRST_RADIALS_BYTES, seen.size)
    return wanted if wanted > len(seen.head) else 0


def volume_header(start: bytes) -> tuple[dict[str, object] | None, int | None]:
    """Return what the volume header says, and its version; None where it is none."""
    match = _START.match(start)
    if match is None or len(start) < VOLUME_HEADER_BYTES:
        return None, None
    day, milliseconds = _DAY_AND_TIME.unpack_from(start, 12)
    site = start[20:24]
    if not 0 < day <= _DAYS_MAX or milliseconds >= _DAY_MS or not _SITE.fullmatch(site):
        return None, None
    version = None if match[2] is None else int(match[2])
    return {
        "format": "nexrad-level2",
        "version": match[1].decode(),
        "volume_number": int(match[3]),
        "volume_time": format_instant(_DAY_ZERO + timedelta(days=day, milliseconds=milliseconds)),
        "site": site.strip(b" \x00").decode() or None,
    }, version


def _why_none(start: bytes) -> str:
    if _START.match(start):
        return TOO_SHORT if len(start) < VOLUME_HEADER_BYTES else NOT_THE_FORMAT
    if len(start) < len(b"AR2V0006.001") and start.startswith(_MAGICS):
        return TOO_SHORT
    return wrong_start(start, *_MAGICS, GZIP)


def _read_records(seen: Seen, header: dict[str, object]) -> Verdict:
    """Follow the records to the last one, and look into those that tell when it was scanned."""
    found = _follow_records(seen)
    header |= {"compression": "bzip2", "complete": found.complete}
    if found.issue is not None:
        return header, (found.issue,)
    if not found.last_length:
        return header, ()
    data = inside_record(seen.at(found.last_at, found.last_length) or b"")
    metadata_end, metadata = _record_at(seen, VOLUME_HEADER_BYTES)
    radials: bytes | None = b""
    if begins_on_a_second(header["volume_time"]):
        _, radials = _record_at(seen, metadata_end)
    if data is None or metadata is None or radials is None:
        return {**header, "complete": False}, (NOT_THE_FORMAT,)
    first, _ = first_and_last(radials)
    header |= span_of(first, first_and_last(data)[1], header["volume_time"])
    return header, ()


def _record_at(seen: Seen, position: int) -> tuple[int, bytes | None]:
    """Return where a record ends, and its messages: none where it is unseen, None if damaged."""
    start = seen.at(position, _SIZE.size + _BLOCK_START_BYTES)
    length = abs(record_size(start) or 0) if start and len(start) > _SIZE.size else 0
    block = seen.at(position + _SIZE.size, length) if length else None
    return position + _SIZE.size + length, b"" if block is None else inside_record(block)


def _span_in(content: bytes, header: Mapping[str, object]) -> dict[str, object]:
    return span_of(*first_and_last(content, VOLUME_HEADER_BYTES), header["volume_time"])


def _follow_records(seen: Seen) -> _Records:
    """Follow the sizes that can be seen; return whether the volume is complete, and the issue."""
    position, size = VOLUME_HEADER_BYTES, seen.size
    while position + _SIZE.size <= size:
        start = seen.at(position, _SIZE.size + _BLOCK_START_BYTES)
        if start is None:
            return _last_record(seen) if ends_a_block(seen.tail) else _Records(issue=TOO_SHORT)
        length = record_size(start)
        if length is None:
            return _Records(issue=NOT_THE_FORMAT)
        at, position = position + _SIZE.size, position + _SIZE.size + abs(length)
        if position > size:
            return _Records(issue=TOO_SHORT)
        if length < 0 and position < size:
            return _Records(issue=TOO_LONG)
        if length < 0:
            return _Records(complete=True, last_at=at, last_length=-length)
    # Every record was seen, and none says that it is the last.
    return _Records(issue=TOO_SHORT)


def record_size(start: bytes) -> int | None:
    """Return the signed size that an LDM record begins with, or None where it is none."""
    (length,) = _SIZE.unpack_from(start)
    block = start[_SIZE.size : _SIZE.size + _BLOCK_START_BYTES]
    # A cut may leave less of it, which is then held against any such start.
    whole = block + b"BZh91AY&SY"[len(block) :]
    return int(length) if length and _BLOCK_START.fullmatch(whole) else None


def _last_record(seen: Seen) -> _Records:
    """Find the record that ends the file by its size, if it is a short one."""
    tail = seen.tail
    at = tail.rfind(_BZIP2)
    while at >= _SIZE.size:
        (length,) = _SIZE.unpack_from(tail, at - _SIZE.size)
        if abs(length) == len(tail) - at:
            if length > 0:
                return _Records(issue=TOO_SHORT)
            return _Records(complete=True, last_at=seen.size + length, last_length=-length)
        at = tail.rfind(_BZIP2, 0, at)
    return _Records(complete=None)


def _judge_plain(seen: Seen, version: int | None) -> tuple[bool | None, str | None]:
    """Judge messages that are not compressed: all of one length in old files."""
    first = seen.head[VOLUME_HEADER_BYTES : VOLUME_HEADER_BYTES + _MESSAGE_START]
    if len(first) < _MESSAGE_START:
        return False, TOO_SHORT
    # After the communication manager's 12 bytes: length in half-words, channel, type of message.
    if not any(first[12:14]) or not 0 < first[15] <= _MESSAGE_TYPE_MAX:
        return False, NOT_THE_FORMAT
    if version not in _FIXED_FORM:
        content = seen.content(INFLATED_BYTES_MAX)
        if seen.more is None or content is None:
            return None, None
        whole = messages_end(content, VOLUME_HEADER_BYTES) == len(content)
        return (True, None) if whole else (False, TOO_SHORT)
    whole = (seen.size - VOLUME_HEADER_BYTES) % FIXED_MESSAGE_BYTES == 0
    return (True, None) if whole else (False, TOO_SHORT)


def _read_gzip(seen: Seen) -> Verdict:
    """Look at the volume header inside, and at the length that the last four bytes tell."""
    start = first_inflated(seen.head, 64)
    if start is None:
        return {}, (NOT_THE_FORMAT,)
    header, version = volume_header(start)
    if header is None:
        cut = seen.size < _GZIP_SHOWS_HEADER and _why_none(start) == TOO_SHORT
        return {}, (TOO_SHORT if cut else NOT_THE_FORMAT,)
    complete, issue, content = None, None, b""
    if seen.size < GZIP_BYTES_MIN:
        complete, issue = False, TOO_SHORT
    elif version in _FIXED_FORM:
        inside = inflated_size(seen.tail)
        complete = (inside - VOLUME_HEADER_BYTES) % FIXED_MESSAGE_BYTES == 0
        issue = None if complete else TOO_SHORT
    if seen.more is not None and issue is None:
        # Files of 2008 to 2016 have nothing at their end that could be checked, and no gzip file
        # tells its radials before it is read: some 25 ms.
        content, issue = inflated(seen)
        complete = issue is None
    header |= {"compression": "gzip", "complete": complete}
    if complete and content:
        header |= _span_in(content, header)
    return header, (issue,) if issue else ()
