"""A worker that is a real process: `python -m tests.pipeline.child ARGUMENTS`.

It works on one batch, prints one JSON object a line, and waits for a line of input where it is to
be stopped or killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tallgrass.errors import WorkerFenced
from tests.pipeline.scene import Pipeline
from tests.pipeline.watched import WatchedDatabase
from tests.support.backends import Backend
from tests.support.processes import ROOT, Child

#: After each phase, in order.
PHASES = (
    "receive",
    "parse",
    "record_and_claim",
    "read_evidence",
    "operate",
    "commit",
    "acknowledge",
)


class WorkerChild(Child):
    """A child that takes one batch of messages through the phases, and pauses at a step."""

    def __init__(self, backend: Backend, folder: Path, step: str) -> None:
        arguments = {
            "name": backend.name,
            "url": backend.url,
            "folder": str(folder),
            "step": step,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.child", json.dumps(arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _announce(**values: object) -> None:
    print(json.dumps(values), flush=True)  # noqa: T201 - stdout is how a child talks


def work(*, name: str, url: str, folder: str, step: str) -> None:
    """Work on one batch; pause after a phase, or before the COMMIT inside one."""
    pipeline = Pipeline(Backend(name, url), Path(folder))
    _announce(incarnation=pipeline.lease.incarnation)
    here = {"phase": ""}

    def pause(at: str) -> None:
        if at == step:
            _announce(step=at)
            sys.stdin.readline()

    def watch(what: str) -> None:
        if what == "commit":
            pause(f"inside {here['phase']}")

    pipeline.stores.runner.database = WatchedDatabase(pipeline.stores.database, watch)
    batch: Any = None
    try:
        for phase in PHASES:
            here["phase"] = phase
            method = getattr(pipeline.worker, phase)
            batch = method() if batch is None else method(batch) or batch
            pause(phase)
    except WorkerFenced:
        _announce(step="fenced")
        return
    _announce(step="done")


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
