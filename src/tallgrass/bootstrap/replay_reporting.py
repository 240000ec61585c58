"""Telemetry of what replays or drains: sent where a collector is named, else none."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.config import Config
from tallgrass.telemetry.recorder import Recorder
from tallgrass.telemetry.replay_report import reported_command


@contextmanager
def reported(config: Config, command: str, *, dry_run: bool = False) -> Iterator[Recorder]:
    """Report one call of a command, and what it does.

    The port at which workers answer Prometheus is theirs, not this one's.
    """
    own = replace(config, values={**config.values, "telemetry.metrics_port": 0})
    with (
        open_recorder(own, None, command=command) as recorder,
        reported_command(recorder, command, dry_run=dry_run),
    ):
        yield recorder
