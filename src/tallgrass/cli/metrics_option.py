"""The option of long-running commands that opens a port for Prometheus."""

from collections.abc import Callable
from typing import Any

import click

PORT_MAX = 65_535


def metrics_port_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--metrics-port`."""
    return click.option(
        "--metrics-port",
        type=click.IntRange(0, PORT_MAX),
        metavar="PORT",
        help="Answer Prometheus at this port meanwhile; 0 takes a free one, which the log tells"
        " (telemetry.metrics_port).",
    )(command)
