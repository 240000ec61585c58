"""A replay run before it begins: its plan is whole, its guards are asked, nothing is written.

A plan comes from a selection, from a file, or from what is left of a run that was broken off. A
plan file that nobody approved gives no more rights than the options that could have made it.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_policies
from tallgrass.bootstrap.planning import ASKED, PlanRequest, configured_caps, open_plan
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import GuardRefused, Refused, UnknownRecord
from tallgrass.governance.actors import Acting
from tallgrass.governance.gate import Rule, approvals_needed
from tallgrass.governance.policy import Policies, ReplayMode
from tallgrass.replay.guards import (
    Caps,
    environment_guard,
    record_guards,
    require_admitted,
    scope_guard,
    volume_guard,
)
from tallgrass.replay.plan import PlanAction, PlanHeader, PlannedAction, SkipReason
from tallgrass.replay.plan_file import PlanReading, read_row
from tallgrass.replay.run import NewRun, RowOutcome, Run
from tallgrass.replay.selection import IdRange, Selection
from tallgrass.storage.plan_reader import PlanReader

_BEYOND = SkipReason.BEYOND_MAX_EVENTS.value
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What somebody wants replayed."""

    #: A selection; None where a file or the id of a run says it.
    plan: PlanRequest | None = None
    plan_file: Path | None = None
    replay_run_id: str | None = None
    reason: str | None = None
    approval_id: str | None = None
    meant_for: tuple[str | None, ...] = ()


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A run that may begin."""

    order: NewRun
    caps: Caps
    #: Approvers that it needs.
    needed: int
    by_action: Counter[str]
    #: The run that it goes on with, if it does.
    resumed: Run | None
    policies: Policies
    _spool: BinaryIO

    def rows(self) -> Iterator[PlannedAction]:
        """Yield the rows of the plan, from its copy."""
        self._spool.seek(0)
        for number, line in enumerate(self._spool, start=1):
            yield read_row(line, number)

    def close(self) -> None:
        """Remove the copy."""
        self._spool.close()


def prepare_replay(
    config: Config, stores: Stores, catalogue: Catalogue, request: ReplayRequest, *, by: Acting
) -> Prepared:
    """Make or read the plan and ask every guard; a refusal is raised, and kept in the log."""
    preparing = _Preparing(config, stores, catalogue, request)
    try:
        return preparing.from_file() if request.plan_file else preparing.from_selection()
    except Refused as error:
        preparing.close()
        planned = None if request.plan is None else request.plan.replay_run_id
        stores.replays.refuse(request.replay_run_id or planned or "new", error, by=by)
        raise
    except BaseException:
        preparing.close()
        raise


class _Preparing:
    def __init__(
        self, config: Config, stores: Stores, catalogue: Catalogue, request: ReplayRequest
    ) -> None:
        self._config = config
        self._stores = stores
        self._catalogue = catalogue
        self._request = request
        self._policies = open_policies(config, catalogue)
        self._env = config.text("env")
        # The plan is copied before anything is done: while it is applied, the ledger moves.
        self._spool: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - it outlives this call

    def close(self) -> None:
        """Remove the copy of the plan."""
        self._spool.close()

    def from_selection(self) -> Prepared:
        """Plan a selection, or what is left of a run."""
        resumed = self._run_of(self._request.replay_run_id)
        if resumed is not None:
            return self._rest_of(resumed)
        if self._request.plan is None:
            name = self._request.replay_run_id
            raise UnknownRecord(f"there is no run {name}", code="run_unknown")
        return self._planned(self._request.plan, None)

    def from_file(self) -> Prepared:
        """Take a plan as it was written."""
        request = self._request
        assert request.plan_file is not None  # noqa: S101 - that is why it is called
        with request.plan_file.open("rb") as file:
            reading = PlanReading(file)
            header, rows = reading.open()
            reasons = _copy(rows, self._spool)
        asked = self._asked_of_file(self._spool)
        total = reading.by_action.total()
        caps = _smaller(configured_caps(self._config), header.caps)
        events = _events(reading.by_action)
        self._require_file(header, total, events, caps)
        mode = header.mode if request.approval_id or total <= 1 else ReplayMode.RANGE
        order = replace(
            self._order(header, reading.sha256, total, reasons),
            reason=header.reason or request.reason or "none",
            mode=mode,
        )
        self._require_policy_ref(order, {dataset for dataset, _ in asked})
        resumed = self._run_of(header.replay_run_id)
        if resumed is not None and resumed.order.plan_sha256 != reading.sha256:
            message = f"the run {header.replay_run_id} was registered with another plan"
            raise Refused(message, code="plan_changed")
        return Prepared(
            order=order if resumed is None else resumed.order,
            caps=caps,
            needed=self._needed(asked, mode),
            by_action=reading.by_action,
            resumed=resumed,
            policies=self._policies,
            _spool=self._spool,
        )

    def _planned(self, request: PlanRequest, resumed: Run | None) -> Prepared:
        plan = open_plan(self._config, self._stores, request, catalogue=self._catalogue)
        asked: set[tuple[str, PlanAction]] = set()
        plan.stream.first_line()
        for candidate, row, line in plan.rows():
            self._spool.write(line)
            asked.add((candidate.dataset, row.action))
        summary, header = plan.stream.summary, plan.header
        require_admitted(f for f in plan.findings() if f.guard is not Rule.APPROVAL_MISSING)
        if resumed is None and not summary.events and not summary.by_action[PlanAction.HIT]:
            _require_some_work(summary.by_reason)
        order = self._order(header, plan.stream.sha256, summary.candidates, summary.by_reason)
        self._require_policy_ref(order, {dataset for dataset, _ in asked})
        if resumed is not None:
            rows = sum(count.records for count in self._stores.replay_runs.counts(resumed))
            planned = rows + summary.candidates
            order = replace(resumed.order, planned=planned, skipped=order.skipped)
        return Prepared(
            order=order,
            caps=header.caps,
            needed=self._needed(asked, header.mode),
            by_action=summary.by_action,
            resumed=resumed,
            policies=self._policies,
            _spool=self._spool,
        )

    def _rest_of(self, run: Run) -> Prepared:
        """Plan what a run that was broken off has not applied yet."""
        order, request = run.order, self._request
        if order.mode is ReplayMode.DLQ:
            message = "the run is a drain: go on with `tallgrass dlq drain` and its plan"
            raise Refused(message, code="plan_changed")
        if order.approval_id is not None:
            message = "the run was approved with its plan: give that file (--plan)"
            raise Refused(message, code="plan_changed")
        if request.plan is not None and request.plan.selection != order.selection:
            message = f"the run {order.replay_run_id} was registered with another selection"
            raise Refused(message, code="plan_changed")
        if request.reason not in {None, order.reason}:
            message = f"the run {order.replay_run_id} was registered for {order.reason}"
            raise Refused(message, code="plan_changed")
        rest = self._left_of(run)
        if rest is None:
            return self._nothing_left(run)
        return self._planned(
            PlanRequest(
                selection=rest,
                reason=order.reason,
                replay_run_id=order.replay_run_id,
                meant_for=request.meant_for,
                incident_ref=order.incident_ref,
                change_ref=order.change_ref,
                policy_ref=order.policy_ref,
                expected=order.expected,
                forced=order.forced,
            ),
            run,
        )

    def _left_of(self, run: Run) -> Selection | None:
        """Return what lies behind the last record, below the cap; None where that is nothing."""
        selection, counts = run.order.selection, self._stores.replay_runs.counts(run)
        worked = sum(c.records for c in counts if c.outcome is not RowOutcome.SKIPPED)
        cap = configured_caps(self._config).lowered(max_events=selection.max_records).max_events
        ids = selection.wal_id_range
        if run.applied_to is not None:
            ids = ids.within(IdRange(_next_id(run.applied_to)))
        if (
            run.finished_at
            or worked >= cap
            or (ids.end is not None and (ids.start or "") >= ids.end)
        ):
            return None
        return replace(selection, wal_id_range=ids, max_records=cap - worked)

    def _nothing_left(self, run: Run) -> Prepared:
        return Prepared(
            order=run.order,
            caps=configured_caps(self._config),
            needed=0,
            by_action=Counter(),
            resumed=run,
            policies=self._policies,
            _spool=self._spool,
        )

    def _run_of(self, replay_run_id: str | None) -> Run | None:
        return None if replay_run_id is None else self._stores.replay_runs.find(replay_run_id)

    def _asked_of_file(self, spool: BinaryIO) -> set[tuple[str, PlanAction]]:
        """Return what is asked of which dataset, by what the ledger knows of the units."""
        reader = PlanReader(self._stores.database)
        asked: set[tuple[str, PlanAction]] = set()
        spool.seek(0)
        for page in _pages(spool):
            datasets = reader.datasets_of([row.wal_id for row in page])
            for row in page:
                if row.wal_id not in datasets:
                    message = f"the ledger has no unit {row.wal_id}: the plan is of another one"
                    raise UnknownRecord(message)
                asked.add((datasets[row.wal_id], row.action))
        return asked

    def _require_file(self, header: PlanHeader, total: int, events: int, caps: Caps) -> None:
        request = self._request
        if request.replay_run_id not in {None, header.replay_run_id}:
            message = f"the plan is of the run {header.replay_run_id}, not {request.replay_run_id}"
            raise Refused(message, code="plan_changed")
        if request.reason not in {None, header.reason} and header.reason is not None:
            message = f"the plan was made for the reason {header.reason}, not {request.reason}"
            raise Refused(message, code="plan_changed")
        made_with = (header.code_version, header.config_version)
        if made_with != (tallgrass.__version__, config_version(self._config, self._catalogue)):
            message = (
                f"the plan was made with the code {header.code_version} and the configuration"
                f" {header.config_version}, which are no longer those in use"
            )
            raise Refused(message, code="plan_changed")
        meant = (*request.meant_for, header.env)
        allow_global = self._config.flag("replay.allow_global_scope")
        require_admitted(
            [
                *scope_guard(header.selection, allow_global_scope=allow_global),
                *environment_guard(self._env, meant=meant, reason=header.reason),
                *volume_guard(total, caps),
            ]
        )
        if events > caps.max_events:
            message = f"{events:,} units to run; at most {caps.max_events:,} are allowed"
            raise GuardRefused(message, guard=Rule.SELECTION_TOO_LARGE.value)

    def _order(
        self, header: PlanHeader, sha256: str, planned: int, reasons: Mapping[str, int]
    ) -> NewRun:
        allowed = self._config.flag("replay.allow_downgrade")
        return NewRun(
            replay_run_id=header.replay_run_id,
            mode=header.mode,
            intent=header.intent,
            reason=header.reason or "none",
            selection=header.selection,
            plan_sha256=sha256,
            code_version=header.code_version,
            config_version=header.config_version,
            planned=planned,
            skipped={_BEYOND: reasons[_BEYOND]} if reasons.get(_BEYOND) else {},
            expected=header.expected,
            approval_id=self._request.approval_id,
            change_ref=header.change_ref,
            incident_ref=header.incident_ref,
            policy_ref=header.policy_ref,
            forced=header.forced,
            allow_downgrade=header.allow_downgrade and allowed,
        )

    def _needed(self, asked: Iterable[tuple[str, PlanAction]], mode: ReplayMode) -> int:
        """Return the most approvers that policy wants for anything that the plan does."""
        needs = [
            approvals_needed(ASKED[action], policy, mode)
            for dataset, action in asked
            if action in ASKED and (policy := self._policies.of(dataset)) is not None
        ]
        return max(needs, default=0)

    def _require_policy_ref(self, order: NewRun, datasets: set[str]) -> None:
        """Refuse a retrofit of a policy that is not in force for every dataset of the run."""
        if order.policy_ref is None:
            return
        for dataset in sorted(datasets):
            policy = self._policies.of(dataset)
            ref = None if policy is None else policy.policy_ref
            if ref != order.policy_ref:
                message = f"{dataset} is under the policy {ref}, not {order.policy_ref}"
                raise Refused(message, code="policy_ref_differs")


def _require_some_work(by_reason: Mapping[str, int]) -> None:
    """Refuse a run of which guards leave nothing; say the first of them."""
    findings = record_guards(
        by_reason.get(SkipReason.ATTEMPTS_EXCEEDED.value, 0),
        by_reason.get(Rule.KILL_SWITCH_ACTIVE.value, 0),
        by_reason.get(SkipReason.DOWNGRADE.value, 0),
    )
    for finding in findings:
        raise GuardRefused(f"nothing is left to run: {finding.detail}", guard=finding.guard.value)


def _copy(rows: Iterable[PlannedAction], spool: BinaryIO) -> Counter[str]:
    """Copy a plan's rows; return how many are skipped by which reason."""
    reasons: Counter[str] = Counter()
    for row in rows:
        spool.write(row.line())
        if row.reason is not None:
            reasons[row.reason] += 1
    return reasons


def _pages(spool: BinaryIO) -> Iterator[list[PlannedAction]]:
    page: list[PlannedAction] = []
    for number, line in enumerate(spool, start=1):
        page.append(read_row(line, number))
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page


def _events(by_action: Mapping[str, int]) -> int:
    return by_action[PlanAction.REPLAY] + by_action[PlanAction.RERUN]


def _smaller(one: Caps, other: Caps) -> Caps:
    return Caps(
        max_events=min(one.max_events, other.max_events),
        batch=min(one.batch, other.batch),
        max_candidates=min(one.max_candidates, other.max_candidates),
        max_records_per_second=min(one.max_records_per_second, other.max_records_per_second),
    )


def _next_id(wal_id: str) -> str:
    return str(UUID(int=UUID(wal_id).int + 1))
