"""integrity-check: is it the object that was announced, and does it look whole?

The checks run in the order of `CHECKS`; the first that fails ends them, because what follows would
judge an object that is not there or is not the one that is meant.
"""

from tallgrass.datasets.definition import Dataset, Severity
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.issues import CheckReport, Issue, issue, status_of
from tallgrass.stac.source_object import is_md5, plain_etag

NAME = "integrity-check"
CHECKS = ("exists", "size", "etag_match", "headers_minimal")

#: What a format reader means by its codes.
_FOUND = {
    "content_type_invalid": "its bytes are not of this format",
    "size_too_large": "there are more bytes than it says",
    "size_too_small": "there are fewer bytes than it says",
}

#: The report without a finding.
OK = CheckReport(status=CheckStatus.OK, checks_run=CHECKS)


def integrity_check(
    unit: IngestUnit, dataset: Dataset, reading: Evidence | ReadFailure
) -> CheckReport:
    """Report on the object that was read for the unit."""
    if isinstance(reading, ReadFailure):
        found = Issue(code=reading.code, message=reading.message, severity=Severity.FAILED)
        return CheckReport(status=CheckStatus.FAILED, checks_run=CHECKS[:1], issues=(found,))
    issues: list[Issue] = []
    for number, check in enumerate((_size, _etag_match, _headers_minimal), start=2):
        check(unit, dataset, reading, issues)
        if issues and status_of(issues) is CheckStatus.FAILED:
            return CheckReport(
                status=CheckStatus.FAILED, checks_run=CHECKS[:number], issues=tuple(issues)
            )
    if not issues:
        return OK
    return CheckReport(status=CheckStatus.SUSPECT, checks_run=CHECKS, issues=tuple(issues))


def _size(unit: IngestUnit, dataset: Dataset, read: Evidence, issues: list[Issue]) -> None:
    size = read.size if read.size is not None else unit.object_ref.size
    if size is None:
        return
    bounds = dataset.integrity
    if size == 0:
        issues.append(issue(dataset, "size_zero", "the object has no bytes"))
    elif size < bounds.min_size_bytes:
        text = f"{size} bytes, fewer than the {bounds.min_size_bytes} that the dataset expects"
        issues.append(issue(dataset, "size_too_small", text))
    elif bounds.max_size_bytes is not None and size > bounds.max_size_bytes:
        text = f"{size} bytes, more than the {bounds.max_size_bytes} that the dataset expects"
        issues.append(issue(dataset, "size_too_large", text))


def _etag_match(unit: IngestUnit, dataset: Dataset, read: Evidence, issues: list[Issue]) -> None:
    announced, found = unit.object_ref, plain_etag(read.etag)
    expected = plain_etag(announced.etag)
    if dataset.integrity.etag_required and (expected is None or found is None):
        which = "announced" if expected is None else "read"
        text = f"the dataset requires an etag, and none was {which}"
        issues.append(issue(dataset, "missing_required_field", text))
    elif expected is not None and found is not None and _comparable(expected, found):
        if expected != found:
            text = f"announced with etag {expected}, read with {found}"
            issues.append(issue(dataset, "etag_mismatch", text))
    elif announced.size is not None and read.size is not None and announced.size != read.size:
        text = f"announced with {announced.size} bytes, read with {read.size}"
        issues.append(issue(dataset, "etag_mismatch", text))
    elif dataset.integrity.etag_required:
        text = f"announced with etag {expected}, which cannot be compared with {found}"
        issues.append(issue(dataset, "etag_mismatch", text))


def _comparable(announced: str, found: str) -> bool:
    """Tell whether two different etags mean two different contents.

    A copy of an object has the MD5 of its content, while the notification of one that was uploaded
    in parts has a hash of hashes (``…-3``), and other providers have counters: those say nothing of
    the copy. Two etags of the same kind do.
    """
    return is_md5(announced) == is_md5(found)


def _headers_minimal(
    unit: IngestUnit, dataset: Dataset, read: Evidence, issues: list[Issue]
) -> None:
    del unit
    known = {each.code for each in issues}
    named = dataset.format or "what its name says"
    for code in read.issues:
        if code not in known:
            known.add(code)
            text = _FOUND.get(code, "found on reading its head and tail")
            issues.append(issue(dataset, code, f"as {named}: {text}"))
    if read.header.get("complete") is False and not read.issues:
        text = f"as {named}: {_FOUND['size_too_small']}"
        issues.append(issue(dataset, "size_too_small", text))
