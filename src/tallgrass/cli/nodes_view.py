"""Runs of reliable nodes, for people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tallgrass.cli.tables import cell, say, show_facts, show_table
from tallgrass.nodes.rebuild import Rebuilt
from tallgrass.nodes.run_summary import RunSummary

_STYLES = {
    "succeeded": "green",
    "cached": "green",
    "failed": "red",
    "damaged": "red",
    "suspended": "yellow",
    "cancelled": "yellow",
    "unfinished": "cyan",
}
#: Enough of a hash to find it by.
_SHORT = 16


def show_runs(
    found: Sequence[RunSummary], root: Path, *, status: str | None, next_cursor: str | None
) -> None:
    """Print runs under their columns, and where the next page begins."""
    if not found:
        say(f"No run below {root}{f' is {status}' if status else ''}.")
        return
    show_table(
        ("run", "status", "begun", "last entry", "nodes", "tasks", "attempts", "failed", "problem"),
        [
            (each.run_id, cell(each.status.value, _STYLES[each.status.value]), each.begun_at,
             each.last_at, each.nodes, each.tasks, each.attempts, each.failed, each.problem or "")
            for each in found
        ],
        right=("nodes", "tasks", "attempts", "failed"),
        wide=("problem",),
    )  # fmt: skip
    if next_cursor is not None:
        say(f"More: --after {next_cursor}", style="dim")


def show_run(summary: RunSummary, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Print a run: its state, then its tasks in the order in which they were begun."""
    show_facts(
        [
            ("status", cell(summary.status.value, _STYLES[summary.status.value])),
            ("begun", summary.begun_at),
            ("last entry", summary.last_at),
        ],
        title=f"Run {summary.run_id}",
    )
    show_table(
        ("node", "task", "status", "attempts", "effects", "result"),
        [
            (each["node_id"], each["task_id"], cell(each["status"], _STYLES[each["status"]]),
             len(each["attempts"]), _effects(each), (each["result_hash"] or "")[:_SHORT])
            for each in tasks
        ],
        right=("attempts",),
    )  # fmt: skip


def show_tasks(tasks: Sequence[Mapping[str, Any]]) -> None:
    """Print all that is known of tasks but their values."""
    for number, task in enumerate(tasks):
        if number:
            say()
        _show_facts(task)
        _show_attempts(task["attempts"])
        for title, name in (
            ("Effects", "effects"), ("Compensations", "compensations"), ("Lineage", "lineage"),
        ):  # fmt: skip
            _show_listed(title, task[name])


def show_rebuilt(done: Sequence[Rebuilt], problems: Mapping[str, Mapping[str, str]]) -> None:
    """Print what a rebuild changed, and which runs it could not read."""
    changed = [each for each in done if each.changed]
    say(f"{len(done):,} runs looked at, {len(changed):,} changed.")
    if changed:
        show_table(
            ("run", "files", "results", "lineage", "salvaged bytes"),
            [(each.run_id, each.files, each.results, each.lineage, each.salvaged_bytes)
             for each in changed],
            right=("files", "results", "lineage", "salvaged bytes"),
        )  # fmt: skip
    if problems:
        show_table(
            ("run", "code", "problem"),
            [(run_id, each["code"], each["message"]) for run_id, each in problems.items()],
            wide=("problem",),
        )


def _effects(task: Mapping[str, Any]) -> str:
    """Say how many effects were announced and what they have come to."""
    states = [each["state"] for each in task["effects"]]
    return ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))


def _show_facts(task: Mapping[str, Any]) -> None:
    failed = task["failed"]
    facts = [
        ("status", cell(task["status"], _STYLES[task["status"]])),
        *((name.replace("_", " "), task[name]) for name in _FACTS if task[name] is not None),
    ]
    if failed is not None:
        facts.append(("failed", f"{failed['why']} ({failed['error']['type']})"))
        facts.append(("compensation", task["compensation"]))
        facts.append(("rolled back", "yes" if task["rolled_back"] else "not yet"))
    show_facts(facts, title=f"{task['node_id']} {task['task_id']}")


_FACTS = (
    "pipeline", "dataset", "care_label", "code_version", "data_version", "inputs_hash",
    "cache_key", "result_hash", "result_at",
)  # fmt: skip


def _show_attempts(attempts: Sequence[Mapping[str, Any]]) -> None:
    if not attempts:
        return
    show_table(
        ("attempt", "status", "started", "ended", "ms", "error"),
        [
            (each["attempt"], each["status"], each["started_at"], each["ended_at"],
             each["measures"].get("latency_ms"), (each["error"] or {}).get("type", ""))
            for each in attempts
        ],
        right=("attempt", "ms"),
        wide=("error",),
    )  # fmt: skip


def _show_listed(title: str, entries: Sequence[Mapping[str, Any]]) -> None:
    if not entries:
        return
    say(title, "bold")
    show_facts([(f"  {number}", _told(each)) for number, each in enumerate(entries, 1)])


def _told(entry: Mapping[str, Any]) -> str:
    """Say an entry's plain values; what is nested may be a value of the node's."""
    return ", ".join(
        f"{name} {value}"
        for name, value in entry.items()
        if name not in {"kind", "number"} and isinstance(value, str | int | float)
    )
