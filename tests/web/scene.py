"""Seven items that the API's tests know by heart."""

from __future__ import annotations

from tests.support.catalog import HOUR, NOON, Known

KANSAS = (-102.0, 37.0, -94.6, 40.0)
PACIFIC = (170.0, -10.0, -170.0, 10.0)

ITEMS = [
    Known(id="glm-1", box=KANSAS, at=NOON, span=(NOON - HOUR / 2, NOON + HOUR / 2)),
    Known(id="glm-2", box=PACIFIC, at=NOON + HOUR),
    Known(id="glm-3", box=None, at=NOON + 2 * HOUR),
    Known(id="hrrr-1", collection="hrrr", box=KANSAS, at=NOON + HOUR),
    Known(id="hrrr-2", collection="hrrr", box=KANSAS, at=NOON + 3 * HOUR),
    Known(id="hrrr-3", collection="hrrr", box=(0.0, 0.0, 0.0, 0.0), at=NOON + 4 * HOUR),
    Known(id="nexrad-1", collection="nexrad-l2", box=(-98.0, 36.0, -96.0, 38.0), at=NOON),
]
BY_ID = {item.id: item for item in ITEMS}
