"""Which reader reads which format."""

from collections.abc import Callable, Mapping

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence import grib2, hdf5, nexrad_level2
from tallgrass.evidence.header import NO_BYTES, Verdict

#: Bytes that every reader wants to see at the start of an object, and most at its end.
HEAD_BYTES = 4096
TAIL_BYTES = 1024
#: The last record of a radar volume has some 30 to 110 kB; its size says that it is the last.
_TAIL_BYTES = {FileFormat.NEXRAD_LEVEL2: 128 * 1024}

_READERS: Mapping[FileFormat, Callable[[bytes, bytes, int], Verdict]] = {
    FileFormat.NETCDF4: hdf5.read_header,
    FileFormat.NEXRAD_LEVEL2: nexrad_level2.read_header,
    FileFormat.GRIB2: grib2.read_header,
}


def tail_bytes(file_format: FileFormat | None) -> int:
    """Return how many bytes at the end of an object its reader wants to see."""
    return TAIL_BYTES if file_format is None else _TAIL_BYTES.get(file_format, TAIL_BYTES)


def read_header(file_format: FileFormat, head: bytes, tail: bytes, size: int) -> Verdict:
    """Return what head and tail of an object tell, and what is wrong with them; never raises.

    `head` and `tail` are the first and last bytes of an object of `size` bytes, as many as it has
    of `HEAD_BYTES` and `tail_bytes`; they may overlap.
    """
    if size == 0:
        return {}, (NO_BYTES,)
    return _READERS[file_format](head, tail, size)
