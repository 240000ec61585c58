"""A run of three nodes that is killed at every file operation: `python -m tests.nodes.crash_roles`.

Each try is a process of its own, forked here, so that the modules are loaded once. What was found
goes to stdout as one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.errors import NodeFailed, TransientError
from tallgrass.nodes import NodeRunner, RetryPolicy, current_node
from tallgrass.nodes.entries import Kind
from tests.nodes.faulty_files import ScriptedFiles, killing_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.nodes.files import Files

#: More than anybody needs who is killed once.
RETRY = RetryPolicy(max_attempts=4, base_delay_s=0, max_delay_s=0)


def graph(root: Path, files: Files | None) -> int:
    """Run three nodes: a plain one, one that fails at first, one with an effect outside."""
    outside = root / "outside"
    outside.mkdir(parents=True, exist_ok=True)

    def called() -> None:
        with (root / "calls").open("a") as calls:
            calls.write(f"{current_node().call.node_id}\n")

    def add(state: dict[str, int]) -> dict[str, int]:
        called()
        return {"x": state["x"] + 1}

    def flaky(state: dict[str, int]) -> dict[str, int]:
        called()
        if current_node().attempt == 1:
            raise TransientError("later")
        return {"x": state["x"] * 10}

    def put(state: dict[str, int]) -> dict[str, int]:
        called()
        log = current_node().log
        log.commit(log.append(Kind.EFFECT, {"effect": "put", "key": f"object-{state['x']}"}))
        (outside / f"object-{state['x']}").write_text("made")
        return {"x": state["x"] + 5}

    with NodeRunner(root, run_id="run", files=files, retry=RETRY) as runner:
        state = {"x": 1}
        for name, node in (("add", add), ("flaky", flaky), ("put", put)):
            effects = name == "put"
            state = runner.run(
                node_id=name, code_version="1", inputs=state, exec_fn=node, has_effects=effects
            )
        return state["x"]


def in_a_process(work: Callable[[], Any]) -> tuple[Any, int | None]:
    """Return what the work returned in a process of its own, or the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        said = answers.read()
    _, status = os.waitpid(child, 0)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return json.loads(said) if said else None, ended_by


def journaled(root: Path) -> tuple[set[str], set[str]]:
    """Return the effects that a killed run had announced, and its nodes that had a result."""
    if not (root / "wal" / "run" / ".journal").exists():
        return set(), set()
    with NodeRunner(root) as runner:
        tasks = runner.wal.read("run").tasks
    announced = {each.body["key"] for task in tasks.values() for each in task.effects}
    return announced, {task.node_id for task, state in tasks.items() if state.post is not None}


def calls_of(root: Path, nodes: set[str]) -> list[str]:
    """Return the calls of some nodes, in their order."""
    path = root / "calls"
    return [name for name in path.read_text().split() if name in nodes] if path.exists() else []


def judged(root: Path, result: int) -> str | None:
    """Resume a run that was killed; say what is wrong with it, or None."""
    announced, done = journaled(root)
    made = {path.name for path in (root / "outside").iterdir()}
    before = calls_of(root, done)
    answer, ended_by = in_a_process(partial(graph, root, None))
    if not made <= announced:
        return f"effects {made - announced} that nobody announced"
    if calls_of(root, done) != before:
        return f"of {done}, which had results, some were called again"
    left = sorted(path.name for path in (root / "outside").iterdir())
    if (answer, left) != (result, ["object-20"]):
        return f"ended with {answer}, {left}, signal {ended_by}"
    return None


def every_kill(root: Path) -> dict[str, Any]:
    """Kill the run before each of its operations in turn; each must end as if nothing had been."""
    whole = ScriptedFiles(lambda _number, _name: None)
    result = graph(root / "whole", whole)
    faults = []
    for number in range(len(whole.done)):
        place = root / str(number)
        answer, ended_by = in_a_process(partial(graph, place, killing_at(number)))
        if (answer, ended_by) != (None, signal.SIGKILL):
            faults.append(f"{number}: was not killed but said {answer}")
        wrong = judged(place, result)
        if wrong is not None:
            faults.append(f"{number} ({whole.done[number]}): {wrong}")
    return {"result": result, "operations": len(whole.done), "faults": faults}


def killer(root: Path) -> dict[str, Any]:
    """Run a node that kills its process each time, until it is refused."""
    calls = root / "calls"
    root.mkdir(parents=True, exist_ok=True)

    def node(_state: dict[str, int]) -> dict[str, int]:
        with calls.open("a") as file:
            file.write(f"{current_node().attempt} ")
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    def one_life() -> int:
        with NodeRunner(root, run_id="run", retry=RetryPolicy(max_attempts=2)) as runner:
            try:
                runner.run(node_id="killer", code_version="1", inputs={}, exec_fn=node)
            except NodeFailed:
                return 1
            return 0

    ends = [in_a_process(one_life) for _ in range(5)]
    return {"ends": ends, "calls": calls.read_text().split()}


if __name__ == "__main__":
    role = {"every_kill": every_kill, "killer": killer}[sys.argv[1]]
    print(json.dumps(role(Path(sys.argv[2]))))  # noqa: T201 - how it answers
