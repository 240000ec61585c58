"""The chain: integrity-check, metadata-extract, governance gate, stac-register, provenance-emit.

It takes a claimed unit, what its key says, what was read of its object and the item that the unit
already owns; it returns a report and what a success would write. It writes nothing and sets no
status of the unit: the commit decides that. The first operator that fails ends the chain; whatever
an operator raises is a failure of that unit alone.

The units of a batch go through an operator one after the other before the next operator begins:
each runs with its own code at hand, which takes a quarter less time than unit by unit.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from tallgrass.datasets.definition import Dataset
from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.error_codes import is_unit_code, lookup
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.governance.gate import Admission, Rule
from tallgrass.ledger.claim import Claim
from tallgrass.ledger.outcome import EVIDENCE_BYTES_MAX, Outcome
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus
from tallgrass.operators import (
    governance_gate,
    integrity_check,
    metadata_extract,
    provenance_emit,
    stac_register,
)
from tallgrass.operators.context import ChainContext
from tallgrass.operators.effects import ChainResult, Effects, OwnedItem
from tallgrass.operators.events import item_event
from tallgrass.operators.issues import CheckReport, gravest
from tallgrass.operators.lineage import lineage_events
from tallgrass.operators.readiness import NOT_READY, waits
from tallgrass.stac.anonymized import anonymized_description, anonymized_source
from tallgrass.stac.source_object import SourceObject, plain_etag

OPERATORS = (
    integrity_check.NAME,
    metadata_extract.NAME,
    governance_gate.NAME,
    stac_register.NAME,
    provenance_emit.NAME,
)

#: Is told the name of each operator as it begins, and `DONE` as it ends.
Watch = Callable[[str], None]
DONE = ""

#: A unit on its way: it stops between operators and returns what came of it.
Chain = Generator[None, None, ChainResult]

_UNEXPECTED = "operator_error"
_MESSAGE_CHARS_MAX = 500

#: Operators whose report says `failed` or `suspect` itself; an exception of theirs says nothing.
_REPORTING = frozenset({integrity_check.NAME, metadata_extract.NAME})
#: The field of the outcome that tells an operator's failure; the gate has none of its own.
_FAILED_FIELDS: dict[str, dict[str, Any]] = {
    integrity_check.NAME: {"integrity_status": CheckStatus.FAILED},
    metadata_extract.NAME: {"metadata_status": CheckStatus.FAILED},
    governance_gate.NAME: {},
    stac_register.NAME: {"stac_status": StacStatus.FAILED},
    provenance_emit.NAME: {"provenance_status": ProvenanceStatus.FAILED},
}


class _Stop(Exception):
    """The operator at work failed the unit for a reason that it names."""

    def __init__(self, code: str, message: str, rule: Rule | None = None) -> None:
        super().__init__(message)
        self.code = code
        #: Of the gate, where that refused the unit.
        self.rule = rule


@dataclass(slots=True, kw_only=True)
class _Progress:
    """How far the chain came."""

    operator: str
    #: Fields of the outcome so far.
    fields: dict[str, Any]
    watch: Watch | None = None

    def begin(self, operator: str) -> None:
        """Go on to the next operator."""
        self.operator = operator
        if self.watch is not None:
            self.watch(operator)

    def end(self) -> None:
        """Tell that the operator at work is done."""
        if self.watch is not None:
            self.watch(DONE)


def run_together(chains: Iterable[Chain]) -> list[ChainResult]:
    """Run chains operator by operator; return what came of each, in their order."""
    results: dict[int, ChainResult] = {}
    under_way = list(enumerate(chains))
    total = len(under_way)
    while under_way:
        going = []
        for place, chain in under_way:
            try:
                next(chain)
            except StopIteration as end:
                results[place] = end.value
            else:
                going.append((place, chain))
        under_way = going
    return [results[place] for place in range(total)]


def chain_of(
    claim: Claim,
    match: KeyMatch,
    reading: Evidence | ReadFailure,
    owned: OwnedItem | None,
    context: ChainContext,
    watch: Watch | None = None,
) -> Chain:
    """Run the operators on one unit, and stop between them; never raises for its fault."""
    progress = _Progress(
        operator=integrity_check.NAME,
        fields={"wal_id": claim.unit.wal_id, "attempt_no": claim.attempt_no},
        watch=watch,
    )
    try:
        return (yield from _run(claim, match, reading, owned, context, progress))
    except _Stop as stop:
        return _failure(progress, stop.code, str(stop), stop.rule)
    except Exception as exc:  # noqa: BLE001 - one odd file must not fail its neighbours
        return _failure(progress, _UNEXPECTED, f"{type(exc).__name__}: {exc}")
    finally:
        progress.end()


def _run(
    claim: Claim,
    match: KeyMatch,
    reading: Evidence | ReadFailure,
    owned: OwnedItem | None,
    context: ChainContext,
    progress: _Progress,
) -> Chain:
    dataset, fields = match.dataset, progress.fields
    progress.begin(integrity_check.NAME)
    read, evidence = _read(claim, dataset, reading, context, progress)
    progress.end()

    yield
    progress.begin(metadata_extract.NAME)
    metadata = metadata_extract.metadata_extract(match, read)
    fields["metadata_status"] = metadata.report.status
    description = metadata.description
    if description is None or metadata.report is not metadata_extract.OK:
        _note_issues(progress, metadata.report)
        _require_passed(metadata.report, claim, context)
    if description is None:
        raise _Stop(_UNEXPECTED, "no description, and no issue that says why")
    progress.end()

    yield
    progress.begin(governance_gate.NAME)
    admission = governance_gate.governance_gate(dataset)
    if admission.refusal is not None:
        raise _Stop(governance_gate.REJECTED, admission.refusal, admission.rule)
    progress.end()

    yield
    progress.begin(stac_register.NAME)
    source = source_of(claim.unit, read)
    if admission.masking_degrees:
        # Once, here: all that leaves the ledger is made of these two.
        description = anonymized_description(description, admission.masking_degrees)
        source = anonymized_source(source, claim.wal_id, admission.masking_degrees)
    registration = stac_register.stac_register(dataset, source, description, owned)
    fields["stac_status"] = registration.status
    progress.end()

    yield
    progress.begin(provenance_emit.NAME)
    emission = provenance_emit.provenance_emit(
        claim=claim,
        source=source,
        evidence=evidence,
        registration=registration,
        owned=owned,
        policy_ref=admission.policy_ref,
        context=context,
    )
    fields["provenance_status"] = emission.status
    is_partial = emission.status is not ProvenanceStatus.OK
    if is_partial and not context.rules.allows_partial(claim.unit.dataset):
        text = "neither an etag nor a version id says which version of the object was used"
        raise _Stop("missing_required_field", text)
    effects = _effects(claim, source, registration, emission, admission, context)
    return ChainResult(outcome=_success(progress, registration, emission), effects=effects)


def source_of(unit: IngestUnit, read: Evidence) -> SourceObject:
    """Return the object in the version that was read; unread, in the one that was announced."""
    reference = unit.object_ref
    unread = read.source == "event"
    _, _, bucket, key = unit.object_uri.split("/", 3)
    return SourceObject(
        uri=unit.object_uri,
        provider=unit.provider,
        bucket=bucket,
        key=key,
        etag=plain_etag(read.etag or (reference.etag if unread else None)),
        size=reference.size if read.size is None and unread else read.size,
        version_id=reference.version_id,
    )


def _read(
    claim: Claim,
    dataset: Dataset,
    reading: Evidence | ReadFailure,
    context: ChainContext,
    progress: _Progress,
) -> tuple[Evidence, bytes]:
    """Check what was read, and return it with its bytes."""
    evidence, fields = b"", progress.fields
    if isinstance(reading, Evidence):
        evidence = reading.to_bytes()
        if len(evidence) > EVIDENCE_BYTES_MAX:
            text = f"evidence of {len(evidence)} bytes; at most {EVIDENCE_BYTES_MAX} are kept"
            raise _Stop(_UNEXPECTED, text)
        fields["read_etag"] = reading.etag
        fields["evidence"] = evidence
    report = integrity_check.integrity_check(claim.unit, dataset, reading)
    fields["integrity_status"] = report.status
    if report is not integrity_check.OK:
        _note_issues(progress, report)
        if report.status is CheckStatus.FAILED and waits(claim, reading, context.rules):
            found = gravest(report.issues)
            raise _Stop(NOT_READY, f"{found.code}: {found.message}")
        _require_passed(report, claim, context)
    if isinstance(reading, ReadFailure):
        raise _Stop(reading.code, reading.message)
    return reading, evidence


def _note_issues(progress: _Progress, report: CheckReport) -> None:
    """Keep what the operator at work found, whether it passes or not."""
    codes = (found.code if is_unit_code(found.code) else _UNEXPECTED for found in report.issues)
    issues = (*progress.fields.get("issues", ()), *(f"{progress.operator}:{c}" for c in codes))
    progress.fields["issues"] = tuple(dict.fromkeys(issues))


def _require_passed(report: CheckReport, claim: Claim, context: ChainContext) -> None:
    """Stop at a failure, and at a doubt that the dataset of the unit's record does not allow."""
    dataset = claim.unit.dataset
    if report.status is CheckStatus.OK:
        return
    found = gravest(report.issues)
    if report.status is CheckStatus.FAILED:
        raise _Stop(found.code, found.message)
    if not context.rules.allows_suspect(dataset):
        raise _Stop(found.code, f"{found.message} (suspect, which {dataset} does not allow)")


def _effects(
    claim: Claim,
    source: SourceObject,
    registration: stac_register.Registration,
    emission: provenance_emit.Emission,
    admission: Admission,
    context: ChainContext,
) -> Effects:
    event = item_event(
        claim=claim,
        registration=registration,
        source=source,
        activity_id=emission.provenance.activity_id,
        admission=admission,
        context=context,
    )
    lineage = lineage_events(
        claim=claim,
        source=source,
        registration=registration,
        emission=emission,
        admission=admission,
        context=context,
    )
    return Effects(
        item=None if registration.status is StacStatus.NO_OP else registration.item,
        replaces=registration.replaces,
        provenance=emission.provenance,
        events=lineage if event is None else (event, *lineage),
    )


def _success(
    progress: _Progress,
    registration: stac_register.Registration,
    emission: provenance_emit.Emission,
) -> Outcome:
    """Report what the operators made."""
    return Outcome(
        **progress.fields,
        stac_item_id=registration.item.item_id,
        stac_collection_id=registration.item.collection_id,
        stac_item_href=registration.href,
        item_sha256=registration.item.sha256,
        provenance_sha256=emission.provenance.sha256,
        prov_activity_id=emission.provenance.activity_id,
        openlineage_run_id=emission.openlineage_run_id,
    )


def _failure(progress: _Progress, code: str, message: str, rule: Rule | None = None) -> ChainResult:
    """Report the failure of the operator at work; nothing is staged."""
    if not is_unit_code(code):
        code, message = _UNEXPECTED, f"the unregistered code {code!r}: {message}"
    fields = progress.fields
    if code == _UNEXPECTED or progress.operator not in _REPORTING:
        fields = {**fields, **_FAILED_FIELDS[progress.operator]}
    # Neither database takes a NUL or half a character.
    said = message.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    said = said[:_MESSAGE_CHARS_MAX].rstrip(".")
    text = f"{progress.operator}: {said}. What to do: {lookup(code).remedy}"
    outcome = Outcome(**fields, error_code=code, error_message=text)
    return ChainResult(outcome=outcome, rule_id=None if rule is None else rule.value)
