"""A plan on its way: its lines, its hash and what it comes to, in one pass over all units."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallgrass.governance.gate import Rule
from tallgrass.replay.guards import Caps, Finding, approval_guard, record_guards, volume_guard
from tallgrass.replay.plan import (
    WORKING,
    Candidate,
    PlanAction,
    PlanHeader,
    PlannedAction,
    PlanRules,
    SkipReason,
    decide,
)


class _Sort(NamedTuple):
    """All that a summary counts candidates by."""

    dataset: str
    status: str
    error_code: str | None
    action: PlanAction
    #: Of a skip.
    reason: str | None


@dataclass(slots=True)
class PlanSummary:
    """What a plan comes to, counted while it passes."""

    #: One count a candidate, of the sort that it is: five took a tenth of a plan's time.
    _counts: Counter[tuple[str, str, str | None, PlanAction, str | None]] = field(
        default_factory=Counter
    )

    def count(self, candidate: Candidate, action: PlanAction, reason: str | None) -> None:
        """Count a candidate, and what becomes of it."""
        error_code = candidate.last_error_code
        self._counts[candidate.dataset, candidate.status, error_code, action, reason] += 1

    @property
    def candidates(self) -> int:
        """How many units are selected."""
        return self._counts.total()

    @property
    def by_action(self) -> Counter[str]:
        """How many candidates have each fate."""
        return self._by(lambda sort: sort.action)

    @property
    def by_reason(self) -> Counter[str]:
        """How many candidates are skipped for each reason."""
        return self._by(lambda sort: sort.reason)

    @property
    def by_status(self) -> Counter[str]:
        """How many candidates are in each status."""
        return self._by(lambda sort: sort.status)

    @property
    def by_error_code(self) -> Counter[str]:
        """How many candidates failed last with each code."""
        return self._by(lambda sort: sort.error_code)

    @property
    def by_dataset(self) -> dict[str, Counter[str]]:
        """How many candidates of each dataset have each fate."""
        found: dict[str, Counter[str]] = {}
        for sort, number in self._sorts():
            found.setdefault(sort.dataset, Counter())[sort.action] += number
        return found

    @property
    def events(self) -> int:
        """How many units the run would put to work."""
        return sum(n for sort, n in self._sorts() if sort.action in WORKING)

    def batches(self, caps: Caps) -> int:
        """Return in how many batches they would go."""
        return -(-self.events // caps.batch)

    def document(self, caps: Caps) -> dict[str, Any]:
        """Return the counts as a JSON value, in a fixed order; every action is there."""
        by_action = self.by_action
        return {
            "candidates": self.candidates,
            "events": self.events,
            "batches": self.batches(caps),
            "by_action": {action.value: by_action[action] for action in PlanAction},
            "by_reason": dict(sorted(self.by_reason.items())),
            "by_dataset": {
                dataset: {action.value: counts[action] for action in PlanAction}
                for dataset, counts in sorted(self.by_dataset.items())
            },
            "by_status": dict(sorted(self.by_status.items())),
            "by_error_code": dict(sorted(self.by_error_code.items())),
        }

    def guards(self, header: PlanHeader) -> list[Finding]:
        """Return the guards that the candidates themselves let fire."""
        by_reason = self.by_reason
        return [
            *volume_guard(self.candidates, header.caps),
            *record_guards(
                by_reason[SkipReason.ATTEMPTS_EXCEEDED],
                by_reason[Rule.KILL_SWITCH_ACTIVE],
                by_reason[SkipReason.DOWNGRADE],
            ),
            *(approval_guard(header.approvals_needed) if self.events else ()),
        ]

    def _sorts(self) -> Iterator[tuple[_Sort, int]]:
        return ((_Sort._make(sort), number) for sort, number in self._counts.items())

    def _by(self, part: Callable[[_Sort], str | None]) -> Counter[str]:
        found: Counter[str] = Counter()
        for sort, number in self._sorts():
            key = part(sort)
            if key is not None:
                found[key] += number
        return found


class PlanStream:
    """One plan on its way: yields it row by row, keeps its hash and its summary."""

    def __init__(self, rules: PlanRules) -> None:
        self._rules = rules
        self._digest = hashlib.sha256()
        self.summary = PlanSummary()
        self.header = rules.header

    @property
    def sha256(self) -> str:
        """The hash of all lines that passed."""
        return self._digest.hexdigest()

    def first_line(self) -> bytes:
        """Return the header's line; ask for it once, before the rows."""
        line = self.header.line()
        self._digest.update(line)
        return line

    def rows(
        self, candidates: Iterable[Candidate]
    ) -> Iterator[tuple[Candidate, PlannedAction, bytes]]:
        """Yield each candidate with its row and its line; `candidates` come in order of wal_id.

        Units beyond the cap are left alone, and told.
        """
        summary, max_events = self.summary, self.header.caps.max_events
        events = 0
        for candidate in candidates:
            action, reason = decide(candidate, self._rules)
            if action in WORKING:
                if events >= max_events:
                    action, reason = PlanAction.SKIP, SkipReason.BEYOND_MAX_EVENTS.value
                else:
                    events += 1
            row = PlannedAction(candidate.wal_id, candidate.version, action, reason)
            line = row.line()
            self._digest.update(line)
            summary.count(candidate, action, reason)
            yield candidate, row, line


def findings_document(findings: Iterable[Finding]) -> list[Mapping[str, Any]]:
    """Return guards as a JSON value."""
    return [
        {
            "guard": finding.guard.value,
            "detail": finding.detail,
            "refuses": finding.refuses,
            "records": finding.records,
        }
        for finding in findings
    ]
