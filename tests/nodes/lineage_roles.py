"""A run that is killed while it hands on its lineage.

Run it by: python -m tests.nodes.lineage_roles FOLDER PLACE succeeds|fails
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, ValidationError
from tallgrass.nodes.lineage import FileLineage, Lineage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallgrass.nodes.lineage_documents import LineageDocument

#: Where it may be killed.
PLACES = ("before", "within", "after", "never")


class KillingSink:
    """Files, and a process that is killed before, within or after writing them."""

    kept_in = "files"

    def __init__(self, root: Path, place: str) -> None:
        self._files = FileLineage(root)
        self._place = place

    def hand_on(self, documents: Sequence[LineageDocument]) -> int:
        """Write, and be killed."""
        if self._place == "within":
            self._files.hand_on(documents[:1])
        if self._place in {"before", "within"}:
            os.kill(os.getpid(), signal.SIGKILL)
        new = self._files.hand_on(documents)
        if self._place == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return new


def play(root: Path, place: str, *, fails: bool = False) -> Any:
    """Run one node; what it calls is counted in a file."""

    def smooth(state: dict[str, int]) -> dict[str, int]:
        with (root / "calls").open("a") as calls:
            calls.write("called\n")
        if fails:
            raise ValidationError("no")
        return {"x": state["x"] + 1}

    root.mkdir(exist_ok=True)
    hooks = NodeHooks(lineage=Lineage(KillingSink(root / "lineage", place)))
    with NodeRunner(
        root, pipeline="hydrology", run_id="run", hooks=hooks, retry=RetryPolicy(max_attempts=1)
    ) as runner:
        return runner.run(
            node_id="smooth",
            code_version="1",
            inputs={"x": 1},
            exec_fn=smooth,
            reads=("gauges/1",),
            writes=("flows/1",),
        )


if __name__ == "__main__":
    play(Path(sys.argv[1]), sys.argv[2], fails=sys.argv[3] == "fails")
