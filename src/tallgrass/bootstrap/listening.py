"""Sockets that are bound before their address is told to anybody."""

import socket

from tallgrass.errors import ConfigError

_PORT_MAX = 65_535


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that has the address; port 0 takes a free one."""
    try:
        _require_port(port)
        family, kind, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections take it over. Else each answer whose body follows its head in a packet of
            # its own waits 40 ms for the other side's acknowledgement.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as exc:
        message = f"cannot listen at {host}, port {port}: {exc.strerror or exc}"
        raise ConfigError(message, code="cannot_listen") from exc
    return listener


def _require_port(port: int) -> None:
    """Refuse a port that there is not: the system would take another number's remainder."""
    if port > _PORT_MAX:
        raise OSError(f"ports end at {_PORT_MAX}")
