"""A runner of nodes under the configured governance: policies, switches, approvals, alerts."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.metering import energy_coefficients
from tallgrass.bootstrap.node_lineage import OutboxLineage
from tallgrass.bootstrap.publishing import open_publisher
from tallgrass.bootstrap.stores import Stores, open_current_stores
from tallgrass.config import Config
from tallgrass.errors import InvalidInput, NotAuthorized, TallgrassError
from tallgrass.governance.actors import Actor
from tallgrass.governance.policy import Policies
from tallgrass.governance.switches import ALL_DATASETS, SwitchedOff, SwitchScope
from tallgrass.nodes.clear_plan import ClearPlan, clear_plan_of, failed_tasks
from tallgrass.nodes.energy_policy import CpuEnergyMeter
from tallgrass.nodes.entries import TaskId
from tallgrass.nodes.error_budget import ErrorBudgets
from tallgrass.nodes.escalation import Alert, Escalation
from tallgrass.nodes.gatekeeper import GovernanceGate
from tallgrass.nodes.lineage import Lineage
from tallgrass.nodes.node_runner import NodeRunner
from tallgrass.nodes.protocols import NodeHooks
from tallgrass.nodes.rerun_plan import RerunPlan
from tallgrass.nodes.wal_store import WalStore
from tallgrass.outbox.publishing import Publisher
from tallgrass.storage.node_governance import NodeGovernance
from tallgrass.telemetry.recorder import NOBODY, Recorder

Result = TypeVar("Result")

#: Each of these variables stops all nodes of the process while it says anything but no.
KILL_SWITCH_VARIABLES: Final = ("KFM_KILL_SWITCH_ETL", "KFM_KILL_SWITCH_GRAPH")
_NO: Final = frozenset({"", "0", "false", "no", "off"})


class GovernanceDesk:
    """The configured store as nodes need it: one connection, used by one thread at a time."""

    def __init__(
        self,
        stores: Stores,
        policies: Policies,
        *,
        wal: Path,
        by: Actor | None,
        environment: Mapping[str, str],
    ) -> None:
        self._stores = stores
        self._governance = NodeGovernance(stores.runner, stores.approvals, policies)
        self._wal = wal
        self._by = by
        self._environment = environment
        self._lock = threading.Lock()

    def switched_off(self) -> SwitchedOff | None:
        """Return what is off for nodes; None where it cannot be read, which stops everything."""
        if any(
            self._environment.get(name, "").strip().lower() not in _NO
            for name in KILL_SWITCH_VARIABLES
        ):
            return SwitchedOff([ALL_DATASETS])
        try:
            return self._alone(lambda: self._stores.switches.switched_off(SwitchScope.NODES))
        except TallgrassError:
            return None

    def note(self, alert: Alert) -> None:
        """Keep an alert, and open its review."""
        self._alone(lambda: self._governance.note(alert))

    def allow_clearing(self, approval: str, run_id: str, task: TaskId) -> None:
        """Use an approval up to clear a failed task; only somebody who is proved may."""
        by = self._by
        if by is None:
            raise NotAuthorized(
                "clearing a failed node needs somebody who is proved", code="unknown_actor"
            )
        state = WalStore(self._wal).read(run_id).task(task)
        self._alone(lambda: self._governance.clear(approval, run_id, state, by=by))

    def allow_rerun(self, approval: str, run_id: str, task: TaskId) -> None:
        """Use an approval up to run a task again where its error budget asks for one."""
        pre = WalStore(self._wal).read(run_id).task(task).pre
        dataset = None if pre is None else pre.body.get("dataset")
        self._alone(lambda: self._governance.allow_rerun(approval, run_id, task, dataset))

    def lineage(self, publisher: Publisher) -> Lineage:
        """Return who hands lineage to the outbox, over the same connection."""
        return Lineage(OutboxLineage(self._stores.runner, publisher, lock=self._lock))

    def close(self) -> None:
        """Close the connection."""
        self._alone(self._stores.close)

    def _alone(self, work: Callable[[], Result]) -> Result:
        with self._lock:
            return work()


def open_node_runner(
    config: Config,
    *,
    pipeline: str,
    run_id: str | None = None,
    root: str | Path | None = None,
    hooks: NodeHooks | None = None,
    by: Actor | None = None,
    recorder: Recorder = NOBODY,
    environment: Mapping[str, str] = os.environ,
    **options: Any,
) -> NodeRunner:
    """Return a runner under the configured governance; closing it closes its connection.

    Kill switches and freezes of the store stop its nodes, policies of datasets govern them, their
    outcomes count in the pipeline's error budget, failures are raised to governance, lineage goes
    to the outbox, and energy is estimated by the configured figures. `by` is who may clear failed
    nodes; `options` are those of `NodeRunner`. Its folder is `nodes.folder`, or `root`.
    """
    folder = Path(root if root is not None else config.text("nodes.folder"))
    energy = CpuEnergyMeter(energy_coefficients(config))
    policies = open_policies(config)
    desk = GovernanceDesk(
        open_current_stores(config),
        policies,
        wal=folder / "wal",
        by=by,
        environment=environment,
    )
    given = _with_defaults(hooks or NodeHooks(), desk, folder, recorder)
    if given.energy is None:
        given = replace(given, energy=energy)
    if given.lineage is None:
        given = replace(given, lineage=desk.lineage(open_publisher(config)))
    return NodeRunner(
        folder,
        pipeline=pipeline,
        run_id=run_id,
        **{
            "env": config.text("env"),
            "gate": GovernanceGate(policies, desk.switched_off),
            "hooks": given,
            "approvals": desk,
            "recorder": recorder,
            "also_close": desk.close,
            **options,
        },
    )


def _with_defaults(
    hooks: NodeHooks, desk: GovernanceDesk, folder: Path, recorder: Recorder
) -> NodeHooks:
    """Add what the configured governance brings where the caller brings nothing."""
    if hooks.escalation is None:
        hooks = replace(hooks, escalation=Escalation(desk, recorder=recorder))
    if hooks.budget is None:
        budgets = ErrorBudgets(folder / "outcomes", approvals=desk)
        hooks = replace(hooks, budget=budgets, watchers=(*hooks.watchers, budgets))
    return hooks


def plan_rerun(
    config: Config, run_id: str, node_id: str, task_id: str | None, dataset: str | None
) -> RerunPlan:
    """Return what an approval to run a node again is to be asked for."""
    policy = None if dataset is None else open_policies(config).of(dataset)
    if dataset is not None and policy is None:
        raise InvalidInput(f"no policy is known for {dataset}")
    needed = 1 if policy is None else max(1, policy.approvals_needed)
    return RerunPlan(
        run_id=run_id, node_id=node_id, task_id=task_id, dataset=dataset, approvals_needed=needed
    )


def plan_clearing(
    config: Config, root: Path, run_id: str, node_id: str, task_id: str | None
) -> ClearPlan:
    """Return what an approval to clear a failed node is to be asked for; nothing is written."""
    run = WalStore(root / "wal").read(run_id)
    policies = open_policies(config)
    needed = [
        policy.approvals_needed
        for task in failed_tasks(run, node_id, task_id)
        if task.pre is not None
        and (policy := policies.of(task.pre.body.get("dataset") or "")) is not None
    ]
    return clear_plan_of(run, node_id, task_id, approvals_needed=max([1, *needed]))
