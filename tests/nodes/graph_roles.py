"""What processes of graph tests do: `python -m tests.nodes.graph_roles ROLE FOLDER`.

What was found goes to stdout as one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy as GraphRetryPolicy

from tallgrass.errors import NodeFailed
from tallgrass.nodes import NodeRunner, RetryPolicy
from tallgrass.nodes.graphs import reliable
from tests.nodes.crash_roles import in_a_process
from tests.nodes.graphing import State, chain, thread


def one_life(folder: Path, *, with_runner: bool) -> int:
    """Run a graph whose node kills its process; 1 if it was refused instead."""
    calls = folder / "calls"

    def killer(_state: State) -> Any:
        info = get_runtime().execution_info
        with calls.open("a") as file:
            file.write(f"{info and info.node_attempt} ")
        os.kill(os.getpid(), signal.SIGKILL)

    builder = chain()
    with ExitStack() as opened:
        saver = opened.enter_context(SqliteSaver.from_conn_string(str(folder / "graph.db")))
        if with_runner:
            builder.add_node("killer", killer)
            runner = opened.enter_context(NodeRunner(folder / "nodes"))
            reliable(builder, runner, retry=RetryPolicy(max_attempts=2), code_version="1")
        else:
            builder.add_node("killer", killer, retry_policy=GraphRetryPolicy(max_attempts=2))
        builder.set_entry_point("killer")
        graph = builder.compile(checkpointer=saver)
        first = graph.get_state(thread("t")).created_at is None
        try:
            graph.invoke({"x": 1} if first else None, thread("t"), durability="sync")
        except NodeFailed:
            return 1
        return 0


def killed(folder: Path) -> dict[str, Any]:
    """Live five times with and without a runner."""
    found = {}
    for name in ("langgraph", "runner"):
        place = folder / name
        place.mkdir()
        ends = [
            in_a_process(partial(one_life, place, with_runner=name == "runner")) for _ in "12345"
        ]
        found[name] = {"ends": ends, "calls": (place / "calls").read_text().split()}
    return found


if __name__ == "__main__":
    role = {"killed": killed}[sys.argv[1]]
    print(json.dumps(role(Path(sys.argv[2]))))  # noqa: T201 - how it answers
