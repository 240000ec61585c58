"""Which reader reads which format, through gzip and bzip2 where an object is wrapped in one."""

import re
from collections.abc import Callable, Mapping
from functools import partial

from tallgrass.datasets.definition import FileFormat
from tallgrass.evidence import (
    fits,
    grib2,
    hdf5,
    nexrad_chunk,
    nexrad_level2,
    nexrad_level3,
    nexrad_radials,
    tiff,
)
from tallgrass.evidence.header import NO_BYTES, TOO_LONG, TOO_SHORT, Seen, Verdict
from tallgrass.evidence.magic import magic_of
from tallgrass.evidence.wrapping import Inside, unwrap, unwrap_whole

#: Bytes that every reader wants to see at the start of an object, and most at its end.
HEAD_BYTES = 4096
TAIL_BYTES = 1024
#: The last record of a radar volume has some 30 to 110 kB; its size says that it is the last.
_VOLUME_TAIL_BYTES = 128 * 1024
#: A chunk is one such record, and is looked into as a whole.
_CHUNK_BYTES = 256 * 1024
_TAIL_BYTES = {
    FileFormat.NEXRAD_CHUNK: _CHUNK_BYTES,
    FileFormat.NEXRAD_LEVEL2: _VOLUME_TAIL_BYTES,
    FileFormat.NEXRAD_LEVEL2_RADIALS: _VOLUME_TAIL_BYTES,
}

_READERS: Mapping[FileFormat, Callable[[Seen], Verdict]] = {
    FileFormat.NETCDF4: hdf5.read_header,
    FileFormat.NETCDF4_PLACE: hdf5.read_header,
    FileFormat.HDF5: partial(hdf5.read_header, name="hdf5"),
    FileFormat.NEXRAD_LEVEL2: nexrad_level2.read_header,
    FileFormat.NEXRAD_LEVEL2_RADIALS: nexrad_radials.read_header,
    FileFormat.NEXRAD_CHUNK: nexrad_chunk.read_header,
    FileFormat.NEXRAD_LEVEL3: nexrad_level3.read_header,
    FileFormat.GRIB2: grib2.read_header,
    FileFormat.GRIB2_GRID: partial(grib2.read_header, place=True),
    FileFormat.TIFF: tiff.read_header,
    FileFormat.FITS: fits.read_header,
}
#: Formats of which attributes of HDF5 may be asked for, which needs the extra `formats`.
WITH_ATTRIBUTES = (FileFormat.HDF5, FileFormat.NETCDF4_PLACE, FileFormat.BY_NAME)
#: Volumes were gzipped by their makers; their reader knows what is inside.
_UNWRAP_THEMSELVES = (FileFormat.NEXRAD_LEVEL2, FileFormat.NEXRAD_LEVEL2_RADIALS)

#: How names end → format. A wrapping's own suffix is taken off before.
_BY_NAME = (
    (re.compile(r"\.(?:nc4?|h5|he5|hdf5)"), FileFormat.HDF5),
    (re.compile(r"\.(?:grib2?|grb2?)(?:_wexp)?"), FileFormat.GRIB2_GRID),
    # A forecast hour behind a word for GRIB2: gfs.t12z.pgrb2.0p25.f001, and analyses.
    (re.compile(r"\.[a-z]*gr[i]?b2[a-z]*\.[a-z0-9.]*(?:f\d{2,3}|anl)"), FileFormat.GRIB2_GRID),
    (re.compile(r"\.fits?"), FileFormat.FITS),
    (re.compile(r"\.tiff?"), FileFormat.TIFF),
)
_WRAPPED = re.compile(r"\.(?:gz|bz2)$")
_BY_MAGIC = {
    "hdf5": FileFormat.HDF5,
    "fits": FileFormat.FITS,
    "tiff": FileFormat.TIFF,
    "grib2": FileFormat.GRIB2_GRID,
}


def format_by_name(key: str) -> FileFormat | None:
    """Return the format that the name of an object tells, if it tells one."""
    name = _WRAPPED.sub("", key.rsplit("/", 1)[-1])
    for pattern, file_format in _BY_NAME:
        for match in pattern.finditer(name):
            if match.end() == len(name):
                return file_format
    return None


def header_alone(file_format: FileFormat) -> FileFormat:
    """Return the format that reads the same files by their header's bytes alone."""
    return FileFormat.NETCDF4 if file_format is FileFormat.HDF5 else file_format


def tail_bytes(file_format: FileFormat | None) -> int:
    """Return how many bytes at the end of an object its reader wants to see."""
    return TAIL_BYTES if file_format is None else _TAIL_BYTES.get(file_format, TAIL_BYTES)


def read_seen(file_format: FileFormat | None, seen: Seen) -> Verdict:
    """Return what can be seen of an object, and what is wrong with it; without a format its kind.

    It raises only what looking for more does.
    """
    if seen.size == 0:
        return {}, () if file_format is None else (NO_BYTES,)
    if file_format in {None, FileFormat.BY_NAME, FileFormat.BY_NAME_HEADER}:
        kind = magic_of(seen.head)
        known = None if file_format is None else _BY_MAGIC.get(kind or "")
        if known is None:
            return ({} if kind is None else {"magic": kind}), ()
        file_format = header_alone(known) if file_format is FileFormat.BY_NAME_HEADER else known
    reader = _READERS[file_format]
    inside = None if file_format in _UNWRAP_THEMSELVES else unwrap(seen)
    return reader(seen) if inside is None else _read_inside(reader, inside, seen)


def _read_inside(reader: Callable[[Seen], Verdict], inside: Inside, seen: Seen) -> Verdict:
    """Judge the file in a wrapping, and the wrapping."""
    if not inside.sized:
        return _read_unsized(reader, inside)
    header, issues = reader(inside.seen)
    if issues and header and inside.compression == "gzip":
        if seen.more is not None:
            # Several files in one wrapping, or a cut: only its end can tell.
            inside = unwrap_whole(seen)
            header, issues = reader(inside.seen)
        elif issues == (TOO_LONG,):
            # A length that is too great was read where none stands: the end is not there.
            issues = (TOO_SHORT,)
    if not header:
        return header, issues
    if inside.issue is not None:
        issues = (inside.issue,)
    header |= {"compression": inside.compression}
    if issues:
        header["complete"] = False
    return header, issues


def _read_unsized(reader: Callable[[Seen], Verdict], inside: Inside) -> Verdict:
    """Judge a file of which only the first bytes are known: what it is, and no more."""
    if not inside.seen.head:
        header: dict[str, object] = {}
    else:
        header, issues = reader(Seen(inside.seen.head, b"", len(inside.seen.head)))
        if not header:
            return {}, issues
        header = {"format": header["format"]}
    header |= {"compression": inside.compression, "complete": None}
    if inside.issue is not None:
        return {**header, "complete": False}, (inside.issue,)
    return header, ()
