"""Telemetry of commands that replay or drain."""

from tallgrass.bootstrap.replay_reporting import reported

__all__ = ["reported"]
