"""Files of a test run lie in memory where there is room for them.

Nothing of a run is kept, and no test cuts this machine's power: what a sync means is shown by the
tests of I/O faults, which know what was synced. On a disk, to make databases and to wait for syncs
took half of a run's time. Whoever sets TMPDIR has their files there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import MutableMapping

MEMORY = Path("/dev/shm")  # noqa: S108 - every test makes folders of its own there
#: A run leaves some hundred megabytes at a time.
ROOM_BYTES = 4 << 30


def use_memory(environment: MutableMapping[str, str], memory: Path = MEMORY) -> None:
    """Let temporary files lie in memory, unless somebody said where, or it is too small."""
    if "TMPDIR" in environment or not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free >= ROOM_BYTES:
        environment["TMPDIR"] = str(memory)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the place before anybody makes a file; the run's other processes inherit it."""
    del config
    use_memory(os.environ)
    tempfile.tempdir = None
