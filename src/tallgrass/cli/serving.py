"""Answers HTTP at a listener until Ctrl-C or SIGTERM: the console and the STAC API."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType


def run_server(
    app: Any,  # an ASGI application
    listener: socket.socket,
    told: str,
    *,
    begun: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    **settings: Any,  # further ones of uvicorn
) -> None:
    """Serve; print `told` once it answers. `begun` is called just before that, `ending` at the end.

    What is done as it begins is there for the first request.
    """
    import uvicorn  # noqa: PLC0415 - optional extra

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            begun()
            if self.started:
                click.echo(told)
                sys.stdout.flush()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            ending()
            await super().shutdown(sockets)

    def stopped(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: uvicorn has stopped already when it passes the signal on."""

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", **settings)
    Server(config).run(sockets=[listener])


def address_of(listener: socket.socket) -> str:
    """Return host and port as an address has them."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
