"""Runs the nodes of a package that the caller wrote: `python -m tests.nodes.code_roles ROOT RUN`.

Each module of the package `flow.forms` has a `node`. What each gave, whether it was at work for it,
and why it is not cached go to stdout as one JSON object.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from tallgrass.nodes import NodeHooks, NodeOutcome, NodeRunner
from tests.support.recording import MemoryRecorder


class Watching:
    """Remembers which calls were answered by the cache."""

    def __init__(self) -> None:
        self.hits: list[tuple[str, str]] = []

    def finished(self, outcome: NodeOutcome) -> None:
        """A node has ended: one without an attempt was not at work."""
        if not outcome.attempts:
            self.hits.append((outcome.call.node_id, outcome.call.run_id))


def main(root: Path, name: str) -> dict[str, Any]:
    """Run all nodes twice: the second time all is imported that the first has imported."""
    forms = importlib.import_module("flow.forms")
    watching, recorder = Watching(), MemoryRecorder()
    found: dict[str, Any] = {}
    with NodeRunner(
        root, pipeline="forms", recorder=recorder, hooks=NodeHooks(watchers=(watching,))
    ) as runner:
        for form in sorted(each.name for each in pkgutil.iter_modules(forms.__path__)):
            module = importlib.import_module(f"flow.forms.{form}")
            inputs = getattr(module, "given", {"x": 1})
            given = [
                runner.run(node_id=form, inputs=inputs, exec_fn=module.node, run_id=run_id)["out"]
                for run_id in (f"{name}-1", f"{name}-2")
            ]
            found[form] = {"given": given}
    for form, each in found.items():
        each["hits"] = [(form, run_id) in watching.hits for run_id in (f"{name}-1", f"{name}-2")]
        each["why"] = [
            fields["message"]
            for event, fields in recorder.events
            if event == "node_uncached" and fields["node"] == form
        ]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
