"""What an operator found wrong, and how grave that is for the dataset."""

from dataclasses import dataclass

from tallgrass.datasets.definition import Dataset, Severity
from tallgrass.ledger.vocabulary import CheckStatus

#: Issues that leave a usable item; all others fail the operator, unless the dataset says otherwise.
_SUSPECT_BY_DEFAULT = frozenset(
    {
        "incomplete_product_metadata",
        "missing_required_header",
        "size_too_large",
        "unexpected_content_type",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One finding: a code of the registry, and what it was about."""

    code: str
    message: str
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What an operator that checks returns."""

    status: CheckStatus
    checks_run: tuple[str, ...]
    issues: tuple[Issue, ...] = ()


def issue(dataset: Dataset, code: str, message: str, default: Severity | None = None) -> Issue:
    """Return the issue with the severity that the dataset, or else the default, gives it."""
    severity = dataset.severities.get(code) or default
    if severity is None:
        severity = Severity.SUSPECT if code in _SUSPECT_BY_DEFAULT else Severity.FAILED
    return Issue(code=code, message=message, severity=severity)


def status_of(issues: list[Issue]) -> CheckStatus:
    """Return what the gravest issue makes of the operator's status."""
    if not issues:
        return CheckStatus.OK
    failed = any(each.severity is Severity.FAILED for each in issues)
    return CheckStatus.FAILED if failed else CheckStatus.SUSPECT


def gravest(issues: tuple[Issue, ...]) -> Issue:
    """Return the first issue that failed the operator, or else the first."""
    return next((each for each in issues if each.severity is Severity.FAILED), issues[0])
