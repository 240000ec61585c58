"""What an attempt reports, and what that makes of the unit."""

from enum import StrEnum

from tallgrass.error_codes import is_unit_code, lookup
from tallgrass.errors import InvalidInput
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus
from tallgrass.made_often import made_often

EVIDENCE_BYTES_MAX = 8192

_STAC_WRITTEN = (StacStatus.CREATED, StacStatus.UPDATED, StacStatus.NO_OP)


@made_often
class Outcome:
    """The report on one claim. Without an error code it claims success."""

    wal_id: str
    attempt_no: int
    error_code: str | None = None
    error_message: str | None = None
    integrity_status: CheckStatus = CheckStatus.UNKNOWN
    metadata_status: CheckStatus = CheckStatus.UNKNOWN
    stac_status: StacStatus = StacStatus.UNKNOWN
    provenance_status: ProvenanceStatus = ProvenanceStatus.UNKNOWN
    stac_item_id: str | None = None
    stac_collection_id: str | None = None
    stac_item_href: str | None = None
    read_etag: str | None = None
    evidence: bytes | None = None
    item_sha256: str | None = None
    provenance_sha256: str | None = None
    prov_activity_id: str | None = None
    openlineage_run_id: str | None = None
    #: What operators found wrong, of a success too: `operator:code`, each once.
    issues: tuple[str, ...] = ()


class Verdict(StrEnum):
    """What an outcome makes of a unit that was in progress."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # stays failed; retried by redelivery or by the ledger
    RETRY = "retry"  # failed → pending in the same transaction: hand-back and not yet
    QUARANTINED = "quarantined"  # failed → quarantined in the same transaction


#: Failures after which the unit goes straight back to pending.
_BACK_TO_PENDING = frozenset({"handed_back", "not_ready"})


def acceptable(outcome: Outcome, dataset: str, rules: LedgerRules) -> bool:
    """Tell whether the four statuses together make a success."""
    return (
        outcome.stac_status in _STAC_WRITTEN
        and (
            outcome.provenance_status is ProvenanceStatus.OK
            or (
                outcome.provenance_status is ProvenanceStatus.PARTIAL
                and rules.allows_partial(dataset)
            )
        )
        and _passed(outcome.integrity_status, dataset, rules)
        and _passed(outcome.metadata_status, dataset, rules)
    )


def judge(outcome: Outcome, dataset: str, attempts_used: int, rules: LedgerRules) -> Verdict:
    """Decide a unit's fate from the report and the attempts that it has used of its budget.

    A report of success with statuses that make none is refused: it is a fault of the orchestrator,
    and nothing of the batch may be written.
    """
    require_valid(outcome)
    if outcome.error_code is None:
        if not acceptable(outcome, dataset, rules):
            raise InvalidInput(
                f"{outcome.wal_id}: success reported with integrity {outcome.integrity_status}, "
                f"metadata {outcome.metadata_status}, stac {outcome.stac_status}, "
                f"provenance {outcome.provenance_status}"
            )
        return Verdict.SUCCEEDED
    if outcome.error_code == "governance_hard_fail":
        return Verdict.QUARANTINED
    if attempts_used >= rules.max_attempts_of(dataset):
        return Verdict.QUARANTINED
    return Verdict.RETRY if outcome.error_code in _BACK_TO_PENDING else Verdict.FAILED


def require_valid(outcome: Outcome) -> None:
    """Refuse a free-text code and evidence that is too large."""
    if outcome.error_code is not None and not is_unit_code(outcome.error_code):
        raise InvalidInput(
            f"{outcome.wal_id}: {outcome.error_code!r} is not a registered unit code",
            code="unknown_code",
        )
    if outcome.evidence is not None and len(outcome.evidence) > EVIDENCE_BYTES_MAX:
        raise InvalidInput(
            f"{outcome.wal_id}: evidence of {len(outcome.evidence)} bytes; "
            f"at most {EVIDENCE_BYTES_MAX} are kept"
        )


def is_retried(error_code: str) -> bool:
    """Tell whether a unit that failed with the code is tried again by itself."""
    return lookup(error_code).retried


def _passed(status: CheckStatus, dataset: str, rules: LedgerRules) -> bool:
    return status is CheckStatus.OK or (
        status is CheckStatus.SUSPECT and rules.allows_suspect(dataset)
    )
