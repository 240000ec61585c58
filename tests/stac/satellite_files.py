"""Files of satellites as h5py writes them, with the structure of the real ones."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Step in radians, rows and columns of each sector of the 2 km grid, and the centre of its first
#: pixel: GOES-R Product Users' Guide 3, tables 5.1.2.
STEP = 56e-6
SECTORS = {
    "F": (5424, 5424, -0.151844, 0.151844),
    "C": (1500, 2500, -0.101332, 0.128212),
    # The same sector from the western position, which looks straight down on its middle.
    "C of the west": (1500, 2500, -0.069972, 0.128212),
}


def _file(fill: Any) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver="v108") as file:
        fill(file)
    return buffer.getvalue()


def abi(
    longitude: float, sector: tuple[int, int, float, float], step: float = STEP, **attributes: str
) -> bytes:
    """Return an image of the fixed grid, axes packed as in the real files."""
    rows, columns, left, top = sector

    def fill(file: Any) -> None:
        for name, value in {"orbital_slot": "GOES-East", **attributes}.items():
            file.attrs[name] = np.bytes_(value)
        for name, count, first, sign in (("x", columns, left, 1), ("y", rows, top, -1)):
            axis = file.create_dataset(name, data=np.arange(count, dtype="i2"))
            axis.attrs["scale_factor"] = np.array([sign * step], "f4")
            axis.attrs["add_offset"] = np.array([first], "f4")
        projection = file.create_dataset("goes_imager_projection", data=np.int32(0))
        projection.attrs["grid_mapping_name"] = np.bytes_("geostationary")
        projection.attrs["perspective_point_height"] = np.array([35786023.0])
        projection.attrs["semi_major_axis"] = np.array([6378137.0])
        projection.attrs["semi_minor_axis"] = np.array([6356752.31414])
        projection.attrs["longitude_of_projection_origin"] = np.array([longitude])
        projection.attrs["sweep_angle_axis"] = np.bytes_("x")

    return _file(fill)


def glm(west: float, east: float, **values: float) -> bytes:
    """Return a file of lightning with its field of view."""

    def fill(file: Any) -> None:
        file.attrs["orbital_slot"] = np.bytes_("GOES-West")
        file["lon_field_of_view_bounds"] = np.array([west, east], "f4")
        file["lat_field_of_view_bounds"] = np.array([66.56, -66.56], "f4")
        for name, value in values.items():
            file[name] = np.float32(value)

    return _file(fill)


def corners(points: Sequence[tuple[float, float]], **attributes: object) -> bytes:
    """Return a derived product; corners in the order of a ring, as longitude and latitude."""

    def fill(file: Any) -> None:
        for (line, fov), (lon, lat) in zip(
            (("first", "first"), ("first", "last"), ("last", "last"), ("last", "first")),
            points,
            strict=True,
        ):
            file.attrs[f"geospatial_{line}_scanline_{fov}_fov_lon"] = np.float32(lon)
            file.attrs[f"geospatial_{line}_scanline_{fov}_fov_lat"] = np.float32(lat)
        for name, value in attributes.items():
            file.attrs[name] = value

    return _file(fill)


def granules(*rings: Sequence[tuple[float, float]], **attributes: object) -> bytes:
    """Return sensor data: one granule for each ring, with the box that its points span."""

    def fill(file: Any) -> None:
        file.attrs["Platform_Short_Name"] = np.array([[b"J01"]])
        for number, ring in enumerate(rings):
            path = f"Data_Products/VIIRS-M1-SDR/VIIRS-M1-SDR_Gran_{number}"
            granule = file.create_dataset(path, data=np.zeros(3, "u1"))
            lons, lats = zip(*ring, strict=True)
            granule.attrs["G-Ring_Longitude"] = np.array(lons, "f4").reshape(-1, 1)
            granule.attrs["G-Ring_Latitude"] = np.array(lats, "f4").reshape(-1, 1)
            for side, value in _sides(lons, lats).items():
                granule.attrs[f"{side}_Bounding_Coordinate"] = np.array([[value]], "f4")
            for name, fact in attributes.items():
                granule.attrs[name] = np.array([[fact]])

    return _file(fill)


def _sides(lons: Sequence[float], lats: Sequence[float]) -> Mapping[str, float]:
    east = [lon for lon in lons if lon < 0] if max(lons) - min(lons) > 180 else lons
    west = [lon for lon in lons if lon > 0] if max(lons) - min(lons) > 180 else lons
    return {"West": min(west), "East": max(east), "South": min(lats), "North": max(lats)}
