"""What a reconciliation found, as a document."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tallgrass.bootstrap.reconciling import ReconcileReport, ReconcileRequest
from tallgrass.inventory.reconcile import Finding, Kind


@dataclass(slots=True)
class FirstFindings:
    """The first findings of each kind."""

    limit: int
    findings: list[Finding] = field(default_factory=list)
    _counts: Counter[Kind] = field(default_factory=Counter)

    def take(self, finding: Finding) -> None:
        """Keep a finding, unless there are enough of its kind."""
        self._counts[finding.kind] += 1
        if self._counts[finding.kind] <= self.limit:
            self.findings.append(finding)


def reconcile_document(
    request: ReconcileRequest,
    report: ReconcileReport,
    findings: Sequence[Finding],
    commands: Sequence[str] = (),
) -> dict[str, object]:
    """Return all counts, and the findings that were kept."""
    return {
        "dataset": request.dataset,
        "since": request.since,
        "until": request.until,
        "listed": None if request.catalog_only else report.listed,
        "ignored": dict(sorted(report.ignored.items())),
        "recent": report.recent,
        "records": report.records,
        "gaps_unjudged": report.gaps_unjudged,
        "counts": {kind.value: report.counts[kind] for kind in Kind},
        "failed_codes": dict(sorted(report.failed_codes.items())),
        "findings": [finding.document() for finding in findings],
        "commands": list(commands),
    }
