"""Verification over the configured database: nothing here writes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

import tallgrass
from tallgrass.bootstrap.datasets import config_version, open_catalogue
from tallgrass.bootstrap.planning import require_known_datasets
from tallgrass.bootstrap.stores import Stores
from tallgrass.bootstrap.workers import open_reader
from tallgrass.canonical_json import sha256_hex
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import InvalidInput
from tallgrass.evidence.reading import EvidenceReader
from tallgrass.ledger.vocabulary import Status
from tallgrass.replay.recompute import Recomputer
from tallgrass.replay.selection import Purpose, Selection
from tallgrass.replay.verify import (
    Judgement,
    StoredUnit,
    Verdict,
    VerifyReport,
    judge,
    judge_source,
)
from tallgrass.storage.plan_reader import PlanReader
from tallgrass.storage.verify_reader import VerifyReader

#: Units read and judged together.
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What somebody wants verified."""

    #: Conditions on failures and on statuses do not count: whatever has an item is verified.
    selection: Selection
    #: Whether the objects are read again.
    reread: bool = False
    #: At most so many units, chosen by `seed` alone; None: all.
    sample: int | None = None
    seed: int = 0


def verify(
    config: Config,
    stores: Stores,
    request: VerifyRequest,
    *,
    catalogue: Catalogue | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> VerifyReport:
    """Judge the selected units; `progress` hears how many were, page by page."""
    catalogue = catalogue or open_catalogue(config)
    program = (tallgrass.__version__, config_version(config, catalogue))
    recomputer = Recomputer(catalogue, config.rules)
    reader = _object_reader(config, catalogue) if request.reread else None
    units = VerifyReader(stores.database)
    report = VerifyReport()
    try:
        for ids in _pages(_selected(stores, request, catalogue)):
            found = units.units(ids)
            present = [unit for unit in found if not unit.has_nothing]
            report.without_item += len(found) - len(present)
            for judgement in _judged(present, recomputer, reader):
                report.count(judgement, program)
            progress(report.verified + report.without_item)
    finally:
        if reader is not None and hasattr(reader, "close"):
            reader.close()
    return report


def _judged(
    units: Sequence[StoredUnit], recomputer: Recomputer, reader: EvidenceReader | None
) -> Iterator[Judgement]:
    judged = [
        judge(unit, None if unit.applied is None else recomputer.recompute(unit.applied))
        for unit in units
    ]
    if reader is None:
        yield from judged
        return
    same = [each for each in judged if each.verdict is Verdict.IDENTICAL]
    reads = reader.read([each.unit.applied.unit for each in same if each.unit.applied])
    yield from (each for each in judged if each.verdict is not Verdict.IDENTICAL)
    for each, read in zip(same, reads, strict=True):
        yield judge_source(each.unit, read)


def _selected(stores: Stores, request: VerifyRequest, catalogue: Catalogue) -> Iterator[str]:
    """Yield the ids of the selected units, in order; of a sample those that have a success."""
    selection = replace(
        request.selection,
        statuses=tuple(Status),
        error_codes=(),
        attempts_min=None,
        attempts_max=None,
        purpose=Purpose.REPAIR,
        max_records=None,
    )
    reader = PlanReader(stores.database)
    named = reader.named_units(selection)
    datasets = reader.datasets(selection, named)
    require_known_datasets(selection, [*datasets, *(each.id for each in catalogue.datasets)])
    candidates = reader.candidates(selection, named, datasets)
    if request.sample is None:
        return (each.wal_id for each in candidates)
    succeeded = (each.wal_id for each in candidates if each.status == Status.SUCCEEDED)
    chosen = nsmallest(
        request.sample,
        succeeded,
        key=lambda wal_id: sha256_hex(f"{request.seed}:{wal_id}".encode()),
    )
    return iter(sorted(chosen))


def _pages(ids: Iterator[str]) -> Iterator[list[str]]:
    page: list[str] = []
    for wal_id in ids:
        page.append(wal_id)
        if len(page) == PAGE_SIZE:
            yield page
            page = []
    if page:
        yield page


def _object_reader(config: Config, catalogue: Catalogue) -> EvidenceReader:
    if config.text("objects.url") == "event":
        message = "objects.url is 'event': no object is read, so none can be read again"
        raise InvalidInput(message)
    return open_reader(config, catalogue)
