"""Which reader reads which format."""

from collections.abc import Callable, Mapping

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence import grib2, hdf5, nexrad_level2
from tallgrass.evidence.header import NO_BYTES, Verdict

#: Bytes of an object that the readers want to see at its start and at its end.
HEAD_BYTES = 4096
TAIL_BYTES = 1024

_READERS: Mapping[FileFormat, Callable[[bytes, bytes, int], Verdict]] = {
    FileFormat.NETCDF4: hdf5.read_header,
    FileFormat.NEXRAD_LEVEL2: nexrad_level2.read_header,
    FileFormat.GRIB2: grib2.read_header,
}


def read_header(file_format: FileFormat, head: bytes, tail: bytes, size: int) -> Verdict:
    """Return what head and tail of an object tell, and what is wrong with them; never raises.

    `head` and `tail` are the first and last bytes of an object of `size` bytes; they may overlap.
    """
    if size == 0:
        return {}, (NO_BYTES,)
    return _READERS[file_format](head, tail, size)
