"""NEXRAD Level II chunks: one LDM record of a volume that is still being scanned.

The first chunk of a volume (S) begins with the volume header; the size of the last one (E) is
negative; those between are I. So the key's last letter can be read in the object too. The record is
decompressed (3 to 8 ms): only its radials say when the chunk was scanned.
"""

from tallgrass.evidence.header import (
    NOT_THE_FORMAT,
    TOO_LONG,
    TOO_SHORT,
    Seen,
    Verdict,
)
from tallgrass.evidence.nexrad_level2 import VOLUME_HEADER_BYTES, record_size, volume_header
from tallgrass.evidence.nexrad_messages import first_and_last
from tallgrass.evidence.nexrad_span import inside_record, span_of
from tallgrass.evidence.wrapping import ends_a_block

_VOLUME = b"AR2V00"
_SIZE_BYTES = 4
_RECORD_START_BYTES = 14
_BLOCK = b"1AY&SY"
#: No record is longer; a larger number is none.
_RECORD_BYTES_MAX = 64 * 1024 * 1024


def read_header(seen: Seen) -> Verdict:
    """Return which part of a volume the chunk is, and whether its record ends where it says."""
    head = seen.head
    position = 0
    header: dict[str, object] = {"format": "nexrad-chunk"}
    part = "I"
    if head.startswith(_VOLUME) or _VOLUME.startswith(head):
        told, _ = volume_header(head)
        if told is None:
            return {}, (TOO_SHORT if len(head) < VOLUME_HEADER_BYTES else NOT_THE_FORMAT,)
        header |= {**told, "format": "nexrad-chunk"}
        position, part = VOLUME_HEADER_BYTES, "S"
    start = head[position : position + _RECORD_START_BYTES]
    if len(start) < _RECORD_START_BYTES:
        return {}, (TOO_SHORT,)
    length = record_size(start)
    sound = length is not None and start.endswith(_BLOCK) and abs(length) < _RECORD_BYTES_MAX
    if length is None or not sound:
        return {}, (NOT_THE_FORMAT,)
    if part == "I" and length < 0:
        part = "E"
    issue = _judge(seen, position + _SIZE_BYTES + abs(length))
    header |= {"part": part, "compression": "bzip2", "complete": issue is None}
    if issue is None:
        issue = _look_inside(seen.at(position + _SIZE_BYTES, abs(length)), header)
    return header, (issue,) if issue else ()


def _look_inside(block: bytes | None, header: dict[str, object]) -> str | None:
    """Put what the radials say into the header; return the issue of a record that has none."""
    if block is None:
        return None
    data = inside_record(block)
    if data is None:
        header["complete"] = False
        return NOT_THE_FORMAT
    header |= span_of(*first_and_last(data), header.get("volume_time"))
    return None


def _judge(seen: Seen, end: int) -> str | None:
    if seen.size != end:
        return TOO_SHORT if seen.size < end else TOO_LONG
    return None if ends_a_block(seen.tail) else NOT_THE_FORMAT
