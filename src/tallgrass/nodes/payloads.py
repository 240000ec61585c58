"""Inputs and results as they stand in the log and the cache: in place, or apart.

What is sensitive is kept in a folder of its own, which is the owner's alone, under its hash; log
and cache hold the hash and the size. Rebuilding from the log then needs the right to read that
folder.
"""

import contextlib
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from tallgrass.errors import NodeWalUnusable
from tallgrass.nodes.files import (
    Files,
    make_and_open,
    open_root,
    read_file,
    translated,
    write_temporary,
)

#: No encoded value looks like this: a key that begins with a dollar sign is always wrapped.
_APART: Final = "$apart"


class Payloads:
    """Puts JSON values into entries, and sensitive ones into the folder of sensitive values."""

    def __init__(self, root: Path, *, files: Files | None = None) -> None:
        self.root = root
        self._files = files or Files()

    def put(self, value: Any, *, sensitive: bool) -> Any:
        """Return what stands in the entry; what is kept apart is on the disk when this returns.

        What stands apart already stays there.
        """
        if not sensitive or _is_apart(value):
            return value
        data = orjson.dumps(value)
        name = sha256(data).hexdigest()
        with translated(self.root), contextlib.ExitStack() as opened:
            root = open_root(self.root)
            opened.callback(os.close, root)
            folder = make_and_open(self._files, name[:2], folder=root, durable=True)
            opened.callback(os.close, folder)
            if read_file(name, folder=folder) != data:
                self._write(name, data, folder)
        return {_APART: {"sha256": name, "bytes": len(data)}}

    def get(self, stored: Any) -> Any:
        """Return the value of what stands in an entry; one that is gone or changed is refused."""
        if not _is_apart(stored):
            return stored
        name = stored[_APART]["sha256"]
        try:
            data = (self.root / name[:2] / name).read_bytes()
        except OSError as exc:
            raise NodeWalUnusable(
                f"the sensitive value {name[:16]} cannot be read: {exc.strerror}",
                code="node_blob_missing",
            ) from exc
        if sha256(data).hexdigest() != name:
            raise NodeWalUnusable(
                f"the sensitive value {name[:16]} is not what was written",
                code="node_blob_missing",
            )
        return orjson.loads(data)

    def _write(self, name: str, data: bytes, folder: int) -> None:
        # Threads and processes that keep the same value at the same time each write their own.
        temporary = write_temporary(
            self._files, f".{name}.{secrets.token_hex(4)}.tmp", data, folder=folder, durable=True
        )
        self._files.replace(temporary, name, folder=folder)
        self._files.sync_folder(folder)


def _is_apart(stored: Any) -> bool:
    return isinstance(stored, dict) and stored.keys() == {_APART}
