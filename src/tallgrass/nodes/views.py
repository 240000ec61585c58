"""The files of a task, as its journal says: for people, and for tools that know these names."""

from typing import Any, Final

import orjson

from tallgrass.nodes.entries import Entry, Kind, TaskState

PRE: Final = "pre.json"
ATTEMPTS: Final = "attempts.json"
POST: Final = "post.json"
COMPENSATION: Final = "compensation.json"
FAILED: Final = "failed.json"


def views_of(run_id: str, task: TaskState) -> dict[str, bytes | None]:
    """Return the content of each file; None for one that must not be there."""
    attempts = [attempt.as_json_value() for attempt in task.attempts]
    tries = [_entry(run_id, task, entry) for entry in task.compensations]
    return {
        PRE: _file(_entry(run_id, task, task.pre)),
        ATTEMPTS: _file(attempts or None),
        POST: _file(_post(run_id, task)),
        COMPENSATION: _file(tries or None),
        FAILED: _file(_entry(run_id, task, task.failed)),
    }


def _post(run_id: str, task: TaskState) -> Any:
    shown = _entry(run_id, task, task.post)
    if task.post is not None:
        shown["from_cache"] = task.post.kind is Kind.HIT
    return shown


def _entry(run_id: str, task: TaskState, entry: Entry | None) -> Any:
    if entry is None:
        return None
    head = {"run_id": run_id, "node_id": task.id.node_id, "task_id": task.id.task_id}
    return {**head, "at": entry.at, **entry.body}


def _file(value: Any) -> bytes | None:
    return None if value is None else orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
