"""What processes of graph tests do: `python -m tests.nodes.graph_roles ROLE FOLDER`.

What was found goes to stdout as one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy as GraphRetryPolicy

from tallgrass.errors import NodeFailed
from tallgrass.nodes import NodeRunner, RetryPolicy, current_node
from tallgrass.nodes.graphs import reliable
from tallgrass.nodes.wal_store import WalStore
from tests.nodes.crash_roles import calls_of, in_a_process
from tests.nodes.faulty_files import ScriptedFiles, killing_at
from tests.nodes.graphing import State, chain, thread

if TYPE_CHECKING:
    from tallgrass.nodes.files import Files


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


def four_nodes(folder: Path, files: Files | None) -> int:
    """Run graphs of four nodes in two threads of LangGraph; each node notes its call."""

    def add(state: State) -> Any:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{current_node().call.run_id}/{current_node().call.node_id} ")
        return {"x": state["x"] + 1}

    folder.mkdir(parents=True, exist_ok=True)
    with NodeRunner(folder, files=files, retry=RetryPolicy(max_attempts=3)) as runner:
        builder = chain(a=add, b=add, c=add, d=add)
        graph = reliable(builder, runner, code_version="1").compile()
        ends = [graph.invoke({"x": start}, thread(f"run-{start}"))["x"] for start in (10, 20)]
    return sum(ends)


def files_are_wrong(folder: Path) -> list[str]:
    """Files of the log that do not say what the journals say."""
    with closing(WalStore(folder / "wal")) as wal:
        return [run_id for run_id in wal.run_ids() if wal.rebuild(run_id)]


def every_kill_of_a_graph(folder: Path) -> dict[str, Any]:
    """Kill a graph before every fifth of its file operations."""
    whole = ScriptedFiles(lambda _number, _name: None)
    result = four_nodes(folder / "whole", whole)
    faults, kills = [], 0
    for number in range(0, len(whole.done), 5):
        place = folder / str(number)
        _, ended_by = in_a_process(partial(four_nodes, place, killing_at(number)))
        kills += ended_by == signal.SIGKILL
        done = done_nodes(place)
        before = calls_of(place, done)
        answer, _ = in_a_process(partial(four_nodes, place, None))
        if answer != result or calls_of(place, done) != before or files_are_wrong(place):
            faults.append(f"{number}: {answer}, {done}, {before}, {files_are_wrong(place)}")
    return {"result": result, "kills": kills, "faults": faults}


def done_nodes(folder: Path) -> set[str]:
    """Return the nodes that have results."""
    with closing(WalStore(folder / "wal")) as wal:
        runs = {run_id: wal.read(run_id).tasks for run_id in wal.run_ids()}
    return {
        f"{run_id}/{task.node_id}"
        for run_id, tasks in runs.items()
        for task, state in tasks.items()
        if state.post is not None
    }


if __name__ == "__main__":
    role = {"killed": killed, "every_kill": every_kill_of_a_graph}[sys.argv[1]]
    print(json.dumps(role(Path(sys.argv[2]))))  # noqa: T201 - how it answers
