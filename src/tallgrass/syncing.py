"""What makes files last: a system that stops keeps only what was synced."""

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Have a file's content, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
