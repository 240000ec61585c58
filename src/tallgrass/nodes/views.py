"""The files of a task, as its journal says: for people, and for tools that know these names."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from tallgrass.nodes.effect_states import compensation_of, tries_of
from tallgrass.nodes.entries import Entry, Kind, TaskState

PRE: Final = "pre.json"
ATTEMPTS: Final = "attempts.json"
POST: Final = "post.json"
COMPENSATION: Final = "compensation.json"
FAILED: Final = "failed.json"


def views_of(run_id: str, task: TaskState, names: Iterable[str] = ()) -> dict[str, bytes | None]:
    """Return the content of the named files, or of all; None for one that must not be there."""
    return {name: _file(_VIEWS[name](run_id, task)) for name in names or _VIEWS}


def _pre(run_id: str, task: TaskState) -> Any:
    return _entry(run_id, task, task.pre)


def _attempts(_run_id: str, task: TaskState) -> Any:
    return [attempt.as_json_value() for attempt in task.attempts] or None


def _compensation(run_id: str, task: TaskState) -> Any:
    return [{**_head(run_id, task), **each} for each in tries_of(task)] or None


def _post(run_id: str, task: TaskState) -> Any:
    shown = _entry(run_id, task, task.post)
    if task.post is not None:
        shown["from_cache"] = task.post.kind is Kind.HIT
    return shown


def _failed(run_id: str, task: TaskState) -> Any:
    shown = _entry(run_id, task, task.failed)
    if shown is not None:
        # Whoever looks at a failed node must see whether its effects still stand.
        shown["compensation"] = compensation_of(task).value
        shown["rolled_back"] = task.rolled_back
    return shown


def _entry(run_id: str, task: TaskState, entry: Entry | None) -> Any:
    if entry is None:
        return None
    return {**_head(run_id, task), "at": entry.at, **entry.body}


def _head(run_id: str, task: TaskState) -> dict[str, str]:
    return {"run_id": run_id, "node_id": task.id.node_id, "task_id": task.id.task_id}


def _file(value: Any) -> bytes | None:
    return None if value is None else orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"


_VIEWS: Final[Mapping[str, Callable[[str, TaskState], Any]]] = {
    PRE: _pre,
    ATTEMPTS: _attempts,
    POST: _post,
    COMPENSATION: _compensation,
    FAILED: _failed,
}
