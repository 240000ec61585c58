"""Runs and lead times as STAC properties (forecast extension 0.2.0)."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from tallgrass.clock import format_instant

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)


def forecast_properties(
    reference: datetime, valid: datetime | None, header: Mapping[str, object]
) -> dict[str, object]:
    """Return the properties of a forecast of the run at `reference`.

    It is for the time `valid`, or for several if that is None. `interval_s` of the header is how
    long the sums or means in it are, if all are alike.
    """
    values: dict[str, object] = {"forecast:reference_datetime": format_instant(reference)}
    if valid is not None and valid >= reference:  # An hour before its run is no forecast.
        values["forecast:horizon"] = duration_text(valid - reference)
    interval = header.get("interval_s")
    if isinstance(interval, int):
        values["forecast:duration"] = duration_text(timedelta(seconds=interval))
    return values


def duration_text(span: timedelta) -> str:
    """Write a span of time as ISO 8601 does: PT0H, PT18H, PT1H15M."""
    hours, rest = divmod(span, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    text = f"PT{hours}H" if hours or not (minutes or rest) else "PT"
    text += f"{minutes}M" if minutes else ""
    return text + (f"{rest // timedelta(seconds=1)}S" if rest else "")
