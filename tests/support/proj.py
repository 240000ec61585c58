"""What PROJ says of a coordinate system, by pyproj in a process of its own.

ecCodes brings a PROJ with it, and two of them in one process crash each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_PROGRAM = """
import json, sys
from pyproj import CRS, Transformer
answers = []
for wkt, points in json.load(sys.stdin):
    crs = CRS.from_wkt(wkt)
    # The base of a rotated globe is that from which it was turned.
    base = crs.source_crs if crs.source_crs is not None else crs
    to_degrees = Transformer.from_crs(crs, base, always_xy=True)
    answers.append({
        "name": crs.name,
        "axes": [crs.ellipsoid.semi_major_metre, crs.ellipsoid.inverse_flattening],
        "places": [to_degrees.transform(x, y) for x, y in points],
    })
json.dump(answers, sys.stdout)
"""

_TO_PLANE = """
import json, sys
from pyproj import CRS, Transformer
wkt, places = json.load(sys.stdin)
crs = CRS.from_wkt(wkt)
to_plane = Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
json.dump([to_plane.transform(lon, lat) for lon, lat in places], sys.stdout)
"""


def asked(questions: list[tuple[str, list[tuple[float, float]]]]) -> list[Any]:
    """Return name, axes of the ellipsoid and `places` of points, for each text of a system.

    Places are longitude and latitude of points given as x and y.
    """
    return list(_run(_PROGRAM, questions))


def on_plane(wkt: str, places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return x and y, on the plane of a projected system, of places given as longitude, latitude.

    One that cannot be seen on it is infinitely far away.
    """
    return [(x, y) for x, y in _run(_TO_PLANE, (wkt, places))]


def _run(program: str, question: object) -> Any:
    run = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(run.stdout)
