"""What the journals of nodes tell a release's telemetry (pure)."""

from collections.abc import Iterable, Iterator
from typing import Any

from tallgrass.nodes.entries import Attempt, Kind, RunState, TaskState


def reliability_lines(env: str, runs: Iterable[RunState]) -> Iterator[dict[str, Any]]:
    """Yield the lines of `reliability-telemetry.json`: one an attempt, one a hit of the cache."""
    for run in runs:
        for task in run.tasks.values():
            named = _task(env, run, task)
            for attempt in task.attempts:
                yield {**named, **_attempt(attempt)}
            if task.post is not None and task.post.kind is Kind.HIT:
                yield {**named, **_hit(task)}


def _task(env: str, run: RunState, task: TaskState) -> dict[str, Any]:
    asked = task.asked.body if task.asked is not None else {}
    return {
        "run_id": run.run_id,
        "pipeline": asked.get("pipeline"),
        "node": task.id.node_id,
        "task_id": task.id.task_id,
        "dataset_id": asked.get("dataset"),
        "env": env,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    measures = attempt.measures
    return {
        "attempt": attempt.attempt,
        "status": attempt.status.value,
        "retry": attempt.attempt > 1,
        "cache_hit": False,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "latency_ms": measures.get("latency_ms"),
        "energy_wh": measures.get("energy_wh"),
        "carbon_gco2e": measures.get("carbon_gco2e"),
        "estimated": measures.get("estimated"),
    }


def _hit(task: TaskState) -> dict[str, Any]:
    at = task.post.at if task.post is not None else None
    return {
        "attempt": 0,
        "status": "succeeded",
        "retry": False,
        "cache_hit": True,
        "started_at": at,
        "ended_at": at,
        "latency_ms": None,
        "energy_wh": None,
        "carbon_gco2e": None,
        "estimated": None,
    }
