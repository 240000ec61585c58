"""Reads attributes of HDF5 files with h5py: a program of its own, started by `hdf5_children`.

The library is native code, and a damaged file can crash it; here it takes nobody along. Bytes of
the file are asked for through the pipe, so that it needs neither files nor network:

    in:   8 bytes, the size of a file                     → the next file
    out:  R, 8 bytes position, 4 bytes length             → wants these bytes
    in:   4 bytes length, the bytes; 0 where it gets none
    out:  A, 4 bytes length, JSON                         → the answer, `error` where it failed

It imports nothing of the package, so that it starts as fast as h5py does.
"""

import io
import json
import resource
import struct
import sys
from typing import Any

_BLOCK_BYTES = 64 * 1024
_TEXT_CHARS_MAX = 200
_MEMORY_BYTES_MAX = 4 * 1024**3

#: Attributes of the file that are told as they stand.
_TEXTS = (
    "time_coverage_start",
    "time_coverage_end",
    "platform_ID",
    "orbital_slot",
    "scene_id",
    "timeline_id",
    "production_environment",
    "satellite_name",
    "instrument_name",
    "start_orbit_number",
    "day_night_data_flag",
    "model_initialization_time",
    "model_output_valid_time",
    "model_configuration",
)
#: west, south, east, north, as three conventions call them.
_GOES_EXTENT = "geospatial_lat_lon_extent"
_GOES_NAMES = (
    "geospatial_westbound_longitude",
    "geospatial_southbound_latitude",
    "geospatial_eastbound_longitude",
    "geospatial_northbound_latitude",
)
_DISCOVERY_NAMES = (
    "geospatial_lon_min",
    "geospatial_lat_min",
    "geospatial_lon_max",
    "geospatial_lat_max",
)
_GRANULE_NAMES = (
    "West_Bounding_Coordinate",
    "South_Bounding_Coordinate",
    "East_Bounding_Coordinate",
    "North_Bounding_Coordinate",
)
#: Corners of a swath.
_CORNERS = tuple(
    f"geospatial_{line}_scanline_{fov}_fov_"
    for line in ("first", "last")
    for fov in ("first", "last")
)
_FIELD_OF_VIEW = ("lon_field_of_view_bounds", "lat_field_of_view_bounds")


class _Asked(io.RawIOBase):
    """A file whose bytes come through the pipe, in blocks."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._position < self._size:
            number, at = divmod(self._position, _BLOCK_BYTES)
            part = self._block(number)[at : at + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            start = number * _BLOCK_BYTES
            length = min(_BLOCK_BYTES, self._size - start)
            _send(b"R" + struct.pack(">QI", start, length))
            block = self._blocks[number] = _receive(struct.unpack(">I", _receive(4))[0])
            if len(block) != length:
                raise OSError("these bytes are not to be had")
        return block


def _send(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _receive(length: int) -> bytes:
    data = sys.stdin.buffer.read(length)
    if len(data) < length:
        raise SystemExit(0)
    return data


def _told(file: Any) -> dict[str, Any]:
    texts = {name: _text(file.attrs[name]) for name in _TEXTS if name in file.attrs}
    told: dict[str, Any] = {"attributes": {name: text for name, text in texts.items() if text}}
    box = _box(file)
    if box is not None:
        told["bbox"] = box
    return told


def _box(file: Any) -> list[float] | None:
    for holder, names in (
        (file.get(_GOES_EXTENT), _GOES_NAMES),
        (file, _DISCOVERY_NAMES),
        (_granule(file), _GRANULE_NAMES),
    ):
        if holder is not None and all(name in holder.attrs for name in names):
            return [_number(holder.attrs[name]) for name in names]
    if all(name in file for name in _FIELD_OF_VIEW):
        (west, east), latitudes = ([float(v) for v in file[name][:]] for name in _FIELD_OF_VIEW)
        return [west, min(latitudes), east, max(latitudes)]
    if all(f"{corner}{axis}" in file.attrs for corner in _CORNERS for axis in ("lat", "lon")):
        return _around_corners(file)
    return None


def _granule(file: Any) -> Any:
    """Return the first granule of a file of sensor data."""
    products = file.get("Data_Products")
    for name in products or ():
        granule = products[name].get(f"{name}_Gran_0")
        if granule is not None and _GRANULE_NAMES[0] in granule.attrs:
            return granule
    return None


def _around_corners(file: Any) -> list[float]:
    lats, lons = (
        [_number(file.attrs[f"{corner}{axis}"]) for corner in _CORNERS] for axis in ("lat", "lon")
    )
    west, east = min(lons), max(lons)
    if east - west > 180:  # noqa: PLR2004 - degrees: it is shorter the other way round
        west, east = min(lon for lon in lons if lon > 0), max(lon for lon in lons if lon <= 0)
    return [west, min(lats), east, max(lats)]


def _number(value: Any) -> float:
    return float(value.flat[0]) if hasattr(value, "flat") else float(value)


def _text(value: Any) -> str:
    if hasattr(value, "flat"):
        value = value.flat[0] if value.size else ""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.strip("\x00 ")[:_TEXT_CHARS_MAX]


def main() -> None:
    """Answer for one file after the other, until the pipe is closed."""
    import h5py  # noqa: PLC0415 - an extra, and slow

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    while True:
        (size,) = struct.unpack(">Q", _receive(8))
        try:
            with h5py.File(_Asked(size), "r") as file:
                answer = _told(file)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with a file is the answer
            answer = {"error": f"{type(exc).__name__}: {exc}"[:_TEXT_CHARS_MAX]}
        data = json.dumps(answer).encode()
        _send(b"A" + struct.pack(">I", len(data)) + data)


if __name__ == "__main__":
    main()
