"""HDF5 (NetCDF-4) files: the superblock says where the file must end.

Layout: HDF5 File Format Specification 3.0, section II.A. The superblock stands at byte 0, or after
a user block of 512, 1024 or 2048 bytes. From version 2 on a checksum covers it.
"""

from dataclasses import dataclass

from tallgrass.evidence.header import (
    NOT_THE_FORMAT,
    TOO_LONG,
    TOO_SHORT,
    Seen,
    Verdict,
    wrong_start,
)
from tallgrass.evidence.lookup3 import lookup3

SIGNATURE = b"\x89HDF\r\n\x1a\n"

_PLACES = (0, 512, 1024, 2048)
#: Where the addresses of a superblock stand, counted from its signature.
_ADDRESSES_AT = {0: 24, 1: 28, 2: 12, 3: 12}
_CHECKSUMMED_FROM = 2
#: Version 0 and 1 keep the sizes of addresses and lengths here, later ones at 9.
_SIZES_AT_OLD, _SIZES_AT = 13, 9
_SIZES = (2, 4, 8)
#: A version 3 file that a writer has open, or that a writer left without closing it.
_OPEN_FOR_WRITING = 0x01
_FLAGS_AT = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class _Superblock:
    version: int
    end_of_file: int
    #: Where the root group's object header stands.
    root: int
    sound: bool


def read_header(seen: Seen, *, name: str = "netcdf4") -> Verdict:
    """Return the superblock's version and whether the file ends where it says."""
    head, size = seen.head, seen.size
    place = next((at for at in _PLACES if head.startswith(SIGNATURE, at)), None)
    if place is None:
        return {}, (wrong_start(head, SIGNATURE),)
    block = _superblock(head[place:])
    if block is None:
        # So small a file holds no whole superblock; in a larger one its numbers are impossible.
        return {}, (TOO_SHORT if size < place + 96 else NOT_THE_FORMAT,)
    issues = []
    if not block.sound or not _root_is_there(head, place + block.root, block.version):
        issues.append(NOT_THE_FORMAT)
    elif size < block.end_of_file:
        issues.append(TOO_SHORT)
    elif size > block.end_of_file:
        issues.append(TOO_LONG)
    return {
        "format": name,
        "superblock_version": block.version,
        "end_of_file": block.end_of_file,
        "complete": not issues,
    }, tuple(issues)


def _superblock(data: bytes) -> _Superblock | None:
    """Return what the superblock says, or None where it is cut off or of no known form."""
    if len(data) <= _SIZES_AT_OLD:
        return None
    version = data[8]
    if version not in _ADDRESSES_AT:
        return None
    width = data[_SIZES_AT_OLD if version < _CHECKSUMMED_FROM else _SIZES_AT]
    if width not in _SIZES:
        return None
    start = _ADDRESSES_AT[version]
    addresses = [
        int.from_bytes(data[at : at + width], "little")
        for at in range(start, start + 6 * width, width)
    ]
    if version < _CHECKSUMMED_FROM:
        # Base, free space, end, driver; then the root group's entry: name, object header.
        if len(data) < start + 6 * width:
            return None
        return _Superblock(version=version, end_of_file=addresses[2], root=addresses[5], sound=True)
    # Base, extension, end, root group; then the checksum.
    end = start + 4 * width
    if len(data) < end + 4:
        return None
    stored = int.from_bytes(data[end : end + 4], "little")
    closed = version == _CHECKSUMMED_FROM or not data[_FLAGS_AT] & _OPEN_FOR_WRITING
    sound = closed and stored == lookup3(data[:end])
    return _Superblock(version=version, end_of_file=addresses[2], root=addresses[3], sound=sound)


def _root_is_there(head: bytes, root: int, version: int) -> bool:
    """Tell whether an object header stands where the root group must be, if that can be seen."""
    seen = head[root : root + 4]
    if len(seen) < len(b"OHDR"):
        return True
    if seen == b"OHDR":
        return True
    # Old object headers begin with version 1 and a zero byte; new files do not use them.
    return version < _CHECKSUMMED_FROM and seen[:2] == b"\x01\x00"
