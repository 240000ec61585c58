"""``tallgrass metrics``: the state of the whole pipeline, for Prometheus."""

import click

from tallgrass.cli.invocation import FiniteRange, Invocation, examples, pass_invocation
from tallgrass.cli.metrics_option import PORT_MAX
from tallgrass.cli.stopping import told_to_stop
from tallgrass.cli.text import log_line

#: Where programs that speak OpenTelemetry answer Prometheus.
PORT = 9464


@click.group(name="metrics", epilog=examples("tallgrass metrics serve"))
def command() -> None:
    """The state of the whole pipeline, for Prometheus."""


@command.command(
    epilog=examples("tallgrass metrics serve", "tallgrass metrics serve --port 0 --every 15")
)
@click.option("--host", metavar="HOST", help="Address to answer at (telemetry.metrics_host).")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    help=f"Port to answer at; 0 takes a free one (telemetry.metrics_port, else {PORT}).",
)
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0, 3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Read database and queue at most so often, and for a twentieth of the time at most;"
    " 0 reads whenever somebody asks.",
)
@pass_invocation
def serve(invocation: Invocation, *, host: str | None, port: int | None, every_s: float) -> None:
    """Answer Prometheus with where the pipeline stands, until Ctrl-C or SIGTERM.

    Backlogs, ages, lags, freshness and error budgets, read from database and queue whenever they
    are asked for. It only reads. What workers count is at their own --metrics-port. One of these is
    enough. The first line that it writes to stderr tells its port.
    """
    from tallgrass.bootstrap.health_metrics import collecting_health  # noqa: PLC0415 - help is quick
    from tallgrass.bootstrap.stores import open_current_stores  # noqa: PLC0415
    from tallgrass.bootstrap.telemetry import chosen_port, open_recorder  # noqa: PLC0415

    config = invocation.use({"telemetry.metrics_host": host})
    # A database that cannot be used is told before anybody asks.
    open_current_stores(config, read_only=True).close()
    chosen = chosen_port(config, port)
    with (
        told_to_stop() as stop,
        open_recorder(
            config,
            log_line,
            metrics_port=PORT if chosen is None else chosen,
            collecting=collecting_health(config, every_s=every_s),
        ),
    ):
        stop.wait()
