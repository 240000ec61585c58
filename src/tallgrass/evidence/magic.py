"""What a file is by its first bytes, where nothing else is known of it."""

#: First bytes → what they are, the longer before the shorter.
_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"SIMPLE  =", "fits"),
    (b"ARCHIVE2.", "nexrad-level2"),
    (b"AR2V00", "nexrad-level2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"GRIB", "grib2"),
    (b"BUFR", "bufr"),
    (b"PAR1", "parquet"),
    (b"%PDF", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"CDF\x01", "netcdf3"),
    (b"CDF\x02", "netcdf3"),
    (b"CDF\x05", "netcdf3"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
)
#: GRIB's two editions differ in this byte.
_EDITION_AT = 7


def magic_of(head: bytes) -> str | None:
    """Return the name of the kind of file that begins so, or None where it is none of these."""
    name = next((name for magic, name in _MAGICS if head.startswith(magic)), None)
    return "grib1" if name == "grib2" and head[_EDITION_AT:][:1] == b"\x01" else name
