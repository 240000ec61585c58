"""Planes on which grids are regular: from latitude and longitude to x and y, and back.

All are computed on a sphere, as the models that use them are; an ellipsoid would move a grid's edge
by hundredths of a degree at most. x and y are those of PROJ for the same parameters, in metres, or
in degrees on a rotated globe. Angles are degrees.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

#: x and y, or latitude and longitude.
Point = tuple[float, float]

_HALF_CIRCLE = 180.0
_FULL_CIRCLE = 360.0
_POLE = 90.0


class Plane(Protocol):
    """A map."""

    @property
    def poles(self) -> tuple[float, ...]:
        """The latitudes of the poles that it shows."""

    def to_plane(self, latitude: float, longitude: float) -> Point:
        """Return x and y of a place."""

    def from_plane(self, x: float, y: float) -> Point:
        """Return latitude and longitude of a point."""


def wrapped(longitude: float) -> float:
    """Return a longitude from -180 on, below 180."""
    return (longitude + _HALF_CIRCLE) % _FULL_CIRCLE - _HALF_CIRCLE


@dataclass(slots=True)
class Lambert:
    """Lambert's conformal cone; y counts from `origin`, a latitude."""

    radius: float
    parallels: tuple[float, float]
    origin: float
    meridian: float
    poles: tuple[float, ...] = field(init=False)
    _n: float = field(init=False)
    _scale: float = field(init=False)
    _origin_rho: float = field(init=False)

    def __post_init__(self) -> None:
        if any(abs(each) > _POLE for each in self.parallels):
            raise ValueError("a parallel beyond the pole")
        one, two = (math.radians(each) for each in self.parallels)
        if math.isclose(one, two, abs_tol=1e-9):
            self._n = math.sin(one)
        else:
            ratio = math.log(math.cos(one) / math.cos(two))
            self._n = ratio / math.log(_half(two) / _half(one))
        self._scale = self.radius * math.cos(one) * _half(one) ** self._n / self._n
        self.poles = (math.copysign(_POLE, self._n),)
        self._origin_rho = self._rho(self.origin)

    def _rho(self, latitude: float) -> float:
        if latitude in self.poles:
            return 0.0
        if abs(latitude) > _POLE:
            # A power of what is negative there would be a complex number.
            raise ValueError("a latitude beyond the pole")
        return float(self._scale / _half(math.radians(latitude)) ** self._n)

    def to_plane(self, latitude: float, longitude: float) -> Point:
        """Return x and y of a place."""
        rho = self._rho(latitude)
        theta = math.radians(self._n * wrapped(longitude - self.meridian))
        return rho * math.sin(theta), self._origin_rho - rho * math.cos(theta)

    def from_plane(self, x: float, y: float) -> Point:
        """Return latitude and longitude of a point."""
        side, down = math.copysign(1.0, self._n), self._origin_rho - y
        theta = math.atan2(side * x, side * down)
        rho = math.hypot(x, down)
        if not rho:
            return self.poles[0], self.meridian
        latitude = 2 * math.atan(abs(self._scale / rho) ** (1 / self._n)) - math.pi / 2
        return math.degrees(latitude), wrapped(self.meridian + math.degrees(theta) / self._n)


@dataclass(slots=True)
class PolarStereographic:
    """A plane through the `parallel` on which lengths are true, seen from the other pole."""

    radius: float
    parallel: float
    meridian: float
    #: 1 for the north pole, -1 for the south pole.
    side: float
    poles: tuple[float, ...] = field(init=False)
    _scale: float = field(init=False)

    def __post_init__(self) -> None:
        self.poles = (self.side * _POLE,)
        self._scale = self.radius * (1 + math.sin(math.radians(abs(self.parallel))))

    def to_plane(self, latitude: float, longitude: float) -> Point:
        """Return x and y of a place."""
        rho = self._scale * math.tan(math.radians(_POLE - self.side * latitude) / 2)
        theta = math.radians(longitude - self.meridian)
        return rho * math.sin(theta), -self.side * rho * math.cos(theta)

    def from_plane(self, x: float, y: float) -> Point:
        """Return latitude and longitude of a point."""
        away = 2 * math.degrees(math.atan(math.hypot(x, y) / self._scale))
        theta = math.atan2(x, -self.side * y)
        return self.side * (_POLE - away), wrapped(self.meridian + math.degrees(theta))


@dataclass(slots=True)
class Mercator:
    """Mercator's cylinder, true to length on the `parallel`; it shows no pole."""

    radius: float
    parallel: float
    meridian: float
    poles: tuple[float, ...] = ()

    def to_plane(self, latitude: float, longitude: float) -> Point:
        """Return x and y of a place."""
        scale = self.radius * math.cos(math.radians(self.parallel))
        x = scale * math.radians(wrapped(longitude - self.meridian))
        return x, scale * math.log(_half(math.radians(latitude)))

    def from_plane(self, x: float, y: float) -> Point:
        """Return latitude and longitude of a point."""
        scale = self.radius * math.cos(math.radians(self.parallel))
        latitude = 2 * math.atan(math.exp(y / scale)) - math.pi / 2
        return math.degrees(latitude), wrapped(self.meridian + math.degrees(x / scale))


@dataclass(slots=True)
class RotatedGlobe:
    """Longitudes and latitudes of a globe that was turned: x and y are degrees.

    As GRIB has it: the south pole moves to `south_pole` (latitude, longitude).
    """

    south_pole: Point
    poles: tuple[float, ...] = (_POLE, -_POLE)

    def to_plane(self, latitude: float, longitude: float) -> Point:
        """Return x and y of a place."""
        phi, turn = math.radians(latitude), math.radians(longitude - self.south_pole[1])
        tilt = math.radians(self.south_pole[0] + _POLE)
        x, y, z = math.cos(phi) * math.cos(turn), math.cos(phi) * math.sin(turn), math.sin(phi)
        x, z = x * math.cos(tilt) + z * math.sin(tilt), z * math.cos(tilt) - x * math.sin(tilt)
        return math.degrees(math.atan2(y, x)), _arcsine(z)

    def from_plane(self, x: float, y: float) -> Point:
        """Return latitude and longitude of a point."""
        phi, turn = math.radians(y), math.radians(x)
        tilt = math.radians(self.south_pole[0] + _POLE)
        a, b, c = math.cos(phi) * math.cos(turn), math.cos(phi) * math.sin(turn), math.sin(phi)
        a, c = a * math.cos(tilt) - c * math.sin(tilt), c * math.cos(tilt) + a * math.sin(tilt)
        return _arcsine(c), wrapped(self.south_pole[1] + math.degrees(math.atan2(b, a)))


def _half(latitude: float) -> float:
    return math.tan(math.pi / 4 + latitude / 2)


def _arcsine(value: float) -> float:
    return math.degrees(math.asin(max(-1.0, min(1.0, value))))
