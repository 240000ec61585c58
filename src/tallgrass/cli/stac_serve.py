"""``tallgrass stac serve``: the catalog as a STAC API, read only."""

import click

from tallgrass.cli.invocation import Invocation, examples, pass_invocation
from tallgrass.cli.serving import address_of, run_server

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
            run_server(app, listener, f"STAC API: http://{address_of(listener)}/")
    finally:
        catalog.close()
