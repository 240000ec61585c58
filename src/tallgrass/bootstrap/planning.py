"""A replay plan over the configured database: nothing here writes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from re import fullmatch
from uuid import UUID, uuid4

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_catalogue, open_policies
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.datasets.fields import nearest_or_all
from tallgrass.errors import InvalidInput
from tallgrass.governance.actors import Role
from tallgrass.governance.gate import Action, GateRequest, approvals_needed, gate
from tallgrass.governance.policy import Policies, ReplayMode
from tallgrass.governance.switches import SwitchedOff, SwitchScope
from tallgrass.ledger.replay_reasons import require_reason
from tallgrass.replay.guards import Caps, Finding, environment_guard, scope_guard
from tallgrass.replay.plan import (
    Candidate,
    Denies,
    PlanAction,
    PlanHeader,
    PlannedAction,
    PlanRules,
)
from tallgrass.replay.plan_stream import PlanStream, findings_document
from tallgrass.replay.selection import Selection
from tallgrass.replay.selection_words import Selected, require_conditions
from tallgrass.storage.plan_reader import PlanReader

#: What the gate is asked for. A hit passes it as the re-run that it spares.
ASKED = {
    PlanAction.REPLAY: Action.REPLAY,
    PlanAction.RERUN: Action.RERUN,
    PlanAction.HIT: Action.RERUN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What somebody wants a plan of."""

    selection: Selection
    reason: str | None = None
    #: None: a new one is drawn.
    replay_run_id: str | None = None
    #: Environments that it was meant for, by flag and by file.
    meant_for: tuple[str | None, ...] = ()
    batch_size: int | None = None
    max_batches: int | None = None
    incident_ref: str | None = None
    change_ref: str | None = None
    policy_ref: str | None = None
    expected: tuple[str, ...] = ()
    #: Run again what would be a replay hit.
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that is made while it is read: take its header, then its rows, then its summary."""

    stream: PlanStream
    #: Guards that fire whatever the candidates are.
    standing: list[Finding]
    _reader: PlanReader
    _named: Sequence[str] | None
    _datasets: Sequence[str]

    @property
    def header(self) -> PlanHeader:
        """What the plan is for."""
        return self.stream.header

    def rows(self) -> Iterator[tuple[Candidate, PlannedAction, bytes]]:
        """Yield candidates with their rows and lines; once."""
        selection = self.header.selection
        return self.stream.rows(self._reader.candidates(selection, self._named, self._datasets))

    def findings(self) -> list[Finding]:
        """Return all guards that would fire; complete only after all rows were taken."""
        return [*self.standing, *self.stream.summary.guards(self.header)]

    def scope(self) -> dict[str, int] | None:
        """Count all units of the datasets and the data time; None where units were named."""
        if self._named is not None:
            return None
        return self._reader.scope(self.header.selection, self._datasets)

    def document(self) -> dict[str, object]:
        """Return the summary of the plan; call it after all rows were taken."""
        return {
            "header": self.header.document(),
            "summary": self.stream.summary.document(self.header.caps),
            "guards": findings_document(self.findings()),
            "scope": self.scope(),
            "plan_sha256": self.stream.sha256,
        }


def request_of(  # noqa: PLR0913 - one a condition of the run
    selected: Selected,
    *,
    reason: str | None = None,
    replay_run_id: str | None = None,
    env: str | None = None,
    incident_ref: str | None = None,
    change_ref: str | None = None,
    policy_ref: str | None = None,
    expected: tuple[str, ...] = (),
    forced: bool = False,
) -> PlanRequest:
    """Return the request made by options and by a saved selection; options come first."""
    saved = selected.saved
    return PlanRequest(
        selection=require_conditions(selected),
        reason=reason or (None if saved is None else saved.replay_reason),
        replay_run_id=replay_run_id,
        meant_for=(env, None if saved is None else saved.env),
        batch_size=None if saved is None else saved.batch_size,
        max_batches=None if saved is None else saved.max_batches,
        incident_ref=incident_ref or (None if saved is None else saved.incident_id),
        change_ref=change_ref,
        policy_ref=policy_ref,
        expected=expected,
        forced=forced,
    )


def open_plan(
    config: Config,
    stores: Stores,
    request: PlanRequest,
    *,
    catalogue: Catalogue | None = None,
    ids: Callable[[], UUID] = uuid4,
) -> Plan:
    """Begin a plan; an unknown unit, message, dataset or reason is refused before its header."""
    catalogue = catalogue or open_catalogue(config)
    policies = open_policies(config, catalogue)
    selection = request.selection
    reader = PlanReader(stores.database)
    named = reader.named_units(selection)
    datasets = reader.datasets(selection, named)
    require_known_datasets(selection, [*datasets, *(each.id for each in catalogue.datasets)])
    header = PlanHeader(
        replay_run_id=new_run_id(request.replay_run_id, ids),
        env=config.text("env"),
        mode=selection.mode,
        intent=selection.purpose.intent,
        reason=_registered(request.reason, config),
        selection=selection,
        code_version=tallgrass.__version__,
        config_version=config_version(config, catalogue),
        approvals_needed=_approvals_needed(selection, datasets, policies),
        caps=configured_caps(config).lowered(
            max_events=selection.max_records,
            batch=request.batch_size,
            batches=request.max_batches,
        ),
        incident_ref=request.incident_ref,
        change_ref=request.change_ref,
        policy_ref=request.policy_ref,
        expected=request.expected,
        forced=request.forced,
        allow_downgrade=config.flag("replay.allow_downgrade"),
    )
    off = stores.switches.switched_off(SwitchScope.REPLAY)
    denies = gate_denies(policies, off, selection.mode)
    allow_global = config.flag("replay.allow_global_scope")
    return Plan(
        stream=PlanStream(PlanRules(header=header, ledger=config.rules, denies=denies)),
        standing=[
            *scope_guard(selection, allow_global_scope=allow_global),
            *environment_guard(header.env, meant=request.meant_for, reason=header.reason),
        ],
        _reader=reader,
        _named=named,
        _datasets=datasets,
    )


def configured_caps(config: Config) -> Caps:
    """Return how much a run may do by the configuration."""
    return Caps(
        max_events=config.integer("replay.max_events"),
        batch=config.integer("replay.batch"),
        max_candidates=config.integer("replay.max_candidates"),
        max_records_per_second=config.number("replay.max_records_per_second"),
    )


def new_run_id(given: str | None, ids: Callable[[], UUID]) -> str:
    """Return the id that was given for a run, if it can be one; else a new one."""
    if given is None:
        return str(ids())
    if not fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", given):
        message = f"a run's id is a word of letters, digits, '.', '_', ':' and '-', not {given!r}"
        raise InvalidInput(message)
    return given


def _registered(reason: str | None, config: Config) -> str | None:
    if reason == "none":
        message = "a replay needs a reason other than 'none'"
        raise InvalidInput(message, code="unknown_replay_reason")
    known = dict(config.rules.custom_reasons)
    return None if reason is None else require_reason(reason, known)


def _approvals_needed(selection: Selection, datasets: Iterable[str], policies: Policies) -> int:
    """Return the most approvers that any dataset in question wants.

    It stands in the header, before any candidate is known: whoever names datasets is asked for
    theirs alone.
    """
    actions = [Action.REPLAY, *([Action.RERUN] if selection.includes_succeeded else [])]
    found = [policies.of(name) for name in datasets]
    needs = [
        approvals_needed(action, policy, selection.mode)
        for policy in found
        if policy is not None
        for action in actions
    ]
    return max(needs, default=0)


def gate_denies(policies: Policies, off: SwitchedOff, mode: ReplayMode) -> Denies:
    """Ask the gate as an approved run would; each question once."""

    @cache
    def denies(dataset: str, action: PlanAction) -> str | None:
        policy = policies.of(dataset)
        asked = ASKED[action]
        needed = 0 if policy is None else approvals_needed(asked, policy, mode)
        request = GateRequest(
            action=asked,
            dataset=dataset,
            policy=policy,
            switched_off=off,
            mode=mode,
            role=Role.OPERATOR,
            approvals=needed,
        )
        rule = gate(request).rule
        return None if rule is None else rule.value

    return denies


def require_known_datasets(selection: Selection, known: Sequence[str]) -> None:
    """Refuse an unknown dataset: a mistyped name must not select nothing in silence."""
    for name in (*selection.datasets, *selection.datasets_exclude):
        if name not in known:
            hint = nearest_or_all(name, sorted(set(known)))
            message = f"neither the ledger nor a dataset file knows {name!r}{hint}"
            raise InvalidInput(message, code="selection_invalid")
