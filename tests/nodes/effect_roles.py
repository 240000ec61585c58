"""Runs with effects and compensations that are killed at every file operation.

`python -m tests.nodes.effect_roles ROLE FOLDER`; each try is a process of its own, forked here.
What was found goes to stdout as one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallgrass.errors import NodeFailed, ValidationError
from tallgrass.nodes import NodeHooks, NodeRunner, RetryPolicy, effect, stage_file
from tallgrass.nodes.compensation import TRIES, Compensations
from tallgrass.nodes.effect_states import compensation_of, effects_of
from tests.nodes.crash_roles import in_a_process
from tests.nodes.faulty_files import ScriptedFiles, killing_at
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallgrass.nodes.files import Files

RETRY = RetryPolicy(max_attempts=5, base_delay_s=0, max_delay_s=0)
#: Killed twice, and once more to end.
UNDOING = RetryPolicy(max_attempts=3, base_delay_s=0, max_delay_s=0)


def play(role: str, root: Path) -> Any:
    """What a role found, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.nodes.effect_roles", role, str(root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def announced(root: Path) -> set[str]:
    """The keys of all effects that the journal tells of."""
    if not (root / "wal" / "run" / ".journal").exists():
        return set()
    with NodeRunner(root) as runner:
        tasks = runner.wal.read("run").tasks.values()
        return {each.key for task in tasks for each in effects_of(task)}


# --- effects --------------------------------------------------------------------------------------


def publish(root: Path, files: Files | None) -> Any:
    """Make two effects that must be made once: each writes down that it was made."""
    outside = root / "outside"
    outside.mkdir(parents=True, exist_ok=True)

    def put(key: str) -> str:
        # An outside that takes the key and refuses nothing: doubling would show.
        with (outside / key).open("a") as file:
            file.write("made\n")
        return f"made {key} {len((outside / key).read_text().split())}"

    def node(_state: Any) -> list[str]:
        return [
            effect("put", key=key, do=partial(put, key), not_made=(FileNotFoundError,))
            for key in ("a", "b")
        ]

    with NodeRunner(root, run_id="run", files=files, retry=RETRY) as runner:
        try:
            found: list[str] = runner.run(
                node_id="publish", code_version="1", inputs={}, exec_fn=node, has_effects=True,
                procedure="SOP-7",
            )  # fmt: skip
        except NodeFailed:
            return "failed"
        except Exception as error:  # noqa: BLE001 - told to the role
            return getattr(error, "code", repr(error))
        return found


def effects(root: Path) -> dict[str, Any]:
    """Kill the run before each of its operations; resume; nothing is doubled or unannounced.

    A run that was killed between intent and effect, or between effect and its end, cannot know
    which: it says so, and makes nothing.
    """
    whole = ScriptedFiles(lambda _number, _name: None)
    result = publish(root / "whole", whole)
    faults = []
    for number in range(len(whole.done)):
        place = root / str(number)
        _, ended_by = in_a_process(partial(publish, place, killing_at(number)))
        made = {path.name for path in (place / "outside").iterdir()}
        if not made <= announced(place):
            faults.append(f"{number}: {made} was made, {announced(place)} announced")
        answer, _ = in_a_process(partial(publish, place, None))
        counts = [len(path.read_text().split()) for path in (place / "outside").iterdir()]
        if ended_by != signal.SIGKILL or any(count != 1 for count in counts):
            faults.append(f"{number} ({whole.done[number]}): made {counts} times")
        if answer not in (result, "node_effect_unsettled"):
            faults.append(f"{number} ({whole.done[number]}): said {answer}")
    return {"result": result, "operations": len(whole.done), "faults": faults}


# --- compensation ---------------------------------------------------------------------------------


def failing(root: Path, files: Files | None, *, kills: bool = False) -> str:
    """Make two effects and a staged file, fail for good, and undo all; say what came of it."""
    outside = root / "outside"
    outside.mkdir(parents=True, exist_ok=True)
    compensations = Compensations(policy=UNDOING, sleep=lambda _seconds: None)

    @compensations.undoes("put")
    def remove(_previous: Any, entry: Mapping[str, Any]) -> None:
        with (root / "undone").open("a") as told:
            told.write(f"{entry['key']}\n")
        (outside / entry["key"]).unlink(missing_ok=True)
        if kills:
            os.kill(os.getpid(), signal.SIGKILL)

    def node(_state: Any) -> Any:
        staged = stage_file(outside / "staged")
        staged.write_text("half")
        for key in ("a", "b"):
            effect("put", key=key, do=partial((outside / key).write_text, "made"), idempotent=True)
        raise ValidationError("wrong")

    hooks = NodeHooks(compensator=compensations)
    with NodeRunner(root, run_id="run", files=files, retry=RETRY, hooks=hooks) as runner:
        try:
            runner.run(
                node_id="publish", code_version="1", inputs={}, exec_fn=node, has_effects=True
            )
        except (ValidationError, NodeFailed):
            (task,) = runner.wal.read("run").tasks.values()
            return compensation_of(task).value
    return "no failure"


def failing_twice(root: Path) -> list[str]:
    """Meet the failed node twice more, and say what came of it each time."""
    return [failing(root, None) for _ in range(2)]


def compensation(root: Path) -> dict[str, Any]:
    """Kill a compensated failure before each of its operations, twice; the end is the same."""
    whole = ScriptedFiles(lambda _number, _name: None)
    result = failing(root / "whole", whole)
    faults = []
    for number in range(len(whole.done)):
        place = root / str(number)
        in_a_process(partial(failing, place, killing_at(number)))
        # The second life is killed at an operation of its own, if it has as many.
        in_a_process(partial(failing, place, killing_at(number // 2)))
        answers, _ = in_a_process(partial(failing_twice, place))
        left = sorted(path.name for path in (place / "outside").iterdir())
        if (answers, left) != (["done", "done"], []):
            faults.append(f"{number} ({whole.done[number]}): {answers}, left {left}")
    return {"result": result, "operations": len(whole.done), "faults": faults}


def killer(root: Path) -> dict[str, Any]:
    """Undo by a function that kills its process each time, until it is given up."""
    lives: list[Callable[[], str]] = [partial(failing, root, None, kills=True)] * 8
    ends = [in_a_process(life) for life in lives]
    undone = (root / "undone").read_text().split()
    left = sorted(path.name for path in (root / "outside").iterdir())
    return {"ends": ends, "undone": undone, "left": left, "tries": TRIES.max_attempts}


if __name__ == "__main__":
    roles = {"effects": effects, "compensation": compensation, "killer": killer}
    print(json.dumps(roles[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201 - how it answers
