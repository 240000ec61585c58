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
import math
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
    "dataset_name",
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
#: The same, in the order of a ring.
_RING_OF_CORNERS = (_CORNERS[0], _CORNERS[1], _CORNERS[3], _CORNERS[2])
_FIELD_OF_VIEW = ("lon_field_of_view_bounds", "lat_field_of_view_bounds")
_G_RING = ("G-Ring_Longitude", "G-Ring_Latitude")
_G_RING_POINTS_MAX = 64
_GRANULES_MAX = 64

#: A geostationary satellite's fixed grid: what the evidence calls it → attribute of this variable.
_FIXED_GRID = "goes_imager_projection"
_FIXED_GRID_NAMES = {
    "longitude": "longitude_of_projection_origin",
    "height": "perspective_point_height",
    "semi_major": "semi_major_axis",
    "semi_minor": "semi_minor_axis",
}
#: Variables whose attributes are CF's mapping of x and y, and which of them are told.
_MAPPINGS = ("crs", "ProjectionCoordinateSystem")
_MAPPING_NUMBERS = (
    *("earth_radius", "semi_major_axis", "inverse_flattening", "standard_parallel"),
    *("latitude_of_projection_origin", "longitude_of_central_meridian"),
    *("straight_vertical_longitude_from_pole", "false_easting", "false_northing"),
)
#: Attributes of the file, and of a granule of sensor data, that are told under `facts`.
_FACTS = (
    "production_site",
    "spatial_resolution",
    "resolution",
    "ascend_descend_data_flag",
)
_GRANULE_FACTS = (
    "N_Beginning_Orbit_Number",
    "N_Day_Night_Flag",
    "Ascending/Descending_Indicator",
)
#: Variables of one value that are told there too.
_VALUES = (
    *("event_count", "group_count", "flash_count", "lightning_wavelength"),
    *("group_time_threshold", "flash_time_threshold", "yaw_flip_flag"),
    *("nominal_satellite_subpoint_lat", "nominal_satellite_subpoint_lon"),
    *("nominal_satellite_height", "percent_navigated_L1b_events"),
    "percent_uncorrectable_L0_errors",
)


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
    granules = _granules(file)
    told: dict[str, Any] = {
        "attributes": {name: text for name, text in texts.items() if text},
        "facts": _facts(file, granules),
    }
    places = {
        "bbox": _box(file, granules),
        "boxes": _boxes(granules),
        "grid": _fixed_grid(file),
        "mapping": _mapping(file),
        "ring": _ring(file, granules),
    }
    return told | {name: found for name, found in places.items() if found is not None}


def _box(file: Any, granules: list[Any]) -> list[float] | None:
    for holder, names in (
        (file.get(_GOES_EXTENT), _GOES_NAMES),
        (file, _DISCOVERY_NAMES),
        (granules[0] if len(granules) == 1 else None, _GRANULE_NAMES),
    ):
        if holder is not None and all(name in holder.attrs for name in names):
            return [_number(holder.attrs[name]) for name in names]
    if all(name in file for name in _FIELD_OF_VIEW):
        (west, east), latitudes = ([float(v) for v in file[name][:]] for name in _FIELD_OF_VIEW)
        return [west, min(latitudes), east, max(latitudes)]
    if _has_corners(file):
        return _around_corners(file)
    return None


def _boxes(granules: list[Any]) -> list[list[float]] | None:
    """Return the box of each of several granules."""
    if len(granules) < 2:  # noqa: PLR2004 - several
        return None
    return [[_number(each.attrs[name]) for name in _GRANULE_NAMES] for each in granules]


def _granules(file: Any) -> list[Any]:
    """Return the granules of a file of sensor data that say where they lie."""
    products = file.get("Data_Products")
    for name in products or ():
        found = []
        for number in range(_GRANULES_MAX):
            granule = products[name].get(f"{name}_Gran_{number}")
            if granule is None:
                break
            if all(side in granule.attrs for side in _GRANULE_NAMES):
                found.append(granule)
        if found:
            return found
    return []


def _ring(file: Any, granules: list[Any]) -> list[list[float]] | None:
    """Return the points around a swath, each with longitude and latitude."""
    if len(granules) == 1 and all(name in granules[0].attrs for name in _G_RING):
        lons, lats = (granules[0].attrs[name].flat[:_G_RING_POINTS_MAX] for name in _G_RING)
        return [[float(lon), float(lat)] for lon, lat in zip(lons, lats, strict=False)]
    if not granules and _has_corners(file):
        return [
            [_number(file.attrs[f"{corner}{axis}"]) for axis in ("lon", "lat")]
            for corner in _RING_OF_CORNERS
        ]
    return None


def _has_corners(file: Any) -> bool:
    return all(f"{corner}{axis}" in file.attrs for corner in _CORNERS for axis in ("lat", "lon"))


def _fixed_grid(file: Any) -> dict[str, Any] | None:
    """Return the parameters of a geostationary satellite's grid, angles in radians."""
    if not all(name in file for name in (_FIXED_GRID, "x", "y")):
        return None
    attrs, x, y = file[_FIXED_GRID].attrs, file["x"], file["y"]
    named = all(name in attrs for name in _FIXED_GRID_NAMES.values())
    if not named or len(x.shape) != 1 or len(y.shape) != 1 or not x.size or not y.size:
        return None
    return {
        "kind": "geostationary",
        **{name: _number(attrs[there]) for name, there in _FIXED_GRID_NAMES.items()},
        "sweep": _text(attrs.get("sweep_angle_axis", "y")),
        "shape": [y.shape[0], x.shape[0]],
        "x": _ends(x),
        "y": _ends(y),
    }


def _mapping(file: Any) -> dict[str, Any] | None:
    """Return the mapping of a grid on a plane with the ends and numbers of its axes."""
    holder = next((file[name] for name in _MAPPINGS if name in file), None)
    if holder is None or "grid_mapping_name" not in holder.attrs:
        return None
    if not all(name in file and len(file[name].shape) == 1 and file[name].size for name in "xy"):
        return None
    told: dict[str, Any] = {"name": _text(holder.attrs["grid_mapping_name"])}
    for name in _MAPPING_NUMBERS:
        if name in holder.attrs:
            value = holder.attrs[name]
            several = getattr(value, "size", 1) > 1
            told[name] = [float(each) for each in value.flat[:2]] if several else _number(value)
    return told | {name: [*_ends(file[name]), int(file[name].size)] for name in ("x", "y")}


def _ends(axis: Any) -> list[float]:
    """Return the first and last value of an axis, unpacked."""
    scale = _fact(axis.attrs.get("scale_factor", 1.0))
    offset = _fact(axis.attrs.get("add_offset", 0.0))
    values = axis[:]
    return [float(values[at]) * scale + offset for at in (0, -1)]


def _facts(file: Any, granules: list[Any]) -> dict[str, Any]:
    found = {name: file.attrs[name] for name in _FACTS if name in file.attrs}
    if granules:
        attrs = granules[0].attrs
        found |= {name: attrs[name] for name in _GRANULE_FACTS if name in attrs}
    if _FIELD_OF_VIEW[0] in file:
        found |= {name: file[name][()] for name in _VALUES if name in file}
    return {name: _fact(value) for name, value in found.items()}


def _fact(value: Any) -> Any:
    """Return a text or a number; numbers of four bytes lose the digits that they do not have."""
    if hasattr(value, "flat"):
        value = value.flat[0] if value.size else ""
    kind = value.dtype.kind if hasattr(value, "dtype") else ""
    if kind == "f" and value.dtype.itemsize == 4:  # noqa: PLR2004 - bytes
        return float(f"{value:.7g}")
    if kind in {"i", "u", "f"}:
        return value.item()
    return value if isinstance(value, int | float) else _text(value)


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


def _finite(value: Any) -> Any:
    """Return the answer with null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        data = json.dumps(_finite(answer)).encode()
        _send(b"A" + struct.pack(">I", len(data)) + data)


if __name__ == "__main__":
    main()
