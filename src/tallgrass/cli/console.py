"""``tallgrass console``: the operator's pages and their API, behind a link that signs in once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from tallgrass.cli.identity import TOKEN_VARIABLE
from tallgrass.cli.invocation import Invocation, examples, pass_invocation
from tallgrass.cli.serving import address_of, run_server
from tallgrass.errors import ConfigError, Refused

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tallgrass.api.service import Service
    from tallgrass.config import Config
    from tallgrass.governance.actors import Actor

PORT = 8090
#: Open pages are told to go; what is left after this long is cut off.
_GRACE_S = 10


@click.command(
    name="console",
    epilog=examples(
        "tallgrass console",
        "tallgrass console --store postgresql://… --port 0",
        "TALLGRASS_TOKEN=tg_… tallgrass console",
    ),
)
@click.option("--store", metavar="URL", help="The database (database.url).")
@click.option("--queue", metavar="URL", help="The queue to look at (queue.url).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to answer at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="Port to answer at; 0 takes a free one.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further name by which browsers may ask for the console; repeatable "
    "(console.allowed_hosts).",
)
@click.option("--tls-certificate", metavar="FILE", help="Answer by HTTPS, with this certificate.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key.")
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Believe what a proxy on this machine says of scheme and address (X-Forwarded-…).",
)
@click.option(
    "--allow-plain-http",
    is_flag=True,
    help="Answer other machines without encryption, where the network itself is trusted.",
)
@pass_invocation
def command(  # noqa: PLR0913 - one an option
    invocation: Invocation,
    *,
    store: str | None,
    queue: str | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    tls_certificate: str | None,
    tls_key: str | None,
    behind_proxy: bool,
    allow_plain_http: bool,
) -> None:
    """See and steer the pipeline in a browser, with its API.

    Serves the operator's console until Ctrl-C or SIGTERM.

    The link that it prints signs in once: as the actor of TALLGRASS_TOKEN, or as a viewer, who can
    change nothing. Others sign in with their own tokens.
    """
    config = invocation.use({"database.url": store, "queue.url": queue})
    tls = _tls(tls_certificate, tls_key)
    _require_safe(host, encrypted=tls is not None, plain=allow_plain_http)
    service, app = _open(config, host, names)
    try:
        actor = _actor(service)
        from tallgrass.bootstrap.listening import listen  # noqa: PLC0415 - help is quick

        with listen(host, port) as listener:
            link = urlencode({"link": service.sessions.make_link(actor)})
            address = f"{'http' if tls is None else 'https'}://{address_of(listener)}"
            run_server(
                app,
                listener,
                f"Console: {address}/sign-in?{link}",
                # So that the first page finds figures already.
                begun=service.figures.start,
                # Live streams would keep it from ending.
                ending=service.figures.end_listening,
                server_header=False,
                proxy_headers=behind_proxy,
                timeout_graceful_shutdown=_GRACE_S,
                **_encryption(tls),
            )
    finally:
        service.close()


def _tls(certificate: str | None, key: str | None) -> tuple[str, str] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        message = "--tls-certificate and --tls-key go together"
        raise click.UsageError(message)
    for file in (certificate, key):
        if not os.access(file, os.R_OK):
            raise ConfigError(f"{file} cannot be read")
    return certificate, key


def _encryption(tls: tuple[str, str] | None) -> dict[str, str]:
    return {} if tls is None else {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]}


def _require_safe(host: str, *, encrypted: bool, plain: bool) -> None:
    """Refuse to send sessions over a network in the clear, unless somebody says so."""
    from tallgrass.api.hosts import is_loopback  # noqa: PLC0415 - loads the web's libraries

    if not (is_loopback(host) or encrypted or plain):
        message = f"{host} is reached by other machines, and nothing is encrypted"
        raise Refused(message, code="console_exposed")


def _open(config: Config, host: str, names: tuple[str, ...]) -> tuple[Service, FastAPI]:
    try:
        from tallgrass.api.service import open_service  # noqa: PLC0415 - optional extra
        from tallgrass.console.app import create_console  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ConfigError("console: its libraries are not installed", code="web_missing") from exc
    service = open_service(config, hosts=frozenset({host.lower(), *(n.lower() for n in names)}))
    try:
        return service, create_console(service)
    except BaseException:
        service.close()
        raise


def _actor(service: Service) -> Actor | None:
    """Return whom the link signs in; a database that cannot be used ends the command here."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        with service.reading.lent():
            return None
    with service.writing.lent() as stores:
        return stores.actors.authenticate(token, action="console")
