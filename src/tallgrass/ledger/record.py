"""The record: one row a unit, one row an attempt, in the canonical fields.

`WalRecord` and `WalAttempt` are what reading the ledger gives. Their field metadata is the source
of the record model document, of the JSON Schema and of the check that the tables match.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_type_hints

from tallgrass.ledger.vocabulary import (
    AttemptStatus,
    CheckStatus,
    Intent,
    ProvenanceStatus,
    StacStatus,
    Status,
)


def _doc(text: str, *, canonical: bool = True) -> Any:
    return field(metadata={"doc": text, "canonical": canonical})


@dataclass(frozen=True, slots=True, kw_only=True)
class WalRecord:
    """One unit as the ledger holds it: the 26 canonical fields, then the ledger's own."""

    wal_id: str = _doc("UUIDv8 made from dataset, object_uri and time_range_start")
    dataset: str = _doc("canonical NODD dataset id, such as goes-glm")
    object_uri: str = _doc("canonical URI of the source object; unique")
    provider: str = _doc("aws, azure, gcp, or a configured one")
    queue: str = _doc("logical name of the queue that brought the unit")
    event_time: datetime = _doc("when the source announced the object first")
    time_range_start: datetime = _doc("start of the data; never changes")
    time_range_end: datetime = _doc("end of the data; the start where the key gives none")
    status: Status = _doc("where the unit stands")
    attempts: int = _doc("how often the unit was claimed, replays included")
    last_attempt_at: datetime | None = _doc("when it was claimed last; null before the first claim")
    last_error_code: str | None = _doc(
        "code of the last failure; null once a later attempt succeeds"
    )
    last_error_message: str | None = _doc(
        "redacted summary of the last failure; null with the code"
    )
    integrity_status: CheckStatus = _doc("outcome of integrity-check")
    metadata_status: CheckStatus = _doc("outcome of metadata-extract")
    stac_status: StacStatus = _doc("outcome of stac-register")
    provenance_status: ProvenanceStatus = _doc("outcome of provenance-emit")
    stac_item_id: str | None = _doc("id of the catalog item, once there is one")
    stac_collection_id: str | None = _doc("collection of that item")
    stac_item_href: str | None = _doc("address of that item")
    ingest_run_id: str = _doc("pipeline run that touched the unit last")
    worker_id: str = _doc("logical worker that touched it last; never a host name")
    replay_reason: str = _doc("why it was put back last: none, a listed reason, or a custom code")
    created_at: datetime = _doc("when the ledger recorded it")
    updated_at: datetime = _doc("when the record changed last")
    version: int = _doc("1 at creation, one more with each write")
    recorded_by: str = _doc("logical worker that recorded it", canonical=False)
    replay_run_id: str | None = _doc(
        "replay run that put it back; its attempts carry it until one is applied or it is given up",
        canonical=False,
    )
    extensions: Mapping[str, object] | None = _doc("declared ext_ fields", canonical=False)
    due_at: datetime | None = _doc("from when on the ledger itself runs it", canonical=False)
    retry_after: datetime | None = _doc("no retry before; the back-off's end", canonical=False)
    rerun_intent: Intent | None = _doc(
        "wish to run a succeeded unit again, and why", canonical=False
    )
    next_object: Mapping[str, object] | None = _doc(
        "object and event of the next attempt, where they are not those of the last one",
        canonical=False,
    )
    budget_from: int = _doc("so many attempts do not count against the limit", canonical=False)
    lease_expiries: int = _doc(
        "attempts in a row that ended without a report, as a lease was lost or the store failed;"
        " such a unit is claimed in small company",
        canonical=False,
    )
    applied_attempt: int | None = _doc(
        "number of the attempt whose item is in the catalog", canonical=False
    )

    @property
    def stale(self) -> bool:
        """Whether the item is behind: the unit succeeded, but a later re-run failed."""
        return self.status is Status.SUCCEEDED and self.last_error_code is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WalAttempt:
    """One claim of a unit; immutable once closed."""

    wal_id: str = _doc("the unit")
    attempt_no: int = _doc("1, 2, 3 …; the fencing token")
    status: AttemptStatus = _doc("pending while open; then applied, failed or rolled_back")
    intent: Intent = _doc("ingest, reingest, repair or backfill")
    queue: str = _doc("queue that brought this attempt's event")
    event_time: datetime = _doc("time of this attempt's event")
    sns_message_id: str | None = _doc("null under raw delivery or without a message")
    sqs_message_id: str | None = _doc("null without a queue message")
    object_etag: str | None = _doc("etag that the event announced")
    object_size: int | None = _doc("size that the event announced, in bytes")
    object_sequencer: str | None = _doc("order of the events of one key")
    object_version_id: str | None = _doc("version of the object, in versioned buckets")
    read_etag: str | None = _doc("etag of the object as it was read")
    evidence: bytes | None = _doc("canonical JSON of what the read yielded, at most 8,192 bytes")
    code_version: str = _doc("version of the code that ran")
    config_version: str = _doc("hash of the settings that can change an output")
    replay_run_id: str | None = _doc("replay run that asked for it")
    ingest_run_id: str = _doc("pipeline run")
    worker_id: str = _doc("logical worker")
    worker_incarnation: str = _doc("the process that holds or held it")
    claim_id: str = _doc("claim transaction that opened it")
    claimed_at: datetime = _doc("when it was opened (the replay spec's timestamp_created)")
    claimed_from: Status = _doc("pending, or succeeded for a re-run")
    claimed_version: int = _doc("version of the record after the claim")
    commit_id: str | None = _doc("transaction that closed it")
    closed_at: datetime | None = _doc("when it was closed")
    closed_version: int | None = _doc("version of the record after the close")
    error_code: str | None = _doc("why it failed")
    error_message: str | None = _doc("redacted summary")
    integrity_status: CheckStatus = _doc("as on the record, of this attempt")
    metadata_status: CheckStatus = _doc("as on the record, of this attempt")
    stac_status: StacStatus = _doc("as on the record, of this attempt")
    provenance_status: ProvenanceStatus = _doc("as on the record, of this attempt")
    item_sha256: str | None = _doc("hash of the item's bytes")
    provenance_sha256: str | None = _doc("hash of the provenance document's body")
    prov_activity_id: str | None = _doc("PROV activity of this attempt")
    openlineage_run_id: str | None = _doc("OpenLineage run of this attempt")
    issues: tuple[str, ...] | None = _doc(
        "what operators found wrong, as operator:code; of a success too: why it is suspect"
    )


@dataclass(frozen=True, slots=True)
class FieldModel:
    """A field as documents and schemas see it."""

    name: str
    kind: type  # str, int, bytes, datetime, tuple, Mapping or a vocabulary
    nullable: bool
    canonical: bool
    doc: str

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The allowed words, for a field with a closed vocabulary."""
        return tuple(self.kind) if issubclass(self.kind, StrEnum) else ()


def field_models(row: type[WalRecord | WalAttempt]) -> tuple[FieldModel, ...]:
    """Return the fields of a row in their order."""
    hints = get_type_hints(row)
    return tuple(
        FieldModel(
            name=item.name,
            kind=_bare_type(hints[item.name]),
            nullable=isinstance(hints[item.name], UnionType),
            canonical=item.metadata["canonical"],
            doc=item.metadata["doc"],
        )
        for item in fields(row)
    )


#: The names that no extension field may take.
CANONICAL_NAMES: frozenset[str] = frozenset(item.name for item in fields(WalRecord))


def _bare_type(hint: Any) -> type:
    if isinstance(hint, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return getattr(hint, "__origin__", hint)  # type: ignore[no-any-return]
