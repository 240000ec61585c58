"""Small GRIB2 files: one message on a few points of the HRRR's Lambert plane.

Layout: WMO Manual on Codes, FM 92: sections 0, 1, 3 (template 30), 4 (0), 5 (0), 6, 7 and 8.
ecCodes reads them.
"""

from collections.abc import Sequence
from datetime import datetime
from struct import pack

#: National Centers for Environmental Prediction.
_CENTRE = 7
_SPHERE = 6
#: First point, orientation and secants of the HRRR's grid, in millionths of a degree.
_LATITUDE, _LONGITUDE = 21_138_123, 237_280_472
_ORIENTATION, _SECANT = 262_500_000, 38_500_000
_SPACING_M = 3_000.0
_MISSING = 255
_HOURS = 1
#: Temperature, category and number in discipline 0, 2 m above ground.
_TEMPERATURE = (0, 0)
_ABOVE_GROUND = 103
_KELVIN_MIN = 250.0


def grib2_message(
    *,
    reference: datetime,
    forecast_hours: int,
    nx: int,
    values: Sequence[int],
    spacing_m: tuple[float, float] = (_SPACING_M, _SPACING_M),
) -> bytes:
    """Return a file of one message; values are tenths of a kelvin above 250 K, from 0 to 255.

    Its points lie `spacing_m` apart, along x and along y.
    """
    ny, rest = divmod(len(values), nx)
    if rest:
        raise ValueError(f"{len(values)} values do not fill rows of {nx}")
    sections = b"".join(
        (
            _section(1, _identification(reference)),
            _section(3, _lambert_grid(nx, ny, spacing_m)),
            _section(4, _product(forecast_hours)),
            # Simple packing: reference value, scales, eight bits a value, floating point.
            _section(5, pack(">IHfHHBB", len(values), 0, _KELVIN_MIN * 10, 0, 1, 8, 0)),
            _section(6, bytes([_MISSING])),
            _section(7, bytes(values)),
        )
    )
    total = 16 + len(sections) + 4
    return b"GRIB" + pack(">HBBQ", 0, 0, 2, total) + sections + b"7777"


def _section(number: int, body: bytes) -> bytes:
    return pack(">IB", 5 + len(body), number) + body


def _identification(reference: datetime) -> bytes:
    # Tables 2 and 1; start of forecast; operational; forecast products.
    time = (reference.month, reference.day, reference.hour, reference.minute, reference.second)
    return pack(">HHBBBHBBBBBBB", _CENTRE, 0, 2, 1, 1, reference.year, *time, 0, 1)


def _lambert_grid(nx: int, ny: int, spacing_m: tuple[float, float]) -> bytes:
    definition = pack(">BIBBH", 0, nx * ny, 0, 0, 30)
    earth = pack(">BBIBIBI", _SPHERE, 0, 0, 0, 0, 0, 0)
    place = pack(
        ">IIIIBIIIIBB",
        nx,
        ny,
        _LATITUDE,
        _LONGITUDE,
        8,
        _SECANT,
        _ORIENTATION,
        *(round(each * 1000) for each in spacing_m),
        0,
        64,
    )
    secants = pack(">IIII", _SECANT, _SECANT, 0, 0)
    return definition + earth + place + secants


def _product(forecast_hours: int) -> bytes:
    surface = pack(">BBIBBI", _ABOVE_GROUND, 0, 2, _MISSING, 0, 0)
    return (
        pack(">HHBBBBBHBBI", 0, 0, *_TEMPERATURE, 2, 0, 83, 0, 0, _HOURS, forecast_hours) + surface
    )
