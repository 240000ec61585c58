"""Plans for the pages and the API: bounded in size, and kept on the server if wanted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from tallgrass.bootstrap.kept_plans import KeptPlans
from tallgrass.bootstrap.planning import Plan, PlanRequest, open_plan
from tallgrass.bootstrap.previewing import preview
from tallgrass.bootstrap.stores import Stores
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import GuardRefused
from tallgrass.governance.gate import Rule
from tallgrass.replay.plan import Candidate, PlanAction, PlannedAction
from tallgrass.replay.selection import Selection
from tallgrass.storage.plan_reader import PlanReader

#: Candidates of a plan that is made while somebody waits; larger ones the command line makes.
CANDIDATES_MAX: Final = 20_000
#: Of those whose items are made again for a comparison, at a millisecond or two each.
COMPARED_MAX: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan with its first rows: units that would be put to work come first."""

    document: dict[str, Any]
    rows: list[dict[str, Any]]
    sha256: str
    replay_run_id: str


def datasets_of_ledger(stores: Stores) -> list[str]:
    """Return the datasets of which the ledger has units; the cost does not grow with the units."""
    return PlanReader(stores.database).datasets(Selection(), None)


def make_plan(
    config: Config,
    stores: Stores,
    catalogue: Catalogue,
    request: PlanRequest,
    *,
    rows_max: int,
    keeping: KeptPlans | None = None,
) -> MadePlan:
    """Make a plan; with `keeping` it is kept under its hash."""
    plan = open_plan(config, stores, request, catalogue=catalogue)
    shown = _Shown(rows_max)
    lines = _lines(plan, shown)
    if keeping is None:
        for _ in lines:
            pass
    else:
        keeping.keep(lines)
    return MadePlan(
        document=plan.document(),
        rows=shown.rows,
        sha256=plan.stream.sha256,
        replay_run_id=plan.header.replay_run_id,
    )


def compare_plan(
    config: Config, stores: Stores, catalogue: Catalogue, request: PlanRequest, made: MadePlan
) -> dict[str, Any]:
    """Tell what a re-run would change in the items of a plan, made of the kept evidence."""
    candidates = made.document["summary"]["candidates"]
    if candidates > COMPARED_MAX:
        message = f"{candidates:,} candidates; at most {COMPARED_MAX:,} are compared here"
        raise GuardRefused(message, guard=Rule.SELECTION_TOO_LARGE.value)
    named = replace(request, replay_run_id=made.replay_run_id)
    plan = open_plan(config, stores, named, catalogue=catalogue)
    return preview(config, stores, catalogue, plan).document()


class _Shown:
    """The rows that are shown of a plan."""

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._working: list[dict[str, Any]] = []
        self._others: list[dict[str, Any]] = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is put to work, then what is left alone; no more than wanted."""
        return [*self._working, *self._others][: self._rows_max]

    def see(self, candidate: Candidate, row: PlannedAction) -> None:
        """Take a row that passes."""
        rows = self._others if row.action is PlanAction.SKIP else self._working
        if len(rows) < self._rows_max:
            rows.append(
                {
                    "wal_id": row.wal_id,
                    "version": row.version,
                    "action": row.action.value,
                    "reason": row.reason,
                    "dataset": candidate.dataset,
                    "status": candidate.status,
                    "last_error_code": candidate.last_error_code,
                }
            )


def _lines(plan: Plan, shown: _Shown) -> Iterator[bytes]:
    yield plan.stream.first_line()
    for number, (candidate, row, line) in enumerate(plan.rows(), start=1):
        if number > CANDIDATES_MAX:
            message = (
                f"more than {CANDIDATES_MAX:,} candidates; narrow the selection, or let"
                " `tallgrass replay --dry-run` plan it"
            )
            raise GuardRefused(message, guard=Rule.SELECTION_TOO_LARGE.value)
        shown.see(candidate, row)
        yield line
