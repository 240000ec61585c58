"""A trial: what the checks would say of an object and which item would be stored, for people.

The operators are the chain's own and in its order; nothing is claimed, staged or written.
"""

from dataclasses import dataclass

from tallgrass.datasets.key_grammar import KeyMatch
from tallgrass.evidence.reading import Evidence, ReadFailure
from tallgrass.ledger.rules import LedgerRules
from tallgrass.ledger.unit import IngestUnit
from tallgrass.ledger.vocabulary import CheckStatus
from tallgrass.operators.chain import source_of
from tallgrass.operators.integrity_check import integrity_check
from tallgrass.operators.issues import CheckReport
from tallgrass.operators.metadata_extract import metadata_extract
from tallgrass.operators.stac_register import stac_register
from tallgrass.stac.anonymized import anonymized_description, anonymized_source

#: Of an operator that did not run, because one before it did not pass.
NOT_RUN = CheckReport(status=CheckStatus.UNKNOWN, checks_run=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What each operator said."""

    integrity: CheckReport
    metadata: CheckReport
    #: The bytes that the catalog would hold; None where there would be no item.
    item: bytes | None


def try_unit(
    unit: IngestUnit, match: KeyMatch, reading: Evidence | ReadFailure, rules: LedgerRules
) -> Trial:
    """Run the checks on what was read, and make the item if they pass."""
    dataset = match.dataset
    integrity = integrity_check(unit, dataset, reading)
    if isinstance(reading, ReadFailure) or not _passes(integrity, dataset.id, rules):
        return Trial(integrity=integrity, metadata=NOT_RUN, item=None)
    extracted = metadata_extract(match, reading)
    metadata, description = extracted.report, extracted.description
    if description is None or not _passes(metadata, dataset.id, rules):
        return Trial(integrity=integrity, metadata=metadata, item=None)
    source = source_of(unit, reading)
    if degrees := dataset.governance.degrees:
        description = anonymized_description(description, degrees)
        source = anonymized_source(source, unit.wal_id, degrees)
    registration = stac_register(dataset, source, description, None)
    return Trial(integrity=integrity, metadata=metadata, item=registration.item.body)


def _passes(report: CheckReport, dataset: str, rules: LedgerRules) -> bool:
    if report.status is CheckStatus.SUSPECT:
        return rules.allows_suspect(dataset)
    return report.status is CheckStatus.OK
