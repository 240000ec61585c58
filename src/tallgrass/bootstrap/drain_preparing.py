"""A drain before it begins: its plan is read, every guard is asked, nothing is written."""

from collections.abc import Iterable
from dataclasses import dataclass

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_policies
from tallgrass.bootstrap.planning import ASKED, configured_caps
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import ConfigError, GuardRefused, Refused, UnknownRecord
from tallgrass.governance.actors import Acting
from tallgrass.governance.gate import Rule, approvals_needed
from tallgrass.governance.policy import Policies, ReplayMode
from tallgrass.governance.references import ReferenceKind
from tallgrass.ledger.vocabulary import Intent
from tallgrass.queues.sqs_address import read_address
from tallgrass.replay.dead_letter_plan import PURPOSE, DrainPlan
from tallgrass.replay.dead_letters import SENT
from tallgrass.replay.drain import require_documented
from tallgrass.replay.guards import environment_guard, require_admitted
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import NewRun, Run
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.plan_reader import PlanReader


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """What somebody wants drained, and on what grounds."""

    #: None: nobody gave one, which is refused.
    plan: DrainPlan | None
    change_ref: str | None = None
    incident_ref: str | None = None
    remediation: str | None = None
    approval_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDrain:
    """A drain that may begin."""

    plan: DrainPlan
    order: NewRun
    remediation: str
    needed: int
    resumed: Run | None


def prepare_drain(
    config: Config, stores: Stores, catalogue: Catalogue, request: DrainRequest, *, by: Acting
) -> PreparedDrain:
    """Ask every guard; a refusal is raised, and kept in the log."""
    try:
        return _prepared(config, stores, catalogue, request)
    except Refused as error:
        name = "new" if request.plan is None else request.plan.header.replay_run_id
        stores.replays.refuse(name, error, by=by)
        raise


def most_approvers(policies: Policies, datasets: Iterable[str]) -> int:
    """Return the most approvers that policy wants for letters of any of these datasets."""
    asked = ASKED[PlanAction.REPLAY]
    found = [policies.of(name) for name in datasets]
    needs = [approvals_needed(asked, p, ReplayMode.DLQ) for p in found if p is not None]
    return max(needs, default=0)


def _prepared(
    config: Config, stores: Stores, catalogue: Catalogue, request: DrainRequest
) -> PreparedDrain:
    plan = request.plan
    require_documented(
        planned=plan is not None,
        change_ref=request.change_ref,
        incident_ref=request.incident_ref,
        remediation=request.remediation,
    )
    assert plan is not None  # noqa: S101 - refused above
    _require_sendable(config)
    _require_open(stores, ReferenceKind.CHANGE, request.change_ref)
    _require_open(stores, ReferenceKind.INCIDENT, request.incident_ref)
    _require_current(config, catalogue, plan)
    order = _order(plan, request)
    resumed = stores.replay_runs.find(order.replay_run_id)
    if resumed is not None and resumed.order.plan_sha256 != order.plan_sha256:
        message = f"the run {order.replay_run_id} was registered with another plan"
        raise Refused(message, code="plan_changed")
    # A plan that was edited may say less than policy does; what the ledger knows says it again.
    needed = most_approvers(open_policies(config, catalogue), _datasets_of(stores, plan))
    return PreparedDrain(
        plan=plan,
        order=order,
        remediation=(request.remediation or "").strip(),
        needed=max(plan.header.approvals_needed, needed),
        resumed=resumed,
    )


def _require_sendable(config: Config) -> None:
    """Refuse a queue that nothing can be sent to, before a unit is put back for its message."""
    url = config.text("queue.url")
    if sqlite_file(url) is None and read_address(url).is_fifo:
        raise ConfigError("queue.url: a FIFO queue is read, not sent to; its letters stay")


def _require_open(stores: Stores, kind: ReferenceKind, ref: str | None) -> None:
    ref = (ref or "").strip()
    if not ref:
        return
    try:
        is_open = stores.changes.find(kind, ref).closed_at is None
    except UnknownRecord:
        is_open = False
    if not is_open:
        message = f"{kind.noun} {ref} is not open: `tallgrass {kind.value}s list` tells"
        raise GuardRefused(message, guard=Rule.REFERENCE_NOT_OPEN.value)


def _require_current(config: Config, catalogue: Catalogue, plan: DrainPlan) -> None:
    header = plan.header
    require_admitted(environment_guard(config.text("env"), meant=(header.env,)))
    in_use = (
        tallgrass.__version__,
        config_version(config, catalogue),
        config.text("queue.name"),
    )
    if (header.code_version, header.config_version, header.queue) != in_use:
        message = (
            f"the plan was made with the code {header.code_version}, the configuration"
            f" {header.config_version} and the queue {header.queue}, which are no longer those in"
            " use"
        )
        raise Refused(message, code="plan_changed")
    allowed, sent = configured_caps(config).max_events, sum(r.action in SENT for r in plan.rows)
    if sent > allowed:
        message = f"{sent:,} letters to send; at most {allowed:,} are allowed"
        raise GuardRefused(message, guard=Rule.SELECTION_TOO_LARGE.value)


def _order(plan: DrainPlan, request: DrainRequest) -> NewRun:
    return NewRun(
        replay_run_id=plan.header.replay_run_id,
        mode=ReplayMode.DLQ,
        intent=Intent.INGEST,
        reason=PURPOSE,
        selection=plan.header.selection,
        plan_sha256=plan.sha256,
        code_version=plan.header.code_version,
        config_version=plan.header.config_version,
        planned=0,  # grows with each unit that is put back
        approval_id=request.approval_id,
        change_ref=(request.change_ref or "").strip() or None,
        incident_ref=(request.incident_ref or "").strip() or None,
    )


def _datasets_of(stores: Stores, plan: DrainPlan) -> set[str]:
    wal_ids = {wal_id for row in plan.rows if row.action in SENT for wal_id, _ in row.units}
    return set(PlanReader(stores.database).datasets_of(sorted(wal_ids)).values())
