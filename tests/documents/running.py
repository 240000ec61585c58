"""A command of a page that runs on: started, heard, and ended in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

from tests.support.forking import Forked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import BufferedReader
    from pathlib import Path

LONG_S = 60


class Running:
    """A `tallgrass` in a process of its own, whose both streams are read together."""

    def __init__(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._line = " ".join(words)
        self._process = Forked(words, env=env, cwd=folder)
        self._said: list[str] = []
        self._spoke = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, args=(stream,))
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def first_words(self) -> str:
        """Wait until it says something; return that."""
        assert self._spoke.wait(LONG_S), f"{self._line} says nothing"
        return self.said

    @property
    def said(self) -> str:
        """What it has said so far."""
        return "".join(self._said)

    def stop(self) -> str:
        """Tell it to stop, wait until it has, and return what it said in all."""
        code = None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        try:
            code = self._process.wait(LONG_S)
        finally:
            self._process.kill()
            for reader in self._readers:
                reader.join()
            self._process.__exit__()
        assert (code, "Traceback" in self.said) == (0, False), f"{self._line}\n{self.said}"
        return self.said

    def _read(self, stream: BufferedReader) -> None:
        for line in stream:
            self._said.append(line.decode())
            self._spoke.set()
        self._spoke.set()
