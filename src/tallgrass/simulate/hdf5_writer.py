"""Small HDF5 files: a superblock, a root group with text attributes, and one array of bytes.

Layout: HDF5 File Format Specification 3.0 (superblock 2, object headers 2). h5py opens them.
"""

from collections.abc import Mapping
from struct import pack

from tallgrass.evidence.hdf5 import SIGNATURE
from tallgrass.evidence.lookup3 import lookup3

ARRAY_NAME = "event_energy"

_UNDEFINED = b"\xff" * 8
_SUPERBLOCK_BYTES = 48
#: Object header 2 with a size of two bytes for its only chunk.
_OBJECT_HEADER = b"OHDR\x02\x01"
#: Unsigned, little-endian, 8 bits in one byte.
_BYTE_TYPE = pack("<B3sIHH", 0x10, bytes(3), 1, 0, 8)
_SCALAR = b"\x02\x00\x00\x00"


def hdf5_file(attributes: Mapping[str, str], array: bytes) -> bytes:
    """Return a file with these attributes on its root group and this array in it."""
    attached = b"".join(_attribute(name, value) for name, value in attributes.items())
    array_header_at = _SUPERBLOCK_BYTES + _ROOT_BYTES + len(attached)
    data_at = array_header_at + _ARRAY_HEADER_BYTES
    end = data_at + len(array)
    superblock = SIGNATURE + b"\x02\x08\x08\x00" + pack("<Q", 0) + _UNDEFINED
    superblock += pack("<QQ", end, _SUPERBLOCK_BYTES)
    return b"".join(
        (
            _checked(superblock),
            _root(attached, array_header_at),
            _array_header(len(array), data_at),
            array,
        )
    )


def _root(attributes: bytes, array_header_at: int) -> bytes:
    name = ARRAY_NAME.encode()
    link = b"\x01\x00" + bytes([len(name)]) + name + pack("<Q", array_header_at)
    # Link info and group info: links stand in this header, in no order.
    about_links = _message(0x02, b"\x00\x00" + _UNDEFINED + _UNDEFINED)
    return _object_header(
        about_links + _message(0x0A, b"\x00\x00") + _message(0x06, link) + attributes
    )


def _array_header(length: int, data_at: int) -> bytes:
    return _object_header(
        _message(0x01, b"\x02\x01\x00\x01" + pack("<Q", length))
        + _message(0x03, _BYTE_TYPE)
        # Fill value: allocated early, none defined.
        + _message(0x05, b"\x03\x01")
        # Layout: contiguous.
        + _message(0x08, b"\x03\x01" + pack("<QQ", data_at, length))
    )


def _attribute(name: str, value: str) -> bytes:
    title, text = name.encode("ascii") + b"\x00", value.encode("ascii")
    # A string of fixed length, padded with zeros.
    kind = pack("<B3sI", 0x13, b"\x01\x00\x00", max(len(text), 1))
    start = pack("<BBHHHB", 3, 0, len(title), len(kind), len(_SCALAR), 0)
    return _message(0x0C, start + title + kind + _SCALAR + (text or b"\x00"))


def _message(kind: int, body: bytes) -> bytes:
    return pack("<BHB", kind, len(body), 0) + body


def _object_header(body: bytes) -> bytes:
    return _checked(_OBJECT_HEADER + pack("<H", len(body)) + body)


def _checked(block: bytes) -> bytes:
    return block + pack("<I", lookup3(block))


_ROOT_BYTES = len(_root(b"", 0))
_ARRAY_HEADER_BYTES = len(_array_header(0, 0))
