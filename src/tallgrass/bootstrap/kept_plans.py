"""Plans that a server keeps: from the request for an approval until their run has ended.

Each plan is a file, named by the SHA-256 of its bytes, so that what is run is what was approved,
also after the server was started again. If the folder is lost, nothing else is: a plan can be
uploaded again, and a plan by itself gives nobody any right.
"""

import os
import re
import tempfile
import threading
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from tallgrass.errors import InvalidInput, UnknownRecord

#: Of one plan: more rows than anybody looks through.
PLAN_BYTES_MAX: Final = 16 * 1024 * 1024
#: The oldest go first.
PLANS_MAX: Final = 500
_SHA256 = re.compile(r"[0-9a-f]{64}")


class KeptPlans:
    """The plans in a folder, which is made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def keep(self, lines: Iterable[bytes]) -> str:
        """Keep a plan, whole or not at all; return its hash."""
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=".plan.", dir=self._folder)
            half = Path(name)
            try:
                digest = _write(descriptor, lines)
                half.replace(self._folder / f"{digest}.jsonl")
            except BaseException:
                half.unlink(missing_ok=True)
                raise
            self._forget()
        return digest

    def path(self, digest: str) -> Path:
        """Return where a plan lies; one that is not kept here is an error."""
        path = self._folder / f"{digest}.jsonl"
        # What is no hash could name a file anywhere.
        if not _SHA256.fullmatch(digest) or not path.is_file():
            raise UnknownRecord(f"no plan {digest[:80]} is kept here", code="plan_unknown")
        return path

    def has(self, digest: str) -> bool:
        """Tell whether a plan is kept here."""
        return bool(_SHA256.fullmatch(digest)) and (self._folder / f"{digest}.jsonl").is_file()

    def _forget(self) -> None:
        found = sorted(self._folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        for path in found[: max(0, len(found) - PLANS_MAX)]:
            path.unlink(missing_ok=True)


def _write(descriptor: int, lines: Iterable[bytes]) -> str:
    digest, size = sha256(), 0
    with os.fdopen(descriptor, "wb") as file:
        for line in lines:
            size += len(line)
            if size > PLAN_BYTES_MAX:
                message = f"a plan of more than {PLAN_BYTES_MAX:,} bytes is not kept"
                raise InvalidInput(message, code="plan_invalid")
            digest.update(line)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
