"""Small files of every format, made by other tools or by hand, never by the package."""

from __future__ import annotations

import bz2
import gzip
import io
import struct

import eccodes
import h5py

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence.formats import HEAD_BYTES, read_seen, tail_bytes
from tallgrass.evidence.header import Seen

#: 2026-06-01: 20,454 days from 1970 to 2026, 151 from January to May, and the first day is 1.
NEXRAD_DAY = 20454 + 151 + 1
NEXRAD_MS = (12 * 3600 + 3 * 60 + 4) * 1000 + 500


def read(file_format: FileFormat, data: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
    """Read a file's header from its head and tail, as a store would show them."""
    tail = data[-tail_bytes(file_format) :]
    return read_seen(file_format, Seen(data[:HEAD_BYTES], tail, len(data)))


def read_near(file_format: FileFormat, data: bytes) -> tuple[dict[str, object], tuple[str, ...]]:
    """Read a file of which every byte can be looked at, as one of a folder."""
    tail = data[-tail_bytes(file_format) :]
    return read_seen(
        file_format,
        Seen(data[:HEAD_BYTES], tail, len(data), lambda at, length: data[at : at + length]),
    )


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


def chunk(part: str) -> bytes:
    """Return one record as the chunks bucket has it: S, I or E."""
    record = ldm(b"radials of a chunk" * 30, last=part == "E")
    return volume_header() + record if part == "S" else record


def level3(
    code: int = 94, *, heading: bytes = b"SDUS54 KOUN 202016\r\r\nN0QTLX\r\r\n", body: int = 300
) -> bytes:
    """Return a product of 2013-05-20 20:17:05, of a volume of 20:16:43, over Oklahoma."""
    message = struct.pack(">h", -1) + struct.pack(
        ">iihhhhhh", 35333, -97278, 1277, code, 2, 12, 7, 28
    )
    # 15,705 days from 1970 to 2013, 31 + 28 + 31 + 30 to the end of April, the 20th: the 15,846th.
    message += struct.pack(">HIHI", 15846, 73003, 15846, 73009) + bytes(66 + body)
    return (
        heading + struct.pack(">hHIIHHH", code, 15846, 73025, 18 + len(message), 1, 0, 3) + message
    )


def bulletins(*messages: bytes) -> bytes:
    """Return messages as the gateway of the weather service writes them."""

    def flagged(data: bytes) -> bytes:
        return b"****%010d****\n" % len(data) + data

    inner = b"".join(flagged(b"YHAC12 KWBN 211651\r\r\n" + message) for message in messages)
    return flagged(b"YHAZ98 KWBN 211651\r\r\n" + inner)


def tiff(*, big: bool = False, order: str = "<", tiles: int = 4, optimised: bool = False) -> bytes:
    """Return an image of 64 by 48 points in tiles, on EPSG:4326; directories first."""
    word = "Q" if big else "I"
    start = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    start += struct.pack(order + "HHQ", 8, 0, 0) if big else struct.pack(order + "I", 0)
    ghost = b""
    if optimised:
        layout = b"LAYOUT=IFDS_BEFORE_DATA\n"
        ghost = b"GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n" % len(layout) + layout
    keys = (1, 1, 0, 1, 2048, 0, 1, 4326)
    ifd = len(start) + len(ghost)
    size = struct.calcsize("=" + word)
    values_at = ifd + (8 if big else 2) + 6 * (20 if big else 12) + size
    offsets_at = values_at + 2 * len(keys)
    data_at = offsets_at + 2 * 4 * tiles
    offsets = [data_at + 100 * number for number in range(tiles)]

    def field(tag: int, kind: int, count: int, value: int) -> bytes:
        return struct.pack(order + "HH" + word, tag, kind, count) + struct.pack(order + word, value)

    long = 16 if big else 4
    fields = (
        field(256, long, 1, 64),
        field(257, long, 1, 48),
        field(277, long, 1, 1),
        field(324, 4, tiles, offsets_at),
        field(325, 4, tiles, offsets_at + 4 * tiles),
        field(34735, 3, len(keys), values_at),
    )
    directory = struct.pack(order + ("Q" if big else "H"), len(fields)) + b"".join(fields)
    directory += struct.pack(order + word, 0)
    values = struct.pack(f"{order}{len(keys)}H", *keys)
    values += struct.pack(f"{order}{2 * tiles}I", *offsets, *[100] * tiles)
    first = struct.pack(order + word, ifd)
    return start[: -len(first)] + first + ghost + directory + values + b"t" * 100 * tiles


def fits(*extra: str, shape: tuple[int, ...] = (30, 40)) -> bytes:
    """Return an image of 16-bit numbers."""
    cards = ["SIMPLE  =                    T", "BITPIX  =                   16"]
    cards.append(f"NAXIS   = {len(shape):20}")
    cards += [f"NAXIS{axis}  = {size:20}" for axis, size in enumerate(reversed(shape), start=1)]
    header = "".join(card.ljust(80) for card in (*cards, *extra, "END"))
    data = bytes(2 * shape[0] * shape[1])
    return header.ljust(2880 * -(-len(header) // 2880)).encode() + data.ljust(2880)


#: One sound file of each kind.
SOUND = {
    "hdf5 0": (FileFormat.NETCDF4, hdf5("earliest")),
    "hdf5 2": (FileFormat.NETCDF4, hdf5("v108")),
    "hdf5 3": (FileFormat.NETCDF4, hdf5("v110")),
    "hdf5 behind a user block": (FileFormat.NETCDF4, hdf5("v108", 512)),
    "nexrad": (FileFormat.NEXRAD_LEVEL2, nexrad()),
    "old nexrad": (FileFormat.NEXRAD_LEVEL2, plain_nexrad()),
    "old nexrad, gzipped": (FileFormat.NEXRAD_LEVEL2, gzipped(plain_nexrad())),
    "hdf5 with attributes": (FileFormat.HDF5, hdf5("v108")),
    "hdf5, gzipped": (FileFormat.HDF5, gzipped(hdf5("v108"))),
    "first chunk": (FileFormat.NEXRAD_CHUNK, chunk("S")),
    "chunk": (FileFormat.NEXRAD_CHUNK, chunk("I")),
    "last chunk": (FileFormat.NEXRAD_CHUNK, chunk("E")),
    "level 3": (FileFormat.NEXRAD_LEVEL3, level3()),
    "level 3, relayed": (
        FileFormat.NEXRAD_LEVEL3,
        level3(heading=b"\x01\r\r\n539 \r\r\nSDUS53 KEAX 262154\r\r\nTZLMCI\r\r\n") + b"\r\r\n\x03",
    ),
    "grib2, gzipped": (FileFormat.GRIB2_GRID, gzipped(grib2())),
    "grib2 in bzip2": (FileFormat.GRIB2, bz2.compress(grib2())),
    "grib2 in bulletins": (FileFormat.GRIB2_GRID, bulletins(grib2(), grib2(forecastTime=6))),
    "tiff": (FileFormat.TIFF, tiff()),
    "tiff of the other order": (FileFormat.TIFF, tiff(order=">", optimised=True)),
    "big tiff": (FileFormat.TIFF, tiff(big=True)),
    "fits": (FileFormat.FITS, fits()),
    "grib2": (FileFormat.GRIB2, grib2()),
    "grib2, two messages": (FileFormat.GRIB2, grib2() + grib2(forecastTime=6)),
}

#: Formats that look at the same kind of file.
FAMILIES = (
    {FileFormat.NETCDF4, FileFormat.NETCDF4_PLACE, FileFormat.HDF5},
    {FileFormat.NEXRAD_LEVEL2, FileFormat.NEXRAD_LEVEL2_RADIALS, FileFormat.NEXRAD_CHUNK},
    {FileFormat.GRIB2, FileFormat.GRIB2_GRID},
    {FileFormat.NEXRAD_LEVEL3},
    {FileFormat.TIFF},
    {FileFormat.FITS},
)


def of_other_families(file_format: FileFormat) -> list[FileFormat]:
    """Return the formats that a file of this one must not be taken for."""
    return [each for family in FAMILIES if file_format not in family for each in sorted(family)]
