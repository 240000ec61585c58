"""What a run's journal comes to, for somebody who looks at it: pure, from what was read."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tallgrass.nodes.effect_states import EffectRecord, compensation_of, effects_of, tries_of
from tallgrass.nodes.entries import AttemptStatus, Entry, Kind, RunState, TaskState
from tallgrass.nodes.lineage_facts import sealed

#: What is made of inputs, results and keys of effects alone: trying all of them would find it.
_FINDABLE: Final = frozenset({"cache_key", "identity", "inputs_hash", "key", "result_hash"})


class TaskStatus(StrEnum):
    """Where a task stands."""

    SUCCEEDED = "succeeded"
    #: Its result came from the cache.
    CACHED = "cached"
    #: For good; an approval may clear it.
    FAILED = "failed"
    #: It waits for a person or a signal.
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"
    #: It is at work, waits for its next try, or was cut off.
    UNFINISHED = "unfinished"


class RunStatus(StrEnum):
    """Where a run stands, as far as its nodes were begun."""

    #: Every node that was begun has a result.
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SUSPENDED = "suspended"
    UNFINISHED = "unfinished"
    #: Its journal is not what was written to it.
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in a line; `problem` says what is wrong with a damaged one."""

    run_id: str
    status: RunStatus
    begun_at: str | None = None
    last_at: str | None = None
    nodes: int = 0
    tasks: int = 0
    attempts: int = 0
    failed: int = 0
    problem: str | None = None


def summary_of(state: RunState) -> RunSummary:
    """Return the run in a line."""
    tasks = list(state.tasks.values())
    statuses = [status_of(task) for task in tasks]
    return RunSummary(
        run_id=state.run_id,
        status=_run_status(statuses),
        begun_at=state.begun_at,
        last_at=state.last_at,
        nodes=len({task.id.node_id for task in tasks}),
        tasks=len(tasks),
        attempts=sum(len(task.attempts) for task in tasks),
        failed=statuses.count(TaskStatus.FAILED),
    )


def status_of(task: TaskState) -> TaskStatus:
    """Say where a task stands: what was begun after its newest result counts more than that."""
    if task.failed is not None:
        return TaskStatus.FAILED
    begun_since = task.attempts[task.budget_from :]
    if task.post is not None and not begun_since:
        return TaskStatus.CACHED if task.post.kind is Kind.HIT else TaskStatus.SUCCEEDED
    last = begun_since[-1].status if begun_since else None
    if last is AttemptStatus.SUSPENDED:
        return TaskStatus.SUSPENDED
    return TaskStatus.CANCELLED if last is AttemptStatus.CANCELLED else TaskStatus.UNFINISHED


def _run_status(tasks: Iterable[TaskStatus]) -> RunStatus:
    found = set(tasks)
    if TaskStatus.FAILED in found:
        return RunStatus.FAILED
    if not found or found & {TaskStatus.UNFINISHED, TaskStatus.CANCELLED}:
        return RunStatus.UNFINISHED
    return RunStatus.SUSPENDED if TaskStatus.SUSPENDED in found else RunStatus.SUCCEEDED


def task_document(task: TaskState) -> dict[str, Any]:
    """Return all that is known of a task but its values: those may be sensitive, or large."""
    asked = task.asked.body if task.asked is not None else {}
    post = task.post.body if task.post is not None else {}
    named = ("pipeline", "code_version", "data_version", "inputs_hash", "dataset", "care_label")
    return {
        "node_id": task.id.node_id,
        "task_id": task.id.task_id,
        "status": status_of(task).value,
        **{name: asked.get(name) for name in named},
        "cache_key": post.get("cache_key", asked.get("cache_key")),
        "result_hash": post.get("result_hash"),
        "result_at": task.post.at if task.post is not None else None,
        "attempts": [attempt.as_json_value() for attempt in task.attempts],
        "effects": [_effect(record) for record in effects_of(task)],
        "compensation": compensation_of(task).value,
        "compensations": tries_of(task),
        "lineage": [_entry(entry) for entry in task.lineage],
        "failed": None if task.failed is None else _entry(task.failed),
        "rolled_back": task.rolled_back,
    }


def sealed_document(task: TaskState) -> dict[str, Any]:
    """Return what `task_document` does, but of sensitive data nothing that trying could find."""
    document = task_document(task)
    if not task.sensitive:
        return document
    told: dict[str, Any] = _without_findable(document)
    return {**told, "task_id": sealed(task.salt, task.id.task_id)}


def _without_findable(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_findable(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: None if name in _FINDABLE else _without_findable(each) for name, each in value.items()
    }


def _effect(record: EffectRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "effect": record.name,
        "key": record.key,
        "state": record.state.value,
        "at": record.begun.at,
        "attempt": record.begun.body.get("attempt"),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {"at": entry.at, "kind": entry.kind.value, **entry.body}
