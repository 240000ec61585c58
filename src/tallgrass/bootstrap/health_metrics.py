"""The gauges of the whole pipeline: read when somebody asks, and not again for a moment."""

import threading
import time
from collections.abc import Callable

from tallgrass.bootstrap.health import health_report
from tallgrass.config import Config
from tallgrass.errors import TallgrassError
from tallgrass.telemetry import names
from tallgrass.telemetry.exporting_recorder import ExportingRecorder
from tallgrass.telemetry.recorder import NOBODY
from tallgrass.telemetry.sampling import Sampler
from tallgrass.telemetry.series import Collect, Family, Series

#: Of the time, at most: counts take the longer, the more the ledger holds.
_READING_SHARE = 0.05


def collecting_health(
    config: Config,
    *,
    every_s: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[Series], Collect]:
    """Return what makes series tell the pipeline's health, read at most so often."""

    def collecting(series: Series) -> Collect:
        recorder = ExportingRecorder(series, NOBODY, Sampler(0.0))
        return HealthSeries(
            series, health_report(config, recorder), every_s=every_s, monotonic=monotonic
        ).families

    return collecting


class HealthSeries:
    """Series whose gauges are as of now, or gone while they cannot be read."""

    def __init__(
        self,
        series: Series,
        report: Callable[[], None],
        *,
        every_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._series = series
        self._report = report
        self._every_s = every_s
        self._monotonic = monotonic
        self._due_at = monotonic()
        # Several scrapes at once are one reading.
        self._lock = threading.Lock()

    def families(self) -> list[Family]:
        """Read again if it is time, and return all series."""
        with self._lock:
            began = self._monotonic()
            if began >= self._due_at:
                self._read()
                took = self._monotonic() - began
                # Whoever wants it anew each time gets it.
                rest_s = max(self._every_s, took / _READING_SHARE) if self._every_s else 0.0
                self._due_at = began + rest_s
        return self._series.families()

    def _read(self) -> None:
        """Read; a gauge that nobody can read says nothing, rather than what was true once."""
        try:
            self._report()
        except TallgrassError:
            self._series.forget_gauges()
            self._series.gauge(names.HEALTH_READABLE, {(): 0.0})
        else:
            self._series.gauge(names.HEALTH_READABLE, {(): 1.0})
