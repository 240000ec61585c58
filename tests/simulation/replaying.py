"""Who replays in a simulated world: an operator with plans, an approver, and the real engine."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.bootstrap.replay_preparing import ReplayRequest, prepare_replay
from tallgrass.bootstrap.replaying import RunOptions, run_replay
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import GuardRefused, Refused, TransientError
from tallgrass.governance.actors import Actor, Role, make_token
from tallgrass.governance.approvals import Verdict, plan_subject
from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tallgrass.replay.run import RunState
from tallgrass.replay.selection import Purpose, Selection
from tests.simulation.actors import Operator, no_sleep
from tests.simulation.disturbed import Crashed

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.replay.run import RunReport

REFERENCE = "CHG-1"
DATASETS = ("goes-glm", "nexrad-l2", "hrrr")


def set_up_people(stores: Stores) -> tuple[Actor, Actor]:
    """Add an approver and an operator, and open a change; return both people."""
    tokens = [make_token(hashlib.sha256(name.encode()).digest()) for name in ("ann", "otto")]
    ann = stores.actors.add("ann", Role.APPROVER, token=tokens[0], by=None)
    otto = stores.actors.add("otto", Role.OPERATOR, token=tokens[1], by=ann)
    stores.changes.open(ReferenceKind.CHANGE, REFERENCE, title="x", by=otto)
    return ann, otto


@dataclass
class Replayer(Operator):
    """An operator who replays, is killed in the middle, and takes runs up again."""

    #: Runs that may not be at their end, with the plan that was approved for them, if one was.
    open_runs: dict[str, tuple[Path | None, str | None]] = field(default_factory=dict)
    #: Faults have stopped: only the engine acts while it runs.
    calm: bool = False
    _runs: int = 0
    #: Runs that came to an end; they can be taken up again, and nothing must come of it.
    _ended: set[str] = field(default_factory=set)

    def replay(self) -> str:
        """Replay what failed, of one dataset or of all."""
        self._runs += 1
        name = f"run-{self._runs}"
        chosen = self.random.choice(((), *((each,) for each in DATASETS)))
        selection = Selection(datasets=chosen, attempts_min=1)
        self.open_runs[name] = (None, None)
        return self._carry_out(
            name, PlanRequest(selection=selection, reason="test", replay_run_id=name)
        )

    def run_again(self) -> str:
        """Run succeeded units again, by a plan that somebody else approved; or try it without."""
        self._runs += 1
        name = f"run-{self._runs}"
        selection = Selection(attempts_min=1, purpose=Purpose.REPAIR)
        path = self.world.folder / f"{name}.jsonl"
        try:
            request = PlanRequest(
                selection=selection, reason="test", replay_run_id=name, forced=True
            )
            plan = open_plan(self.world.config, self.stores, request, catalogue=default_catalogue())
            lines = [plan.stream.first_line(), *(line for _, _, line in plan.rows())]
            path.write_bytes(b"".join(lines))
            approval = self._approval(lines) if self.random.random() < 0.8 else None
        except (TransientError, Crashed):
            return "could not plan"
        self.open_runs[name] = (path, approval)
        return self._carry_out(name, None)

    def resume(self) -> str:
        """Take up a run that may not be at its end."""
        if not self.open_runs:
            return "has nothing to resume"
        return self._carry_out(self.random.choice(sorted(self.open_runs)), None)

    def _approval(self, lines: list[bytes]) -> str:
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        subject = plan_subject(json.loads(lines[0]), digest)
        approval = self.stores.approvals.request(subject, reason=REFERENCE, by=self.world.otto)
        self.stores.approvals.decide(approval.approval_id, Verdict.APPROVE, by=self.world.ann)
        return approval.approval_id

    def _carry_out(self, name: str, plan: PlanRequest | None) -> str:
        path, approval = self.open_runs[name]
        catalogue, config, otto = default_catalogue(), self.world.config, self.world.otto
        request = ReplayRequest(plan=plan, plan_file=path, replay_run_id=name, approval_id=approval)
        options = RunOptions(
            work=False, progress=self._meanwhile, sleep=no_sleep, ingest_lag_s=lambda: 0.0
        )
        try:
            with closing(
                prepare_replay(config, self.stores, catalogue, request, by=otto)
            ) as prepared:
                report = run_replay(config, self.stores, catalogue, prepared, options, by=otto)
        except GuardRefused as refusal:
            del self.open_runs[name]
            if refusal.guard == "approval_missing" and approval is not None:
                self.world.violations.append(f"{name} was approved, and refused: {refusal}")
            return f"{name} is refused: {refusal.guard}"
        except Refused as refusal:
            del self.open_runs[name]
            return f"{name} is refused: {refusal.code}"
        except (TransientError, Crashed) as error:
            return f"{name} is broken off: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - an id that was never registered, or a finding
            del self.open_runs[name]
            if getattr(error, "code", "") != "run_unknown":
                self.world.violations.append(f"{name} died of {type(error).__name__}: {error}")
            return f"{name} is not there"
        if report.state is RunState.FINISHED:
            self._ended.add(name)
        return f"{name}: {report.document()}"

    def _meanwhile(self, _report: RunReport) -> None:
        """Let others work, and somebody turn a switch, between two batches."""
        if self.calm:
            return
        process = self.random.choice(self.world.processes)
        if process.alive and not process.hung and self.random.random() < 0.5:
            process.step()
        if self.random.random() < 0.1:
            dataset = self.random.choice((*DATASETS, "*"))
            on = self.random.random() < 0.5
            self.world.switch(dataset, on=on, scope=SwitchScope.REPLAY)

    def finish(self, *, settle: bool = False) -> str:
        """Take runs up that are not at their end, or all; nothing disturbs any more."""
        self.calm = True
        left = sorted(set(self.open_runs) - (set() if settle else self._ended))
        return "; ".join(self._carry_out(name, None) for name in left)
