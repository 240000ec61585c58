"""An emulator of Amazon's services in a process of its own.

Started as `python -m tests.support.aws_server KIND`. It listens on loopback, on a port that the
system chose, prints its address, and ends when its standard input does: so it never outlives the
test run, however that ends. A line of input stops its clock at a time (seconds since 1970), or lets
it go again (`real`); each is answered by `ok`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from typing import Any

HOST = "127.0.0.1"
SERVICES = "sqs,sns,s3,cloudformation,iam"
#: Even a stopped clock never tells the same time twice: moto shows a message only after its time.
A_TICK_S = 1e-6

_real_time = time.time
_stopped_at: list[float] = []


def _told_time() -> float:
    if not _stopped_at:
        return _real_time()
    _stopped_at[0] += A_TICK_S
    return _stopped_at[0]


def _obey() -> None:
    """Set the clock as told; end when nobody can tell any more."""
    for line in sys.stdin:
        _stopped_at[:] = [] if line.strip() == "real" else [float(line)]
        print("ok", flush=True)  # noqa: T201 - the answer to the test
    os._exit(0)


def _announce(port: int) -> None:
    print(f"http://{HOST}:{port}", flush=True)  # noqa: T201 - the test waits for it
    threading.Thread(target=_obey, daemon=True).start()


def serve_ministack() -> None:
    """Serve SQS, SNS and S3 with ministack."""
    listening = socket.create_server((HOST, 0))
    port = listening.getsockname()[1]
    # Read when ministack is imported.
    os.environ |= {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "SERVICES": SERVICES,
    }
    from hypercorn.asyncio import serve  # noqa: PLC0415
    from hypercorn.config import Config  # noqa: PLC0415
    from ministack.app import app  # type: ignore[import-untyped]  # noqa: PLC0415

    time.time = _told_time
    config = Config()
    config.bind = [f"fd://{listening.fileno()}"]
    config.keep_alive_timeout = 75
    config.loglevel = "WARNING"
    _announce(port)
    whole: Any = app
    asyncio.run(serve(whole, config))


def serve_moto() -> None:
    """Serve all that moto knows."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        create_backend_app,
    )
    from moto.sqs import models  # noqa: PLC0415
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Handler(WSGIRequestHandler):
        """Keeps connections, as Amazon's servers do; says nothing."""

        protocol_version = "HTTP/1.1"

        def log(self, *_: Any, **__: Any) -> None:
            """Say nothing."""

    changed: Any = models
    changed.unix_time = lambda *_: _told_time()
    changed.unix_time_millis = lambda *_: _told_time() * 1000
    whole = DomainDispatcherApplication(create_backend_app)
    server = make_server(HOST, 0, whole, threaded=True, request_handler=Handler)
    _announce(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    {"ministack": serve_ministack, "moto": serve_moto}[sys.argv[1]]()
