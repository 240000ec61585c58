from __future__ import annotations

import struct

import pytest

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.lookup3 import lookup3
from tests.evidence.samples import hdf5, read

NETCDF4 = FileFormat.NETCDF4


@pytest.mark.parametrize(
    ("libver", "version"), [("earliest", 0), ("v108", 2), ("v110", 3), ("latest", 3)]
)
def test_a_file_of_h5py_is_complete(libver: str, version: int) -> None:
    """Superblocks 0, 2 and 3 are read, and a whole file ends where they say."""
    data = hdf5(libver)
    assert read(NETCDF4, data) == (
        {
            "format": "netcdf4",
            "superblock_version": version,
            "end_of_file": len(data),
            "complete": True,
        },
        (),
    )


def test_superblock_1_is_read() -> None:
    """Superblock 1 has four bytes more before its addresses than superblock 0."""
    block = b"\x89HDF\r\n\x1a\n\x01" + bytes(4) + b"\x08\x08" + bytes(13)
    block += struct.pack("<QQQQ", 0, 2**64 - 1, 200, 2**64 - 1) + struct.pack("<QQ", 0, 96)
    data = block.ljust(96, b"\0") + b"\x01\x00" + bytes(102)
    header, issues = read(NETCDF4, data)
    assert (header["superblock_version"], header["end_of_file"], issues) == (1, 200, ())


@pytest.mark.parametrize("user_block", [512, 1024, 2048])
def test_a_user_block_is_skipped(user_block: int) -> None:
    """A superblock that stands behind a user block is found."""
    header, issues = read(NETCDF4, hdf5("v108", user_block))
    assert (header["complete"], issues) == (True, ())


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110"])
def test_a_missing_byte_is_seen(libver: str) -> None:
    """A file that is one byte short is too small."""
    header, issues = read(NETCDF4, hdf5(libver)[:-1])
    assert (header["complete"], issues) == (False, ("size_too_small",))


def test_a_byte_too_many_is_seen() -> None:
    """A file that goes on behind its end is too large."""
    header, issues = read(NETCDF4, hdf5() + b"\0")
    assert (header["complete"], issues) == (False, ("size_too_large",))


@pytest.mark.parametrize("libver", ["v108", "v110"])
def test_a_changed_superblock_is_seen(libver: str) -> None:
    """Whatever byte of a checksummed superblock changes, the file is not taken for sound."""
    data = hdf5(libver)
    for place in range(48):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        header, issues = read(NETCDF4, bytes(damaged))
        assert issues == ("content_type_invalid",), place
        assert not header.get("complete"), place


def test_a_file_that_its_writer_left_open_is_not_sound() -> None:
    """A version 3 file that is marked as open for writing is no finished file."""
    block = bytearray(hdf5("v110"))
    block[11] |= 1
    block[44:48] = lookup3(bytes(block[:44])).to_bytes(4, "little")
    assert read(NETCDF4, bytes(block))[1] == ("content_type_invalid",)


def test_no_object_header_at_the_root_is_seen() -> None:
    """Where the root group must be, there is an object header or the file is damaged."""
    for libver in ("earliest", "v108"):
        data = bytearray(hdf5(libver))
        root = 96 if libver == "earliest" else 48
        data[root : root + 4] = b"\0\0\0\0"
        assert read(NETCDF4, bytes(data))[1] == ("content_type_invalid",)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # From Bob Jenkins' lookup3.c, driver5: hashlittle("", 0) and "Four score and seven …".
        (b"", 0xDEADBEEF),
        (b"Four score and seven years ago", 0x17770551),
    ],
)
def test_lookup3_gives_its_authors_figures(data: bytes, expected: int) -> None:
    """The checksum equals the values that its author published."""
    assert lookup3(data) == expected
