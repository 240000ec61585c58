"""For when the messages of a GRIB2 file are, where they are not all for the same time."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tallgrass.clock import format_instant

#: So many fit into the evidence beside everything else; a forecast of the offices has some 70.
STEPS_MAX = 128

_SECOND = timedelta(seconds=1)

Valid = tuple[datetime, datetime]


def steps_of(reference: datetime, valid: Sequence[Valid]) -> dict[str, object]:
    """Return the distinct steps in seconds after the reference time, from and to."""
    distinct = sorted({((a - reference) // _SECOND, (b - reference) // _SECOND) for a, b in valid})
    told: dict[str, object] = {"steps_s": [list(step) for step in distinct[:STEPS_MAX]]}
    if len(distinct) > STEPS_MAX:
        told["steps"] = len(distinct)
    return told


def span_of(valid: Sequence[Valid]) -> tuple[datetime, datetime]:
    """Return the first and the last time that the messages are for.

    A sum or mean is for the end of its interval, as beside an instant it always is; the first
    counts from its begin only where a file holds nothing else.
    """
    intervals = all(start < end for start, end in valid)
    first = min(start if intervals else end for start, end in valid)
    return first, max(end for _, end in valid)


def interval_s(valid: Sequence[Valid]) -> int:
    """Return how long the interval of every message is, 0 where they differ or have none."""
    lengths = {(end - start) // _SECOND for start, end in valid}
    return lengths.pop() if len(lengths) == 1 else 0


def span_texts(valid: Sequence[Valid]) -> dict[str, object]:
    """Return the span as the evidence has it."""
    start, end = span_of(valid)
    return {"start": format_instant(start), "end": format_instant(end)}
