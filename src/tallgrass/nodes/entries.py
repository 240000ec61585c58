"""What the journal of a run says: its entries, and what they come to for each task of a node.

A task is one execution of a node that the run asks for: a loop or a fan-out has several. Everything
here is derived from the entries in their order, so any process that reads them knows the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from tallgrass.clock import parse_instant
from tallgrass.errors import NodeWalDamaged

FORMAT: Final = 1


class Kind(StrEnum):
    """What an entry tells of."""

    #: The first of every journal.
    RUN = "run"
    #: A task's inputs, before anything is done.
    PRE = "pre"
    #: An attempt begins; durable before the node's function is entered.
    ATTEMPT = "attempt"
    ATTEMPT_END = "attempt_end"
    #: The result, durable before anybody is told of it.
    POST = "post"
    #: The result came from the cache.
    HIT = "hit"
    #: The node failed for good, or somebody allowed it again.
    FAILED = "failed"
    CLEARED = "cleared"
    #: The rollback hook was called for the failure.
    ROLLED_BACK = "rolled_back"
    #: An effect outside is about to be made, or was.
    EFFECT = "effect"
    EFFECT_DONE = "effect_done"
    #: An effect that was announced was certainly not made.
    EFFECT_NOT_MADE = "effect_not_made"
    #: A try at compensation began or ended.
    COMPENSATION = "compensation"
    #: Somebody was told of the failure who must look at it.
    ESCALATED = "escalated"
    #: Lineage of the task was handed on.
    LINEAGE = "lineage"


class AttemptStatus(StrEnum):
    """How an attempt ended; one without an end was cut off by a crash."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: By an interrupt of LangGraph: it will run again from its top.
    SUSPENDED = "suspended"
    #: By whoever ran it.
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


#: These spend the budget of retries.
SPENT: Final = frozenset(
    {AttemptStatus.STARTED, AttemptStatus.FAILED, AttemptStatus.TIMED_OUT, AttemptStatus.SUCCEEDED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskId:
    """One execution of a node that a run asks for."""

    node_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry; `body` holds JSON values."""

    kind: Kind
    task: TaskId | None
    at: str
    body: Mapping[str, Any]

    def payload(self) -> bytes:
        """Return the bytes that are written."""
        head: dict[str, Any] = {"kind": self.kind.value, "at": self.at}
        if self.task is not None:
            head |= {"node_id": self.task.node_id, "task_id": self.task.task_id}
        return orjson.dumps({**head, "body": dict(self.body)})

    @classmethod
    def read(cls, payload: bytes) -> "Entry":
        """Read an entry; one that this version does not know is an error."""
        try:
            raw = orjson.loads(payload)
            task = None
            if "node_id" in raw:
                task = TaskId(node_id=raw["node_id"], task_id=raw["task_id"])
            return cls(kind=Kind(raw["kind"]), task=task, at=raw["at"], body=raw["body"])
        except (ValueError, KeyError, TypeError) as exc:
            raise NodeWalDamaged(f"an entry that cannot be understood: {exc}") from exc


@dataclass(slots=True, kw_only=True)
class Attempt:
    """An attempt as far as it is known."""

    attempt: int
    started_at: str
    identity: str
    status: AttemptStatus = AttemptStatus.STARTED
    ended_at: str | None = None
    error: Mapping[str, Any] | None = None
    #: The wait before the next one.
    delay_s: float = 0.0
    measures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spent_s(self) -> float:
        """The time that it took, with the wait after it; 0 where a crash ended it."""
        if self.ended_at is None:
            return 0.0
        return max(_seconds(self.started_at, self.ended_at), 0.0) + self.delay_s

    def as_json_value(self) -> dict[str, Any]:
        """Return it as `attempts.json` shows it."""
        return {
            "attempt": self.attempt,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "status": self.status.value,
            "error": self.error,
            "delay_s": self.delay_s,
            "measures": dict(self.measures),
        }


@dataclass(slots=True, kw_only=True)
class TaskState:
    """What the journal says of one task."""

    id: TaskId
    #: Whether it was the node's first task in the run.
    is_first: bool
    #: Of its run.
    salt: str = ""
    pre: Entry | None = None
    #: What says what was asked for last: a PRE, or a hit of the cache, which has none.
    asked: Entry | None = None
    #: Whether any call of it was of data that are not open.
    sensitive: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    #: The newest result, of a run or from the cache, and where its entry ends in the journal.
    post: Entry | None = None
    post_end: int = 0
    failed: Entry | None = None
    rolled_back: bool = False
    #: What was escalated of the failure, by kind.
    escalated: list[str] = field(default_factory=list)
    effects: list[Entry] = field(default_factory=list)
    #: So many of the effects' entries stood there when the task last had a result, and when it was
    #: last cleared.
    effects_before_post: int = 0
    effects_before_clear: int = 0
    compensations: list[Entry] = field(default_factory=list)
    compensations_before_clear: int = 0
    lineage: list[Entry] = field(default_factory=list)
    #: The attempts from here on count against the budget.
    budget_from: int = 0

    def tried(self, identity: str, since: int = 0) -> list[Attempt]:
        """Return the attempts of this identity, over all processes that tried it.

        Those that were suspended or cancelled are not among them.
        """
        return [
            attempt
            for attempt in self.attempts[since:]
            if attempt.identity == identity and attempt.status in SPENT
        ]

    def spent(self, identity: str) -> list[Attempt]:
        """Return the attempts that count against the budget: since it succeeded or was cleared."""
        return self.tried(identity, self.budget_from)

    def result_for(self, identity: str) -> Entry | None:
        """Return the recorded result, if it is one of this identity."""
        if self.post is not None and self.post.body["identity"] == identity:
            return self.post
        return None

    def apply(self, entry: Entry, end: int) -> None:
        """Take an entry in."""
        _APPLY[entry.kind](self, entry, end)

    def _attempt(self, entry: Entry) -> Attempt | None:
        number = entry.body["attempt"]
        found = [attempt for attempt in self.attempts if attempt.attempt == number]
        return found[-1] if found else None


def _on_pre(task: TaskState, entry: Entry, _end: int) -> None:
    task.pre = entry
    _on_asked(task, entry)


def _on_asked(task: TaskState, entry: Entry) -> None:
    task.asked = entry
    task.sensitive = task.sensitive or entry.body.get("sensitive", True)


def _on_attempt(task: TaskState, entry: Entry, _end: int) -> None:
    task.attempts.append(
        Attempt(
            attempt=entry.body["attempt"],
            started_at=entry.at,
            identity=entry.body["identity"],
        )
    )


def _on_attempt_end(task: TaskState, entry: Entry, _end: int) -> None:
    attempt = task._attempt(entry)  # noqa: SLF001 - its own module
    if attempt is None:
        raise NodeWalDamaged(f"attempt {entry.body['attempt']} ends and never began")
    attempt.status = AttemptStatus(entry.body["status"])
    attempt.ended_at = entry.at
    attempt.error = entry.body.get("error")
    attempt.delay_s = entry.body.get("delay_s", 0.0)
    attempt.measures = entry.body.get("measures", {})


def _on_post(task: TaskState, entry: Entry, end: int) -> None:
    task.post, task.post_end = entry, end
    task.budget_from = len(task.attempts)
    task.effects_before_post = len(task.effects)


def _on_hit(task: TaskState, entry: Entry, end: int) -> None:
    _on_asked(task, entry)
    _on_post(task, entry, end)


def _on_failed(task: TaskState, entry: Entry, _end: int) -> None:
    task.failed, task.rolled_back, task.escalated = entry, False, []


def _on_cleared(task: TaskState, _entry: Entry, _end: int) -> None:
    task.failed, task.budget_from = None, len(task.attempts)
    task.effects_before_clear = len(task.effects)
    task.compensations_before_clear = len(task.compensations)


def _on_rolled_back(task: TaskState, _entry: Entry, _end: int) -> None:
    task.rolled_back = True


def _on_escalated(task: TaskState, entry: Entry, _end: int) -> None:
    task.escalated.append(entry.body["alert"])


def _on_effect(task: TaskState, entry: Entry, _end: int) -> None:
    task.effects.append(entry)


def _on_compensation(task: TaskState, entry: Entry, _end: int) -> None:
    task.compensations.append(entry)


def _on_lineage(task: TaskState, entry: Entry, _end: int) -> None:
    task.lineage.append(entry)


_APPLY: Final = {
    Kind.PRE: _on_pre,
    Kind.ATTEMPT: _on_attempt,
    Kind.ATTEMPT_END: _on_attempt_end,
    Kind.POST: _on_post,
    Kind.HIT: _on_hit,
    Kind.FAILED: _on_failed,
    Kind.CLEARED: _on_cleared,
    Kind.ROLLED_BACK: _on_rolled_back,
    Kind.EFFECT: _on_effect,
    Kind.EFFECT_DONE: _on_effect,
    Kind.EFFECT_NOT_MADE: _on_effect,
    Kind.ESCALATED: _on_escalated,
    Kind.COMPENSATION: _on_compensation,
    Kind.LINEAGE: _on_lineage,
}


class RunState:
    """All tasks of a run, as the entries say."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.tasks: dict[TaskId, TaskState] = {}
        self.begun_at: str | None = None
        #: Drawn when the run began: names that are told of sensitive tasks are made with it.
        self.salt = ""
        #: Of the newest entry.
        self.last_at: str | None = None
        self._nodes: set[str] = set()
        #: Ids by what is left of them on a file system that knows no case.
        self._folded: dict[tuple[str, str], str] = {}

    def apply(self, entry: Entry, end: int) -> None:
        """Take an entry in."""
        self.last_at = entry.at
        if entry.kind is Kind.RUN:
            if entry.body["run_id"] != self.run_id or entry.body["format"] != FORMAT:
                raise NodeWalDamaged(
                    f"the journal is that of run {entry.body['run_id']!r}, "
                    f"format {entry.body['format']}"
                )
            self.begun_at = entry.at
            self.salt = str(entry.body.get("salt", ""))
        elif entry.task is not None:
            self.task(entry.task).apply(entry, end)

    def task(self, task: TaskId) -> TaskState:
        """Return a task's state, new where nothing was said of it."""
        known = self.tasks.get(task)
        if known is None:
            is_first = task.node_id not in self._nodes
            known = TaskState(id=task, is_first=is_first, salt=self.salt)
            self._nodes.add(task.node_id)
            self._folded[("", task.node_id.casefold())] = task.node_id
            self._folded[(task.node_id, task.task_id.casefold())] = task.task_id
            self.tasks[task] = known
        return known

    def clash_of(self, task: TaskId) -> str | None:
        """Return a known id that differs from this task's by case alone, if there is one."""
        node = self._folded.get(("", task.node_id.casefold()), task.node_id)
        if node != task.node_id:
            return node
        known = self._folded.get((task.node_id, task.task_id.casefold()), task.task_id)
        return known if known != task.task_id else None


def _seconds(started_at: str, ended_at: str) -> float:
    return (parse_instant(ended_at) - parse_instant(started_at)).total_seconds()
