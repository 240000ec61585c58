"""`tallgrass` for a shell: asks the server of `forking` for a process on this one's own streams.

It is run without the packages of the environment, which it does not need, so that it starts at
once. A signal that it gets goes to the process.
"""

import json
import os
import signal
import socket
import struct
import sys

#: The variable that names the socket on which the server is asked.
CONTROL = "TALLGRASS_TEST_FORK_SERVER"


def main() -> int:
    """Be `tallgrass` with these arguments; return its exit code."""
    env = dict(os.environ)
    control = socket.socket(fileno=int(env.pop(CONTROL)))
    mine, theirs = socket.socketpair()
    socket.send_fds(control, [b"."], [theirs.fileno(), 0, 1, 2])
    control.detach()
    theirs.close()
    order = {"arguments": sys.argv[1:], "env": env, "cwd": os.getcwd()}  # noqa: PTH109 - starts quicker
    mine.sendall(json.dumps(order).encode())
    mine.shutdown(socket.SHUT_WR)
    number = struct.Struct("q")
    (pid,) = number.unpack(mine.recv(number.size, socket.MSG_WAITALL))
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda given, _frame: os.kill(pid, given))
    code: int = number.unpack(mine.recv(number.size, socket.MSG_WAITALL))[0]
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
