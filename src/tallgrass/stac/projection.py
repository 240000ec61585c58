"""The projection of a grid as STAC properties (projection extension 2.0.0).

A grid is what evidence keeps of it: its raw parameters, with its `kind`. Everything here is derived
from them alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

Grid = Mapping[str, Any]
Properties = dict[str, object]

#: Digits of a metre that are told: 0.1 mm.
_DIGITS = 4
_DEGREE_DIGITS, _METRE_DIGITS = 9, 4
#: Digits of a degree in a box, 1 m: fewer than the points have that it is made of.
_BOX_DIGITS = 5
_HALF_CIRCLE, _FULL_CIRCLE, _POLE = 180.0, 360.0, 90.0
#: Semi-major axis and inverse flattening of the one ellipsoid that has a code for plain degrees.
_WGS84 = (6_378_137.0, 298.257223563)
_GRIDS_MAX = 1024
_SHARED: dict[tuple[object, ...], Properties] = {}


def projection_properties(grid: Grid) -> Properties:
    """Return the `proj:` properties of a grid, none where its kind is not known. It is shared."""
    make = _KINDS.get(grid.get("kind", ""))
    if make is None:
        return {}
    # Feeds have few grids; the text of a projection takes ten times as long as to find it here.
    known_by = tuple([tuple(v) if type(v) is list else v for v in grid.values()])
    known = _SHARED.get(known_by)
    if known is None:
        if len(_SHARED) > _GRIDS_MAX:
            _SHARED.clear()
        known = _SHARED[known_by] = make(grid)
    return known


def _geostationary(grid: Grid) -> Properties:
    """Return the properties of a satellite's fixed grid; its angles become metres as PROJ does."""
    height = float(grid["height"])
    (rows, columns), (left, right), (top, bottom) = grid["shape"], grid["x"], grid["y"]
    across = (right - left) / (columns - 1) * height
    down = (bottom - top) / (rows - 1) * height
    # The angles are those of the centres of pixels; the image reaches half a pixel further.
    west, north = left * height - across / 2, top * height - down / 2
    east, south = west + columns * across, north + rows * down
    box = (min(west, east), min(south, north), max(west, east), max(south, north))
    return {
        "proj:code": None,
        "proj:wkt2": _geostationary_wkt(grid, height),
        "proj:shape": [rows, columns],
        "proj:transform": [_metres(v) for v in (across, 0.0, west, 0.0, down, north)],
        "proj:bbox": [_metres(v) for v in box],
    }


def _geostationary_wkt(grid: Grid, height: float) -> str:
    major, minor = float(grid["semi_major"]), float(grid["semi_minor"])
    flattening = 0.0 if major == minor else major / (major - minor)
    sweep = "X" if grid["sweep"] == "x" else "Y"
    return projected_wkt(
        name=f"Geostationary view from {_text(grid['longitude'])} degrees",
        method=f'METHOD["Geostationary Satellite (Sweep {sweep})"]',
        parameters=(
            ("Satellite height", height, "m"),
            ("Longitude of natural origin", grid["longitude"], "deg"),
            ("False easting", 0, "m"),
            ("False northing", 0, "m"),
        ),
        ellipsoid=(major, flattening),
    )


_UNITS = {
    "m": 'LENGTHUNIT["metre",1]',
    "deg": 'ANGLEUNIT["degree",0.0174532925199433]',
    "1": 'SCALEUNIT["unity",1]',
}


def projected_wkt(
    *,
    name: str,
    method: str,
    parameters: tuple[tuple[str, float, str], ...],
    ellipsoid: tuple[float, float],
) -> str:
    """Return a projected coordinate system as WKT 2 (ISO 19162:2019).

    Parameters are name, value and unit (`m`, `deg` or `1`); the ellipsoid is its semi-major axis
    and inverse flattening, zero for a sphere.
    """
    told = ",".join(
        f'PARAMETER["{each}",{_text(value)},{_UNITS[unit]}]' for each, value, unit in parameters
    )
    major, flattening = (_text(value) for value in ellipsoid)
    return (
        f'PROJCRS["{name}",'
        f'BASEGEOGCRS["unknown",DATUM["unknown",'
        f'ELLIPSOID["unknown",{major},{flattening},{_UNITS["m"]}]],'
        f'PRIMEM["Greenwich",0,{_UNITS["deg"]}]],'
        f'CONVERSION["unknown",{method},{told}],'
        "CS[Cartesian,2],"
        f'AXIS["(E)",east,ORDER[1],{_UNITS["m"]}],'
        f'AXIS["(N)",north,ORDER[2],{_UNITS["m"]}]]'
    )


def _text(value: float) -> str:
    number = round(float(value), 9)
    return str(int(number)) if number.is_integer() else str(number)


def _metres(value: float) -> float:
    return round(value, _DIGITS) + 0.0


# --- grids of models, in metres or degrees --------------------------------------------------------


def _latlon(grid: Grid) -> Properties:
    """Return the properties of a grid of longitudes and latitudes, as raster libraries see it."""
    if "earth" not in grid:
        return _shape_only(grid)
    told = _raster(grid, _geographic_wkt(_ellipsoid(grid)), _DEGREE_DIGITS)
    if _ellipsoid(grid) == _WGS84:
        told = {name: value for name, value in told.items() if name != "proj:wkt2"}
        told["proj:code"] = "EPSG:4326"
    west, south, east, north = _cells(grid)
    if not _goes_round(west, east):
        west, east = _on_map(west), _on_map(east)
    # All round it is where the transform puts the cells, beyond the poles too.
    told["proj:bbox"] = [_rounded(value, _BOX_DIGITS) for value in (west, south, east, north)]
    return told


def _cells(grid: Grid) -> tuple[float, float, float, float]:
    """Return the outer edges of the cells around the outermost points."""
    (west, east), (north, south) = grid["x"], grid["y"]
    half = (east - west) / (grid["nx"] - 1) / 2
    above = (north - south) / (grid["ny"] - 1) / 2
    return west - half, south - above, east + half, north + above


def _goes_round(west: float, east: float) -> bool:
    return round(east - west, _METRE_DIGITS) >= _FULL_CIRCLE


def _on_map(longitude: float) -> float:
    if -_HALF_CIRCLE <= longitude <= _HALF_CIRCLE:
        return longitude
    return (longitude + _HALF_CIRCLE) % _FULL_CIRCLE - _HALF_CIRCLE


def _gaussian(grid: Grid) -> Properties:
    """Return what is regular of a grid whose rows are not evenly apart."""
    told = {name: value for name, value in _latlon(grid).items() if name != "proj:transform"}
    if "proj:bbox" in told:
        west, south, east, north = _cells(grid)
        round_it = _goes_round(west, east)
        west, east = (-_HALF_CIRCLE, _HALF_CIRCLE) if round_it else (_on_map(west), _on_map(east))
        box = (west, max(south, -_POLE), east, min(north, _POLE))
        told["proj:bbox"] = [_rounded(value, _BOX_DIGITS) for value in box]
    return told


def _rotated_latlon(grid: Grid) -> Properties:
    if "earth" not in grid:
        return _shape_only(grid)
    return _raster(grid, _rotated_wkt(grid["south_pole"], _ellipsoid(grid)), _DEGREE_DIGITS)


def _mercator(grid: Grid) -> Properties:
    return _projected(
        grid,
        "Mercator (variant B)",
        (
            ("Latitude of 1st standard parallel", grid["parallel"], "deg"),
            ("Longitude of natural origin", grid["meridian"], "deg"),
            ("False easting", 0, "m"),
            ("False northing", 0, "m"),
        ),
    )


def _polar_stereographic(grid: Grid) -> Properties:
    return _projected(
        grid,
        "Polar Stereographic (variant B)",
        (
            ("Latitude of standard parallel", grid["parallel"], "deg"),
            ("Longitude of origin", grid["meridian"], "deg"),
            ("False easting", 0, "m"),
            ("False northing", 0, "m"),
        ),
    )


def _lambert(grid: Grid) -> Properties:
    return _projected(
        grid,
        "Lambert Conic Conformal (2SP)",
        (
            ("Latitude of false origin", grid["origin"][0], "deg"),
            ("Longitude of false origin", grid["origin"][1], "deg"),
            ("Latitude of 1st standard parallel", grid["parallels"][0], "deg"),
            ("Latitude of 2nd standard parallel", grid["parallels"][1], "deg"),
            ("Easting at false origin", 0, "m"),
            ("Northing at false origin", 0, "m"),
        ),
    )


def _projected(
    grid: Grid, method: str, parameters: tuple[tuple[str, float, str], ...]
) -> Properties:
    if "earth" not in grid:
        return _shape_only(grid)
    wkt = projected_wkt(
        name=method,
        method=f'METHOD["{method}"]',
        parameters=parameters,
        ellipsoid=_ellipsoid(grid),
    )
    return _raster(grid, wkt, _METRE_DIGITS)


def _shape_only(grid: Grid) -> Properties:
    return {"proj:code": None, "proj:shape": [grid["ny"], grid["nx"]]}


def _raster(grid: Grid, wkt: str, digits: int) -> Properties:
    """Return shape, transform and box of a grid whose x and y are those of its outermost points."""
    (west, east), (north, south) = grid["x"], grid["y"]
    across = (east - west) / (grid["nx"] - 1)
    down = (south - north) / (grid["ny"] - 1)
    # Each point stands for a cell around it.
    west, north = west - across / 2, north - down / 2
    east, south = east + across / 2, south + down / 2
    # Rounded, the step also loses what the points lost when they were written.
    transform = (across, 0.0, west, 0.0, down, north)
    return {
        **_shape_only(grid),
        "proj:wkt2": wkt,
        "proj:transform": [_rounded(value, digits) for value in transform],
        "proj:bbox": [_rounded(value, digits) for value in (west, south, east, north)],
    }


def _ellipsoid(grid: Grid) -> tuple[float, float]:
    major, flattening = grid["earth"]
    return major, flattening


def _geographic_wkt(ellipsoid: tuple[float, float]) -> str:
    return f'GEOGCRS["unknown",{_datum(ellipsoid)},{_DEGREE_AXES}]'


def _rotated_wkt(south_pole: tuple[float, float], ellipsoid: tuple[float, float]) -> str:
    parameters = (
        ("Latitude of the southern pole", south_pole[0]),
        ("Longitude of the southern pole", south_pole[1]),
        ("Axis rotation", 0),
    )
    told = ",".join(
        f'PARAMETER["{name} (GRIB convention)",{_text(value)},{_UNITS["deg"]}]'
        for name, value in parameters
    )
    return (
        f'GEOGCRS["Rotated globe",BASEGEOGCRS["unknown",{_datum(ellipsoid)}],'
        'DERIVINGCONVERSION["Pole rotation",METHOD["Pole rotation (GRIB convention)"],'
        f"{told}],{_DEGREE_AXES}]"
    )


def _datum(ellipsoid: tuple[float, float]) -> str:
    major, flattening = (_text(value) for value in ellipsoid)
    return (
        f'DATUM["unknown",ELLIPSOID["unknown",{major},{flattening},{_UNITS["m"]}]],'
        f'PRIMEM["Greenwich",0,{_UNITS["deg"]}]'
    )


_DEGREE_AXES = (
    "CS[ellipsoidal,2],"
    f'AXIS["latitude",north,ORDER[1],{_UNITS["deg"]}],'
    f'AXIS["longitude",east,ORDER[2],{_UNITS["deg"]}]'
)


def _rounded(value: float, digits: int) -> float:
    return round(value, digits) + 0.0


#: Kind of a grid → its properties.
_KINDS: dict[str, Callable[[Grid], Properties]] = {
    "gaussian": _gaussian,
    "geostationary": _geostationary,
    "lambert": _lambert,
    "latlon": _latlon,
    "mercator": _mercator,
    "polar_stereographic": _polar_stereographic,
    "rotated_latlon": _rotated_latlon,
}
