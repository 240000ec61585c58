"""Small files of the three formats, made by other tools or by hand, never by the package."""

from __future__ import annotations

import bz2
import gzip
import io
import struct

import eccodes
import h5py

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.formats import HEAD_BYTES, read_header, tail_bytes

#: 2026-06-01: 20,454 days from 1970 to 2026, 151 from January to May, and the first day is 1.
NEXRAD_DAY = 20454 + 151 + 1
NEXRAD_MS = (12 * 3600 + 3 * 60 + 4) * 1000 + 500


def read(file_format: FileFormat, data: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
    """Read a file's header from its head and tail, as a store would show them."""
    tail = data[-tail_bytes(file_format) :]
    return read_header(file_format, data[:HEAD_BYTES], tail, len(data))


def hdf5(libver: str = "v108", user_block: int = 0, values: int = 50) -> bytes:
    """Return a file that h5py wrote."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=libver, userblock_size=user_block) as file:
        file.attrs["title"] = "made by h5py"
        file["numbers"] = list(range(values))
    return buffer.getvalue()


def grib2(**keys: int) -> bytes:
    """Return a message that ecCodes wrote, with the keys set."""
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    for name, value in keys.items():
        eccodes.codes_set(message, name, value)
    data = eccodes.codes_get_message(message)
    eccodes.codes_release(message)
    return bytes(data)


def volume_header(
    start: bytes = b"AR2V0006.292",
    day: int = NEXRAD_DAY,
    milliseconds: int = NEXRAD_MS,
    site: bytes = b"KTWX",
) -> bytes:
    """Return the 24 bytes at the start of a radar volume."""
    return start + struct.pack(">II", day, milliseconds) + site


def ldm(data: bytes, *, last: bool = False) -> bytes:
    """Return one compressed record."""
    block = bz2.compress(data)
    return struct.pack(">i", -len(block) if last else len(block)) + block


def nexrad(*records: bytes, header: bytes | None = None) -> bytes:
    """Return a volume of compressed records, the last of which says so."""
    blocks = records or (b"metadata" * 40, b"radials" * 60, b"more radials" * 20)
    body = b"".join(ldm(block) for block in blocks[:-1]) + ldm(blocks[-1], last=True)
    return (volume_header() if header is None else header) + body


def plain_nexrad(start: bytes = b"ARCHIVE2.001", messages: int = 3) -> bytes:
    """Return an old volume of messages of fixed length, which are not compressed."""
    message = bytes(12) + struct.pack(">HBB", 1208, 0, 1) + bytes(2432 - 16)
    return volume_header(start, site=b"    ") + message * messages


def gzipped(data: bytes) -> bytes:
    """Return the file as it was stored before 2016."""
    return gzip.compress(data, mtime=0)


#: One sound file of each kind.
SOUND = {
    "hdf5 0": (FileFormat.NETCDF4, hdf5("earliest")),
    "hdf5 2": (FileFormat.NETCDF4, hdf5("v108")),
    "hdf5 3": (FileFormat.NETCDF4, hdf5("v110")),
    "hdf5 behind a user block": (FileFormat.NETCDF4, hdf5("v108", 512)),
    "nexrad": (FileFormat.NEXRAD_LEVEL2, nexrad()),
    "old nexrad": (FileFormat.NEXRAD_LEVEL2, plain_nexrad()),
    "old nexrad, gzipped": (FileFormat.NEXRAD_LEVEL2, gzipped(plain_nexrad())),
    "grib2": (FileFormat.GRIB2, grib2()),
    "grib2, two messages": (FileFormat.GRIB2, grib2() + grib2(forecastTime=6)),
}
