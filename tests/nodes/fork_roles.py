"""Runners that are used before and after a fork, in a process that has no threads of others.

`python -m tests.nodes.fork_roles ROLE FOLDER` prints what was found as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tallgrass.nodes import NodeRunner
from tests.nodes.crash_roles import in_a_process

NODES = 15


def one(runner: NodeRunner, x: int) -> Any:
    """Run a node that is given a number; other processes have the time to come between."""

    def node(state: Any) -> Any:
        time.sleep(0.002)
        return {"out": state["x"]}

    return runner.run(
        node_id="n", code_version="v1", inputs={"x": x}, exec_fn=node, cached=False, run_id="run"
    )


def share_a_run(root: Path) -> Any:
    """Work on one run in three processes at once, with a runner that was open before the fork."""
    runner = NodeRunner(root)
    one(runner, -1)
    children = []
    for child in range(3):
        process = os.fork()
        if process == 0:
            code = 1
            try:
                for number in range(NODES):
                    one(runner, 100 * child + number)
                code = 0
            finally:
                os._exit(code)
        children.append(process)
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    with NodeRunner(root) as reader:
        return {"codes": codes, "tasks": len(reader.wal.read("run").tasks)}


def loop_after_a_fork(root: Path) -> Any:
    """Run an async node in the parent, then one in the child."""

    async def node(state: Any) -> Any:
        return {"out": state["x"]}

    def call(runner: NodeRunner, x: int) -> Any:
        given: dict[str, Any] = {"node_id": "n", "run_id": "run", "inputs": {"x": x}}
        return asyncio.run(asyncio.wait_for(runner.arun(exec_fn=node, **given), 60))

    with NodeRunner(root) as runner:
        return [call(runner, 1), *in_a_process(partial(call, runner, 2))]


def outlive_the_parent(root: Path) -> Any:
    """Kill a process in the middle of a node that forked another, which lives on."""

    def forking(_state: Any) -> Any:
        if os.fork() == 0:
            (root / "begun").write_text(str(os.getpid()))
            (root / "begun").rename(root / "helper")
            time.sleep(600)
        # Until the helper lives, a fork has copied the lock and nobody could give it up.
        while not (root / "helper").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    def killed() -> Any:
        return NodeRunner(root).run(
            node_id="n", code_version="v1", inputs={}, exec_fn=forking, run_id="run"
        )

    root.mkdir(parents=True)
    # The helper must not keep the pipe open by which the first process would answer.
    first = os.fork()
    if first == 0:
        killed()
    ended_by = os.WTERMSIG(os.waitpid(first, 0)[1])
    try:
        with NodeRunner(root, lock_timeout_s=0.0) as runner:
            answer = runner.run(
                node_id="n", code_version="v1", inputs={}, exec_fn=lambda _: {}, run_id="run"
            )
    finally:
        os.kill(int((root / "helper").read_text()), signal.SIGKILL)
    return {"ended_by": ended_by, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201 - it is read
