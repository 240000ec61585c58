"""NEXRAD Level II archive files (Archive II): the volume header, and where the records end.

Layout: ICD 2620010 for the header, 2620002 for the messages. A volume header of 24 bytes is
followed by LDM records, each a signed size and a bzip2 block; the size of the last one is negative.
Before 2016 whole files were gzipped, with plain messages inside. Only sizes are followed: nothing
but the first bytes of a gzip file is decompressed, unless its end cannot tell and all of it is
near.
"""

import re
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
from tallgrass.evidence.nexrad_messages import FIXED_MESSAGE_BYTES, messages_end
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
#: The communication manager's bytes, and a message as far as its type.
_MESSAGE_START = 16
_MESSAGE_TYPE_MAX = 33
#: Files before message 31 hold messages of the fixed form only.
_FIXED_FORM = (None, 1)


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
        complete, issue = _follow_records(seen)
        compression = "bzip2"
    else:
        complete, issue = _judge_plain(seen, version)
        compression = "none"
    header |= {"compression": compression, "complete": complete}
    return header, (issue,) if issue else ()


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


def _follow_records(seen: Seen) -> tuple[bool | None, str | None]:
    """Follow the sizes that can be seen; return whether the volume is complete, and the issue.

    None: the end is the end of a record, but whether it is the last one cannot be seen.
    """
    position, size = VOLUME_HEADER_BYTES, seen.size
    while position + _SIZE.size <= size:
        start = seen.at(position, _SIZE.size + len(_BZIP2))
        if start is None:
            return _last_record(seen.tail) if ends_a_block(seen.tail) else (False, TOO_SHORT)
        length = record_size(start)
        if length is None:
            return False, NOT_THE_FORMAT
        position += _SIZE.size + abs(length)
        if position > size:
            return False, TOO_SHORT
        if length < 0:
            return (True, None) if position == size else (False, TOO_LONG)
    # Every record was seen, and none says that it is the last.
    return False, TOO_SHORT


def record_size(start: bytes) -> int | None:
    """Return the signed size that an LDM record begins with, or None where it is none."""
    (length,) = _SIZE.unpack_from(start)
    block = start[_SIZE.size : _SIZE.size + len(_BZIP2)]
    if length == 0 or not _BZIP2.startswith(block):
        return None
    return int(length)


def _last_record(tail: bytes) -> tuple[bool | None, str | None]:
    """Find the size of the record that ends the file, if it is a short one."""
    at = tail.rfind(_BZIP2)
    while at >= _SIZE.size:
        (length,) = _SIZE.unpack_from(tail, at - _SIZE.size)
        if abs(length) == len(tail) - at:
            return (True, None) if length < 0 else (False, TOO_SHORT)
        at = tail.rfind(_BZIP2, 0, at)
    return None, None


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
    complete, issue = None, None
    if seen.size < GZIP_BYTES_MIN:
        complete, issue = False, TOO_SHORT
    elif version in _FIXED_FORM:
        inside = inflated_size(seen.tail)
        complete = (inside - VOLUME_HEADER_BYTES) % FIXED_MESSAGE_BYTES == 0
        issue = None if complete else TOO_SHORT
    elif seen.more is not None:
        # Nothing at its end can be checked, so it is read to there: files of 2008 to 2016.
        _, issue = inflated(seen)
        complete = issue is None
    header |= {"compression": "gzip", "complete": complete}
    return header, (issue,) if issue else ()
