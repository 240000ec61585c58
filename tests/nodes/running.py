"""A runner for tests: no real waiting, everything remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallgrass.nodes import NodeRunner
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.nodes import NodeOutcome


@dataclass
class Watched:
    """A runner in a folder of its own, what it slept, and what it told."""

    root: Path
    options: dict[str, Any] = field(default_factory=dict)
    slept: list[float] = field(default_factory=list)
    recorder: MemoryRecorder = field(default_factory=MemoryRecorder)
    outcomes: list[NodeOutcome] = field(default_factory=list)
    runners: list[NodeRunner] = field(default_factory=list)

    def runner(self, **options: Any) -> NodeRunner:
        """A new runner on the same folder, as a new process would have it."""

        async def async_sleep(seconds: float) -> None:
            self.slept.append(seconds)

        defaults: dict[str, Any] = {
            "pipeline": "hydrology",
            "run_id": "run-1",
            "recorder": self.recorder,
            "sleep": self.slept.append,
            "async_sleep": async_sleep,
            "uniform": lambda _low, _high: 0.0,
            "lock_timeout_s": 30,
        }
        made = NodeRunner(self.root, **{**defaults, **self.options, **options})
        self.runners.append(made)
        return made

    def view(self, place: str) -> Any:
        """One of the files of the log, as JSON; None if it is not there."""
        path = self.root / "wal" / place
        return json.loads(path.read_bytes()) if path.exists() else None

    def finished(self, outcome: NodeOutcome) -> None:
        """Remember an outcome: this is a watcher."""
        self.outcomes.append(outcome)

    def close(self) -> None:
        """Close all runners."""
        for runner in self.runners:
            runner.close()


def failing_first(times: int, error: Callable[[], Exception]) -> Callable[[Any], Any]:
    """A node that fails so often, then succeeds; it counts its calls."""
    calls = []

    def node(state: Any) -> Any:
        calls.append(state)
        if len(calls) <= times:
            raise error()
        return {"calls": len(calls)}

    node.calls = calls  # type: ignore[attr-defined]
    return node
