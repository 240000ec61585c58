"""Units and outcomes for tests, with every field that matters set by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus

if TYPE_CHECKING:
    from tallgrass.ledger.claim import Claim, CommitResult
    from tallgrass.ledger.outcome import Verdict

DATA_START = datetime(2026, 1, 1, tzinfo=UTC)
EVENT_TIME = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def unit(number: int = 0, **changes: Any) -> IngestUnit:
    """Return unit `number` of the dataset goes-glm, announced by a message of its own."""
    dataset = changes.pop("dataset", "goes-glm")
    start = DATA_START + timedelta(seconds=20 * number)
    values: dict[str, Any] = {
        "dataset": dataset,
        "object_uri": f"s3://noaa-goes19/{dataset}/{number:06}.nc",
        "provider": "aws",
        "queue": "nodd-primary",
        "time_range_start": start,
        "time_range_end": start + timedelta(seconds=20),
        "event": EventMetadata(
            event_time=EVENT_TIME,
            sns_message_id=f"sns-{number}",
            sqs_message_id=f"sqs-{number}",
        ),
        "object_ref": ObjectReference(
            etag=f"etag-{number}", size=1000 + number, sequencer="0055AED6DCD90281E5"
        ),
    }
    return IngestUnit.of(**{**values, **changes})


def units(count: int, first: int = 0, **changes: Any) -> list[IngestUnit]:
    """Return consecutive units."""
    return [unit(number, **changes) for number in range(first, first + count)]


def overwritten(
    number: int = 0, sequencer: str = "0055AED6DCD90281E6", **changes: Any
) -> IngestUnit:
    """Return unit `number` as announced after its object was overwritten."""
    reference = ObjectReference(etag=f"etag-{number}-{sequencer}", size=2000, sequencer=sequencer)
    return unit(number, object_ref=reference, **changes)


def success(claim: Claim, **changes: Any) -> tuple[Claim, Outcome]:
    """Return the claim with a report of success."""
    values: dict[str, Any] = {
        "wal_id": claim.wal_id,
        "attempt_no": claim.attempt_no,
        "integrity_status": CheckStatus.OK,
        "metadata_status": CheckStatus.OK,
        "stac_status": StacStatus.CREATED,
        "provenance_status": ProvenanceStatus.OK,
        "stac_item_id": f"item-{claim.wal_id}",
        "stac_collection_id": f"kfm-{claim.unit.dataset}",
        "stac_item_href": f"https://catalog.example/items/{claim.wal_id}",
        "read_etag": claim.unit.object_ref.etag,
        "evidence": b'{"format":"netcdf"}',
        "item_sha256": "a" * 64,
        "provenance_sha256": "b" * 64,
        "prov_activity_id": f"urn:prov:activity:{claim.wal_id}",
        "openlineage_run_id": claim.wal_id,
    }
    return claim, Outcome(**{**values, **changes})


def failure(
    claim: Claim, code: str = "io_error", message: str = "it broke", **changes: Any
) -> tuple[Claim, Outcome]:
    """Return the claim with a report of failure."""
    return claim, Outcome(
        wal_id=claim.wal_id,
        attempt_no=claim.attempt_no,
        error_code=code,
        error_message=message,
        **changes,
    )


def verdicts(result: CommitResult) -> dict[str, Verdict]:
    """Return what each closed claim made of its unit."""
    return {wal_id: closed.verdict for wal_id, closed in result.closed.items()}
