"""Plans of one line, as approvals are asked for: one JSON document that says what it is for."""

from typing import Any, Final

import orjson

#: Of such a plan.
PLAN_BYTES_MAX: Final = 1024 * 1024


def read_plan_line(data: bytes, purpose: str) -> dict[str, Any] | None:
    """Return what a plan of that purpose says; None for any other plan."""
    if len(data) > PLAN_BYTES_MAX or data.count(b"\n") != 1:
        return None
    try:
        said = orjson.loads(data)
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.get("purpose") == purpose else None
