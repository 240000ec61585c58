"""Small GRIB2 messages on grids of each kind, written by ecCodes."""

from __future__ import annotations

import eccodes


def projected(kind: str, **keys: float) -> bytes:
    """Return a message of 20 by 15 points on a grid of some kind."""
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(message, "gridType", kind)
    values = {"shapeOfTheEarth": 6, "Nx": 20, "Ny": 15, "scanningMode": 64, **keys}
    for name, value in values.items():
        eccodes.codes_set(message, name, value)
    eccodes.codes_set_values(message, [float(number) for number in range(300)])
    data = bytes(eccodes.codes_get_message(message))
    eccodes.codes_release(message)
    return data


def polar(**keys: float) -> bytes:
    """Return a polar grid over Alaska, across the antimeridian."""
    values = {
        "latitudeOfFirstGridPoint": 41_612_949,
        "longitudeOfFirstGridPoint": 185_117_126,
        "LaD": 60_000_000,
        "orientationOfTheGrid": 225_000_000,
        "DxInMetres": 150_000,
        "DyInMetres": 150_000,
    }
    return projected("polar_stereographic", **values | keys)


def around_the_pole(**keys: float) -> bytes:
    """Return a grid with the north pole in it."""
    values = {
        "latitudeOfFirstGridPoint": 70_000_000,
        "longitudeOfFirstGridPoint": 180_000_000,
        "DxInMetres": 300_000,
        "DyInMetres": 300_000,
    }
    return polar(**values | keys)


def southern_polar(**keys: float) -> bytes:
    """Return a polar grid of the south, beside the pole."""
    values = {
        "latitudeOfFirstGridPoint": -60_000_000,
        "longitudeOfFirstGridPoint": 20_000_000,
        "LaD": -71_000_000,
        "orientationOfTheGrid": 0,
        "projectionCentreFlag": 128,
        "DxInMetres": 50_000,
        "DyInMetres": 50_000,
    }
    return projected("polar_stereographic", **values | keys)


def lambert(**keys: float) -> bytes:
    """Return a cone over Australia, with two parallels."""
    values = {
        "latitudeOfFirstGridPoint": -45_000_000,
        "longitudeOfFirstGridPoint": 130_000_000,
        "LaD": -35_000_000,
        "LoV": 135_000_000,
        "Latin1": -30_000_000,
        "Latin2": -40_000_000,
        "DxInMetres": 50_000,
        "DyInMetres": 50_000,
        "projectionCentreFlag": 128,
    }
    return projected("lambert", **values | keys)


def mercator(**keys: float) -> bytes:
    """Return a grid over the Pacific, across the antimeridian.

    19 steps of 100 km, true at 20 degrees: 19 * 100 / (6371.229 cos 20°) radians.
    """
    values = {
        "latitudeOfFirstGridPoint": 10_000_000,
        "longitudeOfFirstGridPoint": 172_000_000,
        "LaD": 20_000_000,
        "latitudeOfLastGridPoint": 22_865_000,
        "longitudeOfLastGridPoint": 190_183_375,
        "DiInMetres": 100_000,
        "DjInMetres": 100_000,
    }
    return projected("mercator", **values | keys)


def latlon(west: float, east: float, **keys: float) -> bytes:
    """Return 16 by 16 points, 2 degrees apart, from the equator to 30 degrees north."""
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    values = {
        "Ni": 16,
        "Nj": 16,
        "latitudeOfFirstGridPointInDegrees": 30.0,
        "latitudeOfLastGridPointInDegrees": 0.0,
        "longitudeOfFirstGridPointInDegrees": west,
        "longitudeOfLastGridPointInDegrees": east,
        "iDirectionIncrementInDegrees": 2.0,
        "jDirectionIncrementInDegrees": 2.0,
        **keys,
    }
    for name, value in values.items():
        eccodes.codes_set(message, name, value)
    data = bytes(eccodes.codes_get_message(message))
    eccodes.codes_release(message)
    return data


def rotated(**keys: float) -> bytes:
    """Return a grid of a globe that was turned, over Europe."""
    values = {
        "latitudeOfFirstGridPointInDegrees": -10.0,
        "latitudeOfLastGridPointInDegrees": 4.0,
        "longitudeOfFirstGridPointInDegrees": 350.0,
        "longitudeOfLastGridPointInDegrees": 9.0,
        "iDirectionIncrementInDegrees": 1.0,
        "jDirectionIncrementInDegrees": 1.0,
        "latitudeOfSouthernPoleInDegrees": -40.0,
        "longitudeOfSouthernPoleInDegrees": 10.0,
    }
    return projected("rotated_ll", **values | keys)


def gaussian() -> bytes:
    """Return a global grid of the Gaussian latitudes."""
    message = eccodes.codes_grib_new_from_samples("regular_gg_sfc_grib2")
    data = bytes(eccodes.codes_get_message(message))
    eccodes.codes_release(message)
    return data


#: Kinds that PROJ and ecCodes both know.
_MAKERS = {
    "polar": polar,
    "around the pole": around_the_pole,
    "southern polar": southern_polar,
    "lambert": lambert,
    "mercator": mercator,
    "rotated": rotated,
}
NAMES = tuple(_MAKERS)


def files() -> dict[str, bytes]:
    """Return a message of each kind."""
    return {name: make() for name, make in _MAKERS.items()}
