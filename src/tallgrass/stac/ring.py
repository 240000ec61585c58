"""Rings of points on a plane: area, whether one crosses itself, and how a meridian cuts it.

Rings are open: the last point is joined to the first. Numbers have six digits.
"""

from itertools import pairwise
from typing import NamedTuple

from tallgrass.errors import InvalidInput
from tallgrass.stac.geometry import DIGITS

Point = tuple[float, float]
Ring = list[Point]

_POINTS_MIN = 3
#: Finer than the numbers of a ring, coarser than the errors of a division.
_FINE_DIGITS = 9
#: Square degrees: far more than the error of a product, far less than a footprint has.
_SIDE_MIN = 1e-6


def without_repetition(ring: Ring) -> Ring:
    """Return the ring without points that repeat the one before."""
    kept = [ring[0], *(point for before, point in pairwise(ring) if point != before)]
    return kept[:-1] if len(kept) > 1 and kept[-1] == kept[0] else kept


def moved(ring: Ring, degrees: float) -> Ring:
    """Return the ring further east."""
    return [(round(x + degrees, DIGITS) + 0.0, y) for x, y in ring]


def area_of(ring: Ring) -> float:
    """Return the signed area; counter-clockwise is positive."""
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairwise([*ring, ring[0]])) / 2


# --- crossing itself ------------------------------------------------------------------------------


def crosses_itself(ring: Ring) -> bool:
    """Tell whether two edges share more than the point where they follow each other."""
    if _is_star(ring):
        return False
    return _edges_meet([*ring, ring[0]], len(ring), last_joins_first=True)


def crosses_itself_round(path: Ring, turn: float) -> bool:
    """Tell the same of a path round a cylinder, which comes back to its first point after a turn.

    It is compared with itself as it goes round once more.
    """
    again = moved(path, turn)
    if all(a[0] < b[0] for a, b in pairwise([*path, again[0]])):
        return False
    end = moved(path[:1], 2 * turn)
    return _edges_meet([*path, *again, *end], len(path), last_joins_first=False)


def _is_star(ring: Ring) -> bool:
    """Tell whether all of a ring is seen from its middle, one point after the other.

    It cannot cross itself then, and nearly every footprint is such a ring: 8 µs for 24 points,
    against 60 µs to compare their edges.
    """
    count = len(ring)
    x0, y0 = sum(x for x, _ in ring) / count, sum(y for _, y in ring) / count
    x1, y1 = ring[-1][0] - x0, ring[-1][1] - y0
    left = right = up = 0
    for x, y in ring:
        x2, y2 = x - x0, y - y0
        side = x1 * y2 - x2 * y1
        left += side > _SIDE_MIN
        right += side < -_SIDE_MIN
        up += y1 < 0 <= y2
        x1, y1 = x2, y2
    # Always to the same side, and upwards once: round the middle a single time.
    return count in {left, right} and up == 1


def _edges_meet(path: Ring, count: int, *, last_joins_first: bool) -> bool:
    """Compare the first `count` edges of a path with all of its edges."""
    edges = [
        (a[0], b[0], number, a, b) if a[0] < b[0] else (b[0], a[0], number, a, b)
        for number, (a, b) in enumerate(pairwise(path))
    ]
    # By their west ends: an edge need not be compared with those that begin east of it.
    edges.sort()
    around = count - 1 if last_joins_first else -1
    for place, (_, east, number, a, b) in enumerate(edges, 1):
        low, high = (a[1], b[1]) if a[1] < b[1] else (b[1], a[1])
        for west, _, other, c, d in edges[place:]:
            if west > east:
                break
            if (c[1] < low and d[1] < low) or (c[1] > high and d[1] > high):
                continue
            if number >= count and other >= count:
                continue
            step = other - number
            if step in {1, -around}:
                meet = _turns_back(a, b, d)
            elif step in {-1, around}:
                meet = _turns_back(c, d, b)
            else:
                meet = _touch(a, b, c, d)
            if meet:
                return True
    return False


def _side(a: Point, b: Point, point: Point) -> float:
    """Return on which side of the line from a to b a point lies; left is positive."""
    return (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0])


def _touch(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Tell whether the edges a-b and c-d, whose boxes overlap, share a point."""
    if _side(a, b, c) * _side(a, b, d) > 0:
        return False
    return _side(c, d, a) * _side(c, d, b) <= 0


def _turns_back(a: Point, b: Point, c: Point) -> bool:
    """Tell whether the way from a over b to c goes back on itself."""
    if _side(a, b, c):
        return False
    return (b[0] - a[0]) * (c[0] - b[0]) + (b[1] - a[1]) * (c[1] - b[1]) < 0


# --- cutting --------------------------------------------------------------------------------------


def cut_at(ring: Ring, meridian: float) -> tuple[list[Ring], list[Ring]]:
    """Return the parts of a ring west and east of a meridian; they meet exactly there.

    The ring must not cross itself. Its parts run in its own direction.
    """
    if all(x <= meridian for x, _ in ring):
        return [ring], []
    if all(x >= meridian for x, _ in ring):
        return [], [ring]
    # For each side, a point on the meridian counts as beyond it: so a ring that only touches the
    # meridian there, or runs along it, falls apart and does not touch itself.
    east = _west_of(_mirrored(ring), -meridian)
    return _west_of(ring, meridian), [_mirrored(part) for part in east]


def _mirrored(ring: Ring) -> Ring:
    return [(-x, y) for x, y in ring]


class _End(NamedTuple):
    """Where a chain of points begins or ends on the meridian; in order from south to north."""

    latitude: float
    #: How steeply the chain goes on to the west of it, where two meet.
    slope: float
    chain: int
    begins: bool


def _west_of(ring: Ring, meridian: float) -> list[Ring]:
    """Return the parts of a ring that has points on either side."""
    start = next(n for n in range(len(ring)) if ring[n][0] < meridian <= ring[n - 1][0])
    turned = [*ring[start:], *ring[:start]]
    chains: list[Ring] = []
    ends: list[_End] = []
    for before, point, after in zip(
        [turned[-1], *turned], turned, [*turned[1:], turned[0]], strict=False
    ):
        if point[0] >= meridian:
            continue
        if before[0] >= meridian:
            ends.append(_end(point, before, meridian, len(chains), begins=True))
            chains.append([(meridian, round(ends[-1].latitude, DIGITS) + 0.0)])
        chains[-1].append(point)
        if after[0] >= meridian:
            ends.append(_end(point, after, meridian, len(chains) - 1, begins=False))
            chains[-1].append((meridian, round(ends[-1].latitude, DIGITS) + 0.0))
    return _joined(chains, ends)


def _end(west: Point, east: Point, meridian: float, chain: int, *, begins: bool) -> _End:
    (x1, y1), (x2, y2) = west, east
    # Written so that from the other side the very same number comes out.
    latitude = (y1 * (x2 - meridian) + y2 * (meridian - x1)) / (x2 - x1)
    slope = (y1 - y2) / (x2 - x1)
    return _End(round(latitude, _FINE_DIGITS), slope, chain, begins)


def _joined(chains: list[Ring], ends: list[_End]) -> list[Ring]:
    """Join chains to rings along the meridian.

    From south to north inside and outside take turns, so each pair of ends bounds an inside.
    """
    ends = sorted(ends)
    follows = {}
    for one, two in zip(ends[::2], ends[1::2], strict=True):
        if one.begins == two.begins:
            raise InvalidInput("a ring that crosses itself cannot be cut")
        first, second = (two, one) if one.begins else (one, two)
        follows[first.chain] = second.chain
    rings = []
    while follows:
        number = next(iter(follows))
        ring: Ring = []
        while number in follows:
            ring += chains[number]
            number = follows.pop(number)
        rings.append(without_repetition(ring))
    return [ring for ring in rings if len(ring) >= _POINTS_MIN and area_of(ring)]
