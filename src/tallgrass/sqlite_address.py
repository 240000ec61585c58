"""The address of an embedded database or queue: ``sqlite:///FILE``."""

from pathlib import Path

SQLITE = "sqlite:///"


def sqlite_file(url: str) -> Path | None:
    """Return the file that an address names; None where it is the address of a server."""
    return Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None
