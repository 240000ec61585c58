"""What the journal says of a task's effects: made or not, undone or not.

    begun ──► done ──────┬──► undone      by a compensation
      │  └──► not_made   ├──► stuck       its compensation failed for good: a person must look
      └──────────────────┴──► left        a procedure governs it, and no compensation does

An effect that was begun and never ended may or may not have been made. A task that was cleared by
an approval keeps what stands as done; all else of it is void and may be made again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tallgrass.nodes.entries import Entry, Kind, TaskState


class EffectState(StrEnum):
    """Where an effect stands."""

    BEGUN = "begun"
    DONE = "done"
    NOT_MADE = "not_made"
    UNDONE = "undone"
    STUCK = "stuck"
    LEFT = "left"
    #: Cleared by an approval: it may be made again.
    VOID = "void"


class TryStatus(StrEnum):
    """What came of a try at undoing an effect; one without an end was cut off by a crash."""

    STARTED = "started"
    UNDONE = "undone"
    FAILED = "failed"
    LEFT = "left"
    #: The gate did not allow it; it counts as no try.
    REFUSED = "refused"


class Compensated(StrEnum):
    """What the compensation of a failed task comes to."""

    #: It began no effect that could be left.
    NONE = "none"
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    #: Effects stand that a procedure governs.
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """One effect that was announced, and what became of it."""

    number: int
    name: str
    #: As it stands in the journal.
    key: Any
    state: EffectState
    begun: Entry
    done: Entry | None
    #: Tries at undoing it since the task was last cleared, those that a crash cut off too.
    tries: int
    #: Whether a result of the node counts on it, so that a later failure leaves it.
    is_kept: bool


_OUTSTANDING: Final = frozenset({EffectState.BEGUN, EffectState.DONE})
_BY_TRY: Final = {TryStatus.UNDONE: EffectState.UNDONE, TryStatus.LEFT: EffectState.LEFT}


def effects_of(task: TaskState) -> list[EffectRecord]:
    """Return the task's effects in the order in which they were announced."""
    begun = [(at, entry) for at, entry in enumerate(task.effects) if entry.kind is Kind.EFFECT]
    ends = _ends(task)
    return [_record(task, at, entry, number, ends) for number, (at, entry) in enumerate(begun, 1)]


def latest_effect(task: TaskState, name: str, key: Any) -> EffectRecord | None:
    """Return the newest effect of that name and key, the key as it stands in the journal."""
    for at in range(len(task.effects) - 1, -1, -1):
        entry = task.effects[at]
        said = (entry.kind, entry.body.get("effect"), entry.body.get("key"))
        if said == (Kind.EFFECT, name, key):
            number = effects_begun(task.effects[: at + 1])
            return _record(task, at, entry, number, _ends(task))
    return None


def effects_begun(entries: Sequence[Entry]) -> int:
    """Count the effects that were announced; the newest has that number."""
    return sum(entry.kind is Kind.EFFECT for entry in entries)


def outstanding_effects(task: TaskState) -> list[EffectRecord]:
    """Return what a failure must undo, the newest first.

    One that was made again under its key stands for the earlier one.
    """
    found: list[EffectRecord] = []
    later: list[tuple[str, Any]] = []
    for each in reversed(effects_of(task)):
        named = (each.name, each.key)
        if each.state in _OUTSTANDING and not each.is_kept and named not in later:
            found.append(each)
        if each.state is not EffectState.NOT_MADE:
            later.append(named)
    return found


def compensation_of(task: TaskState) -> Compensated:
    """Tell what has become of the effects of a failed task."""
    if outstanding_effects(task):
        return Compensated.PENDING
    states = [each.state for each in effects_of(task) if not each.is_kept]
    for state, comes_to in (
        (EffectState.STUCK, Compensated.FAILED),
        (EffectState.LEFT, Compensated.LEFT),
        (EffectState.UNDONE, Compensated.DONE),
    ):
        if state in states:
            return comes_to
    return Compensated.NONE


def tries_of(task: TaskState) -> list[dict[str, Any]]:
    """Return each try at a compensation once, with its begin and its end."""
    tries: list[dict[str, Any]] = []
    for entry in task.compensations:
        body = dict(entry.body)
        last = tries[-1] if tries else {}
        is_end = body.get("status") != TryStatus.STARTED and _same_try(last, body)
        if is_end:
            last.update({**body, "ended_at": entry.at})
        else:
            is_begin = body.get("status") == TryStatus.STARTED
            tries.append(
                {**body, "started_at": entry.at, "ended_at": None if is_begin else entry.at}
            )
    return tries


def _ends(task: TaskState) -> dict[int, Entry]:
    return {
        entry.body["number"]: entry
        for entry in task.effects
        if entry.kind is not Kind.EFFECT and "number" in entry.body
    }


def _same_try(last: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    begun = last.get("status") == TryStatus.STARTED
    return begun and all(last.get(name) == body.get(name) for name in ("number", "try"))


def _record(
    task: TaskState, at: int, entry: Entry, number: int, ends: Mapping[int, Entry]
) -> EffectRecord:
    end = ends.get(number)
    done = end if end is not None and end.kind is Kind.EFFECT_DONE else None
    cleared, since = _tries(task, number)
    made = EffectState.BEGUN if end is None else EffectState.NOT_MADE
    state = _undone(EffectState.DONE if done is not None else made, cleared)
    if at < task.effects_before_clear:
        stands = done is not None and state in {EffectState.DONE, EffectState.LEFT}
        state = EffectState.DONE if stands else EffectState.VOID
    return EffectRecord(
        number=number,
        name=entry.body.get("effect", ""),
        key=entry.body.get("key"),
        state=_undone(state, since),
        begun=entry,
        done=done,
        tries=sum(each["status"] == TryStatus.STARTED for each in since),
        is_kept=at < task.effects_before_post,
    )


def _tries(task: TaskState, number: int) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the tries at undoing an effect, until the task was last cleared and since."""
    parts = (
        task.compensations[: task.compensations_before_clear],
        task.compensations[task.compensations_before_clear :],
    )
    cleared, since = (
        [each.body for each in part if each.body.get("number") == number] for part in parts
    )
    return cleared, since


def _undone(state: EffectState, tries: list[Mapping[str, Any]]) -> EffectState:
    for each in tries:
        status = TryStatus(each["status"])
        if status is TryStatus.FAILED and each.get("is_final"):
            return EffectState.STUCK
        state = _BY_TRY.get(status, state)
    return state
