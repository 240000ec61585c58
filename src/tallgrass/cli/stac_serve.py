"""``tallgrass stac serve``: the catalog as a STAC API, read only."""

import signal
import socket
import sys
from types import FrameType

import click

from tallgrass.cli.invocation import Invocation, examples, pass_invocation

PORT = 8080


@click.command(
    epilog=examples(
        "tallgrass stac serve", "tallgrass --database postgresql://… stac serve --port 0"
    )
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to answer at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port to answer at; 0 takes a free one.",
)
@pass_invocation
def serve(invocation: Invocation, *, host: str, port: int) -> None:
    """Serve the catalog as a STAC API until Ctrl-C or SIGTERM.

    It only reads. Its address is the first line that it prints.
    """
    from tallgrass.bootstrap.catalog import open_api  # noqa: PLC0415 - help is quick
    from tallgrass.bootstrap.listening import listen  # noqa: PLC0415

    app, catalog = open_api(invocation.config)
    try:
        with listen(host, port) as listener:
            _run(app, listener)
    finally:
        catalog.close()


def _run(app: object, listener: socket.socket) -> None:
    import uvicorn  # noqa: PLC0415 - optional extra

    class Server(uvicorn.Server):
        """Prints its address once it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                click.echo(f"STAC API: {_url(listener)}")
                sys.stdout.flush()

    def stopped(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: uvicorn has stopped already when it passes the signal on."""

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    config = uvicorn.Config(
        app,  # type: ignore[arg-type] # an ASGI application
        log_level="warning",
        access_log=False,
        lifespan="off",
    )
    Server(config).run(sockets=[listener])


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
