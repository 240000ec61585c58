"""Grids of NetCDF files on a map plane, by the attributes of CF's grid mappings.

The National Water Model's grids are such: Lambert's cone, over Alaska a polar plane, on a sphere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tallgrass.evidence.grib2_grids import Grid
from tallgrass.evidence.grid_edges import edges_of
from tallgrass.evidence.map_planes import Lambert, Plane, Point, PolarStereographic, wrapped

_POINTS_MIN = 2
_METRE_DIGITS = 4
_NORTH_POLE = 90.0


def cf_grid(mapping: Mapping[str, Any]) -> Grid | None:
    """Return the grid of a mapping with the ends and numbers of its `x` and `y`.

    None where it is of another kind, not on a sphere, or its numbers are none.
    """
    try:
        x, nx = _axis(mapping["x"])
        y, ny = _axis(mapping["y"])
        radius = _radius(mapping)
        plane, told = _PLANES[mapping["name"]](mapping, radius)
        edges = edges_of(plane, x, y)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return Grid(
        {
            "nx": nx,
            "ny": ny,
            "kind": told.pop("kind"),
            "x": [round(min(x), _METRE_DIGITS) + 0.0, round(max(x), _METRE_DIGITS) + 0.0],
            "y": [round(max(y), _METRE_DIGITS) + 0.0, round(min(y), _METRE_DIGITS) + 0.0],
            **told,
            "earth": [radius, 0.0],
        },
        edges.bbox,
        edges.footprint,
    )


def _axis(ends: Sequence[float]) -> tuple[Point, int]:
    first, last, count = ends
    if count < _POINTS_MIN or first == last:
        raise ValueError("no axis")
    return (float(first), float(last)), int(count)


def _radius(mapping: Mapping[str, Any]) -> float:
    """Return the radius of the sphere; metres of an ellipsoid or from elsewhere are not told."""
    if any(mapping.get(name) for name in ("inverse_flattening", "false_easting", "false_northing")):
        raise ValueError("not a plain sphere")
    return float(mapping.get("earth_radius") or mapping["semi_major_axis"])


def _lambert(mapping: Mapping[str, Any], radius: float) -> tuple[Plane, dict[str, Any]]:
    parallels = mapping["standard_parallel"]
    one, two = parallels if isinstance(parallels, list) else (parallels, parallels)
    origin = float(mapping["latitude_of_projection_origin"])
    meridian = wrapped(float(mapping["longitude_of_central_meridian"]))
    plane = Lambert(radius, (float(one), float(two)), origin, meridian)
    told = {"kind": "lambert", "parallels": [float(one), float(two)], "origin": [origin, meridian]}
    return plane, told


def _polar(mapping: Mapping[str, Any], radius: float) -> tuple[Plane, dict[str, Any]]:
    parallel = float(mapping["standard_parallel"])
    meridian = wrapped(float(mapping["straight_vertical_longitude_from_pole"]))
    side = 1.0 if mapping.get("latitude_of_projection_origin", _NORTH_POLE) > 0 else -1.0
    plane = PolarStereographic(radius, parallel, meridian, side)
    return plane, {"kind": "polar_stereographic", "parallel": parallel, "meridian": meridian}


_PLANES = {"lambert_conformal_conic": _lambert, "polar_stereographic": _polar}
