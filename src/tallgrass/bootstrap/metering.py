"""Puts the energy meter around a process's recorder."""

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields

import orjson

from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.telemetry.energy import EnergyCoefficients
from tallgrass.telemetry.metering_recorder import MeteringRecorder
from tallgrass.telemetry.recorder import Recorder


@contextmanager
def metered(
    config: Config, inner: Recorder, *, exported: bool, clock: Clock = system_clock
) -> Iterator[Recorder]:
    """Measure where metrics are exported, or a file is named for it; else change nothing."""
    path = config.text("telemetry.energy_file")
    if not path and not exported:
        yield inner
        return
    with _opened(path) as write_line:
        recorder = MeteringRecorder(
            inner,
            energy_coefficients(config),
            write_line,
            clock=clock,
            cpu_s=time.process_time,
            monotonic=time.monotonic,
        )
        try:
            yield recorder
        finally:
            recorder.close()


def energy_coefficients(config: Config) -> EnergyCoefficients:
    """Return the configured figures; whoever changes a published one must name its source."""
    plain = EnergyCoefficients()
    given = {name: config.values[f"telemetry.energy_{name}"] for name in _names()}
    changed = {
        name: value
        for name, value in given.items()
        if value not in {getattr(plain, name), ""}  # an empty source is the published one
    }
    try:
        return EnergyCoefficients.of(changed)
    except InvalidInput as exc:
        raise ConfigError(f"[telemetry] {exc}") from exc


def _names() -> list[str]:
    return [each.name for each in fields(EnergyCoefficients)]


@contextmanager
def _opened(path: str) -> Iterator[Callable[[Mapping[str, object]], None] | None]:
    """Open the file that lines are added to; several processes may share it."""
    if not path:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise ConfigError(f"telemetry.energy_file: {exc.strerror}: {path}") from exc
    try:
        yield _Lines(descriptor).append
    finally:
        os.close(descriptor)


class _Lines:
    """Adds lines to a file; a piece of one, where a disk was full, ends where it is."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_torn = False

    def append(self, line: Mapping[str, object]) -> None:
        """Add a line, or raise what the file answers."""
        data = orjson.dumps(dict(line), option=orjson.OPT_APPEND_NEWLINE)
        # One write a line: what others write at the same time comes before it or after it.
        written = os.write(self._descriptor, b"\n" + data if self._is_torn else data)
        whole = len(data) + self._is_torn
        self._is_torn = written < whole
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
