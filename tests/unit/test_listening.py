"""Sockets for servers."""

from __future__ import annotations

import socket

import pytest

from tallgrass.bootstrap.listening import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_answer_waits_for_an_acknowledgement(host: str) -> None:
    """What a server sends goes at once, also the body behind a head (TCP_NODELAY)."""
    with listen(host, 0) as listener:
        listener.listen()
        with (
            socket.create_connection(listener.getsockname()[:2]),
            listener.accept()[0] as accepted,
        ):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
