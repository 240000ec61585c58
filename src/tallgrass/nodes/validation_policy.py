"""What a node may be given and what it may return: rules before and after it.

    ValidationPolicy(
        before={"smooth": [SchemaRule({"type": "object", "required": ["flow"]})]},
        after={"smooth": [ModelRule(Smoothed), CallableRule(no_gaps)], ANY_NODE: [CareRule()]},
        checkpoint=FileCheckpoint("data/work/validation"),
    )

A rule that is broken fails the node at once: nothing of the result is stored, and the error is
never retried. The fingerprint of all rules counts in the cache's key: what was computed under other
rules is computed again.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from tallgrass.clock import Clock, format_instant, system_clock
from tallgrass.errors import Refused, TallgrassError, ValidationError, text_of
from tallgrass.ledger.redaction import redact
from tallgrass.nodes.files import translated
from tallgrass.nodes.identity import file_name_of
from tallgrass.nodes.node_report import NodeReport
from tallgrass.nodes.protocols import NodeCall, NodeOutcome, NodeStatus
from tallgrass.nodes.validation_rules import (
    CallableRule,
    CareRule,
    Checked,
    ModelRule,
    Rule,
    SchemaRule,
    Stage,
)
from tallgrass.nodes.values import hash_of_identity, type_name
from tallgrass.telemetry.recorder import NOBODY, Recorder

__all__ = [
    "ANY_NODE",
    "CallableRule",
    "CareRule",
    "CheckpointProtocol",
    "CheckpointWatcher",
    "FileCheckpoint",
    "ModelRule",
    "SchemaRule",
    "ValidationPolicy",
]

#: Stands for every node in a policy's tables.
ANY_NODE: Final = "*"
#: So many problems are told; the rest is counted.
_TOLD_MAX: Final = 5


class CheckpointProtocol(Protocol):
    """Hears of validation as it happens, as checkpoint suites do."""

    def begin(self, call: NodeCall, stage: str) -> None:
        """The rules of a stage are about to be asked."""

    def passed(self, call: NodeCall, stage: str) -> None:
        """All rules of the stage hold."""

    def failed(self, call: NodeCall, error: BaseException) -> None:
        """The node failed by an error that is never retried; told once, when it has failed.

        By a watcher (`CheckpointWatcher`), not by the policy: not every such error is one of a
        rule.
        """


class ValidationPolicy:
    """Rules by node, before and after; `ANY_NODE` stands for all. A validator of `NodeHooks`.

    A checkpoint that cannot be told fails no node; the recorder hears of it.
    """

    def __init__(
        self,
        *,
        before: Mapping[str, Sequence[Rule]] | None = None,
        after: Mapping[str, Sequence[Rule]] | None = None,
        checkpoint: CheckpointProtocol | None = None,
        recorder: Recorder = NOBODY,
    ) -> None:
        self._rules = {Stage.BEFORE: dict(before or {}), Stage.AFTER: dict(after or {})}
        self._checkpoint = checkpoint
        self._report = NodeReport(recorder)

    @cached_property
    def fingerprint(self) -> str:
        """What changes when any rule does."""
        return hash_of_identity(
            {
                stage.value: {
                    node: [rule.fingerprint for rule in rules] for node, rules in table.items()
                }
                for stage, table in self._rules.items()
            }
        )

    def before(self, call: NodeCall, inputs: Any) -> None:
        """Check the inputs."""
        self._check(Checked(call=call, stage=Stage.BEFORE, inputs=inputs))

    def after(self, call: NodeCall, inputs: Any, result: Any) -> None:
        """Check the result."""
        self._check(Checked(call=call, stage=Stage.AFTER, inputs=inputs, result=result))

    def _check(self, checked: Checked) -> None:
        call, table = checked.call, self._rules[checked.stage]
        rules = [*table.get(ANY_NODE, ()), *table.get(call.node_id, ())]
        if self._checkpoint is not None:
            self._tell(call, checked.stage, self._checkpoint.begin)
        found = [f"{rule.name}: {each}" for rule in rules for each in rule.problems(checked)]
        if found:
            what = "was given" if checked.stage is Stage.BEFORE else "returned"
            more = f" and {len(found) - _TOLD_MAX} more" if len(found) > _TOLD_MAX else ""
            raise ValidationError(
                f"{call.node_id} {what} what its rules do not allow: "
                f"{'; '.join(found[:_TOLD_MAX])}{more}"
            )
        if self._checkpoint is not None:
            self._tell(call, checked.stage, self._checkpoint.passed)

    def _tell(self, call: NodeCall, stage: Stage, told: Callable[[NodeCall, str], None]) -> None:
        self._report.guarded(call, "checkpoint", partial(told, call, stage.value))


class CheckpointWatcher:
    """Tells a checkpoint of nodes that failed by an error that is never retried."""

    def __init__(self, checkpoint: CheckpointProtocol) -> None:
        self._checkpoint = checkpoint

    def finished(self, outcome: NodeOutcome) -> None:
        """Tell it of such a failure."""
        if outcome.status is NodeStatus.FAILED and outcome.error_is_final and outcome.error:
            self._checkpoint.failed(outcome.call, outcome.error)


class FileCheckpoint:
    """One result a file: ``<root>/<pipeline>/<timestamp>.json``, with what a suite would exit by.

    `exit_code` is 0 where the rules held and 1 where not.
    """

    def __init__(self, root: str | Path, *, clock: Clock = system_clock) -> None:
        self.root = Path(root)
        self._clock = clock

    def begin(self, call: NodeCall, stage: str) -> None:
        """Nothing is written before it is known."""

    def passed(self, call: NodeCall, stage: str) -> None:
        """Write that a stage passed."""
        self._write(call, {"checkpoint": f"kfm_{stage}_ckpt", "success": True, "exit_code": 0})

    def failed(self, call: NodeCall, error: BaseException) -> None:
        """Write that the node failed; the error's text only where the data are open."""
        said = {
            "type": type_name(type(error)),
            "code": error.code if isinstance(error, TallgrassError) else None,
            "guard": getattr(error, "guard", None) if isinstance(error, Refused) else None,
            "message": None if call.sensitive else redact(text_of(error)),
        }
        body = {"checkpoint": "kfm_node_ckpt", "success": False, "exit_code": 1, "error": said}
        self._write(call, body)

    def exit_code(self, pipeline: str, run_id: str | None = None) -> int:
        """Return 1 if any result of the pipeline, or of one run of it, is a failure; else 0."""
        folder = self.root / file_name_of(pipeline)
        with translated(folder):
            results = [orjson.loads(path.read_bytes()) for path in sorted(folder.glob("[0-9]*"))]
        return max(
            (each["exit_code"] for each in results if run_id in {None, each["run_id"]}), default=0
        )

    def _write(self, call: NodeCall, body: Mapping[str, Any]) -> None:
        now = self._clock()
        document = {
            "pipeline": call.pipeline,
            "run_id": call.run_id,
            "node_id": call.node_id,
            "task_id": call.task.task_id,
            "at": format_instant(now),
            **body,
        }
        folder = self.root / file_name_of(call.pipeline)
        with translated(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_new(folder, now, orjson.dumps(document, option=orjson.OPT_INDENT_2))


def _write_new(folder: Path, now: datetime, data: bytes) -> None:
    """Write a file whole under a name that nobody has, the time and a number where needed."""
    stem = now.strftime("%Y%m%dT%H%M%S.%fZ")
    temporary = folder / f".{stem}.{os.getpid()}.{id(data)}.tmp"
    temporary.write_bytes(data)
    number = 1
    try:
        while True:
            try:
                name = f"{stem}.json" if number == 1 else f"{stem}-{number}.json"
                os.link(temporary, folder / name)
            except FileExistsError:
                number += 1
            else:
                return
    finally:
        temporary.unlink()
