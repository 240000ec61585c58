"""Telemetry of replays, drains and backfills: sent to a collector if one is named."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.config import Config
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.replay_report import reported_command


def recorded(config: Config, command: str) -> AbstractContextManager[Recorder]:
    """Record what one call of a command does.

    It opens no port for Prometheus: `telemetry.metrics_port` is for workers.
    """
    own = replace(config, values={**config.values, "telemetry.metrics_port": 0})
    return open_recorder(own, None, command=command)


@contextmanager
def reported(config: Config, command: str, *, dry_run: bool = False) -> Iterator[Recorder]:
    """Record what a call does, and report that a replay or a drain was called."""
    with (
        recorded(config, command) as recorder,
        reported_command(recorder, command, dry_run=dry_run),
    ):
        yield recorder
