"""Energy of ingest: what the process took, measured where its batches are reported.

CPU time is the whole process's, so that reading objects and keeping the lease count too; a process
is one worker. Time between batches belongs to the next one. Each worker adds lines of its own to
one file, each written at once, so a crash leaves whole lines. A line that cannot be written is
dropped and counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from tallgrass.clock import Clock, format_instant
from tallgrass.telemetry import names
from tallgrass.telemetry.energy import METHOD, EnergyCoefficients
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.trace_context import SpanPlace

#: A line sums up at least so much time, unless the process ends before.
LINE_EVERY_S: Final = 10.0


@dataclass(slots=True)
class _Work:
    """What was done since the last line."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    attempts: int = 0
    bytes_ingested: int = 0
    energy_wh: float = 0.0
    carbon_gco2e: float = 0.0


class MeteringRecorder:
    """Passes everything on, and adds energy and carbon at the end of each batch."""

    #: Batches must be reported to be measured, whoever else listens.
    enabled = True

    def __init__(
        self,
        inner: Recorder,
        coefficients: EnergyCoefficients,
        write_line: Callable[[Mapping[str, object]], None] | None,
        *,
        clock: Clock,
        cpu_s: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._inner = inner
        self._coefficients = coefficients
        self._write_line = write_line
        self._clock = clock
        self._cpu_s = cpu_s
        self._monotonic = monotonic
        self._measured = (cpu_s(), monotonic())
        self._work = _Work()
        #: Whether the last line could not be written.
        self._is_down = False

    @property
    def tracing(self) -> bool:
        """Whether spans are kept."""
        return self._inner.tracing

    def samples(self, trace_id: str) -> bool:
        """Tell whether spans of a trace are kept."""
        return self._inner.samples(trace_id)

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add to a counter."""
        if name == names.BYTES_INGESTED:
            self._work.bytes_ingested += int(value)
        self._inner.count(name, value, **labels)

    def observe(self, name: str, values: Sequence[float], **labels: str) -> None:
        """Add to a histogram; the time of a batch is its end."""
        if name == names.WAL_ATTEMPTS:
            self._work.attempts += len(values)
        self._inner.observe(name, values, **labels)
        if name == names.BATCH_SECONDS:
            self._measure()
            if self._work.wall_s >= LINE_EVERY_S:
                self._end_line()

    def gauge(self, name: str, readings: Mapping[tuple[str, ...], float]) -> None:
        """Say where a gauge stands."""
        self._inner.gauge(name, readings)

    def span(
        self,
        name: str,
        started_at: datetime,
        ended_at: datetime,
        attributes: Mapping[str, object],
        place: SpanPlace | None = None,
    ) -> None:
        """Note a stretch of time."""
        self._inner.span(name, started_at, ended_at, attributes, place)

    def event(self, name: str, **fields: object) -> None:
        """Write a line of the log."""
        self._inner.event(name, **fields)

    def close(self) -> None:
        """Write what was measured since the last line, if anything was done."""
        if self._work.attempts:
            self._end_line()

    def _measure(self) -> None:
        cpu_s, wall_s = self._cpu_s(), self._monotonic()
        before = self._measured
        self._measured = (cpu_s, wall_s)
        took = (max(cpu_s - before[0], 0.0), max(wall_s - before[1], 0.0))
        use = self._coefficients.use(*took)
        work = self._work
        work.cpu_s, work.wall_s = work.cpu_s + took[0], work.wall_s + took[1]
        work.energy_wh += use.energy_wh
        work.carbon_gco2e += use.carbon_gco2e
        self._inner.count(names.ENERGY_KWH, use.energy_wh / 1000)
        self._inner.count(names.CARBON_GCO2E, use.carbon_gco2e)

    def _end_line(self) -> None:
        work, self._work = self._work, _Work()
        if self._write_line is None:
            return
        line = {
            "at": format_instant(self._clock()),
            **asdict(work),
            "estimated": True,
            "method": METHOD,
            "coefficients": asdict(self._coefficients),
        }
        try:
            self._write_line(line)
        except OSError:  # whoever works must not fail because somebody measures
            self._inner.count(names.TELEMETRY_DROPPED, 1, signal="energy", reason="unwritable")
            if not self._is_down:
                self._inner.event(names.TELEMETRY_UNDELIVERED, signal="energy", lines=1)
            self._is_down = True
        else:
            self._is_down = False
