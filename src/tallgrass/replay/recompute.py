"""What a unit's item and provenance would be, made again of what the ledger keeps of it.

The object is not read: the evidence of the applied attempt stands for it. The operators are those
of ingest. Nothing is claimed, staged or written.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import InvalidInput
from tallgrass.evidence.reading import Evidence
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import Intent, Status
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import ItemEffect, ProvenanceEffect
from tallgrass.operators.run_unit import run_unit

#: Stands for times and names that only the run part of provenance holds, which is not compared.
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = "verify"

NO_EVIDENCE = "evidence_missing"
ODD_EVIDENCE = "evidence_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedAttempt:
    """What the ledger keeps of the attempt whose item is in the catalog."""

    #: With the object that this attempt took.
    unit: IngestUnit
    attempt_no: int
    intent: Intent
    replay_run_id: str | None
    #: As its canonical bytes.
    evidence: bytes | None
    code_version: str
    config_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """What the operators make of it today: an item with its provenance, or why there is none."""

    item: ItemEffect | None = None
    provenance: ProvenanceEffect | None = None
    #: Code and words of a failure; None where there is an item.
    failure: tuple[str, str] | None = None


class Recomputer:
    """Makes items again with one catalogue, which carries the policies of its datasets.

    Outputs name the versions of code and configuration that each attempt recorded, so that these
    fields and the ids made of them never differ: whatever else differs is a difference. With
    `versions` (code, configuration) they name those, as a new run would.
    """

    def __init__(
        self, catalogue: Catalogue, rules: LedgerRules, *, versions: tuple[str, str] | None = None
    ) -> None:
        self._catalogue = catalogue
        self._rules = rules
        self._versions = versions
        self._contexts: dict[tuple[str, str], ChainContext] = {}

    def recompute(self, applied: AppliedAttempt) -> Recomputed:
        """Run the operators on what the ledger keeps; never raises for a fault of the unit."""
        if applied.evidence is None:
            return Recomputed(failure=(NO_EVIDENCE, "the ledger keeps no evidence of the attempt"))
        try:
            evidence = Evidence.from_bytes(applied.evidence)
        except InvalidInput as exc:
            return Recomputed(failure=(ODD_EVIDENCE, str(exc)))
        claim = Claim(
            unit=applied.unit,
            attempt_no=applied.attempt_no,
            version=1,
            intent=applied.intent,
            claimed_from=Status.PENDING,
            budget_from=0,
            replay_run_id=applied.replay_run_id,
            has_message=False,
        )
        result = run_unit(claim, evidence, self._catalogue, self._context(applied))
        outcome, effects = result.outcome, result.effects
        failure = (
            None
            if outcome.error_code is None
            else (outcome.error_code, outcome.error_message or "")
        )
        return Recomputed(
            item=effects.item,
            provenance=effects.provenance,
            failure=failure,
        )

    def _context(self, applied: AppliedAttempt) -> ChainContext:
        versions = self._versions or (applied.code_version, applied.config_version)
        context = self._contexts.get(versions)
        if context is None:
            context = ChainContext(
                code_version=versions[0],
                config_version=versions[1],
                worker_id=_NOBODY,
                ingest_run_id=_NOBODY,
                started_at=_NO_TIME,
                ended_at=_NO_TIME,
                rules=self._rules,
            )
            self._contexts[versions] = context
        return context
