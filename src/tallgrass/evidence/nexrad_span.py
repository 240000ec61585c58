"""When a radar volume, or a part of it, was scanned, and by which radar: as its radials say it.

Only the first and the last radial matter. Each record is a bzip2 file of some 120 radials and takes
3 to 8 ms, so that no other record is decompressed than the ones that hold them.
"""

import bz2
from datetime import datetime, timedelta
from math import isfinite

from tallgrass.clock import format_instant, parse_instant
from tallgrass.evidence.nexrad_messages import Radial

_DIGITS = 4
_LATITUDE_MAX, _LONGITUDE_MAX = 90.0, 180.0
#: Records hold about 1 MB. What is much longer is none, and is not decompressed to its end.
_RECORD_BYTES_MAX = 32 * 1024 * 1024
#: A volume takes four to ten minutes; a radial beyond that is of another one.
_APART_MAX = timedelta(hours=1)


def inside_record(block: bytes) -> bytes | None:
    """Return the messages in a record; None where it is damaged, or not one bzip2 file."""
    decompressor = bz2.BZ2Decompressor()
    try:
        data = decompressor.decompress(block, _RECORD_BYTES_MAX)
    except (OSError, EOFError):
        return None
    return data if decompressor.eof and not decompressor.unused_data else None


def begins_on_a_second(volume_time: object) -> bool:
    """Tell whether a volume header's time is a whole second.

    Headers of today tell the time of the first radial to the millisecond. Older ones have whole
    seconds, up to three off: then the first radial is looked at.
    """
    return parse_instant(str(volume_time)).microsecond == 0


def span_of(
    first: Radial | None, last: Radial | None, volume_time: object = None
) -> dict[str, object]:
    """Return start, end, place and pattern, as far as radials of the volume tell them."""
    began = None if volume_time is None else parse_instant(str(volume_time))
    told: dict[str, object] = {}
    if first is not None and _belongs(first, began):
        told["start"] = format_instant(first.time)
    if last is not None and _belongs(last, began):
        told["end"] = format_instant(last.time)
    return told | radar_of(last or first)


def radar_of(radial: Radial | None) -> dict[str, object]:
    """Return what a radial says of its radar: place, height, pattern of the scan."""
    if radial is None or radial.latitude is None or radial.longitude is None:
        return {}
    told: dict[str, object] = {"pattern": radial.pattern}
    if is_place(radial.latitude, radial.longitude):
        told["latitude"] = round(radial.latitude, _DIGITS)
        told["longitude"] = round(radial.longitude, _DIGITS)
    told["properties"] = {
        "nexrad:vcp": radial.pattern,
        "nexrad:antenna_elevation": radial.elevation_m,
    }
    return told


def is_place(latitude: float, longitude: float) -> bool:
    """Tell whether there is such a place, other than the origin that stands for none."""
    on_earth = abs(latitude) <= _LATITUDE_MAX and abs(longitude) <= _LONGITUDE_MAX
    return isfinite(latitude + longitude) and on_earth and (latitude, longitude) != (0.0, 0.0)


def _belongs(radial: Radial, began: datetime | None) -> bool:
    return began is None or abs(radial.time - began) <= _APART_MAX
