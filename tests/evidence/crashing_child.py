"""Reads as the package's own program for HDF5 does, until a file's size tells it to misbehave."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time


def main() -> None:
    """Crash, hang, leave, talk nonsense or ask for bytes, as a size's last digit says."""
    while True:
        size = sys.stdin.buffer.read(8)
        if len(size) < 8:
            return
        kind = struct.unpack(">Q", size)[0] % 10
        if kind == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == 2:
            time.sleep(600)
        if kind == 3:
            sys.exit(7)
        if kind == 4:
            sys.stdout.buffer.write(b"A" + struct.pack(">I", 2**31))
        if kind == 5:
            sys.stdout.buffer.write(b"R" + struct.pack(">QI", 0, 8))
            sys.stdout.buffer.flush()
            sys.stdin.buffer.read(struct.unpack(">I", sys.stdin.buffer.read(4))[0])
        answer = b'{"attributes": {"platform_ID": "G19"}}'
        sys.stdout.buffer.write(b"A" + struct.pack(">I", len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
