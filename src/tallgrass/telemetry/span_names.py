"""Every span: its name, parent, attributes and meaning.

A unit's trace has one `nodd_sns.ingest` for each attempt and whatever became of its events; a batch
has a trace of its own, to which its attempts are linked; so has a call of a command.
"""

from typing import Final

from tallgrass.telemetry.declarations import Span, table

# The trace of a unit.
INGEST: Final = "nodd_sns.ingest"
SQS_RECEIVE: Final = "sqs_receive"
MESSAGE_PARSE: Final = "message_parse"
OBJECT_FETCH: Final = "object_fetch"
INTEGRITY_CHECK: Final = "integrity_check"
METADATA_EXTRACT: Final = "metadata_extract"
STAC_REGISTER: Final = "stac_register"
PROVENANCE_EMIT: Final = "provenance_emit"
OUTBOX_WRITE: Final = "outbox_write"
OUTBOX_DISPATCH: Final = "outbox_dispatch"
# The trace of a batch: the phases of a worker, by the names of its methods.
BATCH: Final = "nodd_sns.batch"
RECEIVE: Final = "receive"
PARSE: Final = "parse"
RECORD_AND_CLAIM: Final = "record_and_claim"
READ_EVIDENCE: Final = "read_evidence"
OPERATE: Final = "operate"
COMMIT: Final = "commit"
ACKNOWLEDGE: Final = "acknowledge"
# The trace of a call of a command.
CLI_CALL: Final = "nodd_sns.cli"
REPLAY_BATCH: Final = "nodd_sns.replay_batch"

#: Keys of the messaging conventions of OpenTelemetry, and of its errors.
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.type"
MESSAGING_DESTINATION: Final = "messaging.destination.name"
MESSAGING_MESSAGE_ID: Final = "messaging.message.id"
MESSAGING_BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

#: What tells of which unit a span is; only a root holds the address of its object.
_UNIT: Final = ("nodd.wal_id", "nodd.dataset", "nodd.object_uri_hash")
#: What tells replays from other attempts; all of it is absent where there was none.
REPLAY_ATTRIBUTES: Final = (
    "nodd.replay_run_id",
    "nodd.replay_mode",
    "nodd.replay_reason",
    "nodd.replay_original_run",
)


def _phase(name: str, of: str, meaning: str) -> Span:
    return Span(name=name, parent=BATCH, attributes=(f"nodd.{of}",), meaning=meaning)


def _part(name: str, attributes: tuple[str, ...], meaning: str) -> Span:
    return Span(name=name, parent=INGEST, attributes=(*_UNIT, *attributes), meaning=meaning)


SPANS: Final = table(
    (
        Span(
            name=INGEST,
            parent=None,
            attributes=(
                *_UNIT,
                "nodd.object_uri",
                "nodd.bucket_provider",
                "nodd.run_mode",
                "nodd.attempt",
                "nodd.intent",
                "nodd.status",
                "nodd.rule_id",
                "nodd.ingest_run_id",
                *REPLAY_ATTRIBUTES,
                MESSAGING_SYSTEM,
                MESSAGING_OPERATION,
                MESSAGING_DESTINATION,
                MESSAGING_MESSAGE_ID,
                ERROR_TYPE,
            ),
            meaning="one attempt at a unit, from asking for its message to the commit",
        ),
        _part(
            SQS_RECEIVE,
            (
                MESSAGING_SYSTEM,
                MESSAGING_OPERATION,
                MESSAGING_DESTINATION,
                MESSAGING_MESSAGE_ID,
                MESSAGING_BATCH_COUNT,
            ),
            "taking the message from the queue, whichever it is, with those of its batch",
        ),
        _part(
            MESSAGE_PARSE,
            ("nodd.topic_arn", "nodd.schema_version", "nodd.parse_status", "nodd.parse_issues"),
            "message-parse over the batch",
        ),
        _part(
            OBJECT_FETCH,
            ("nodd.bucket_provider",),
            "reading heads and tails of the batch's objects",
        ),
        _part(
            INTEGRITY_CHECK,
            ("nodd.integrity_status", "nodd.integrity_issues"),
            "integrity-check of the unit",
        ),
        _part(
            METADATA_EXTRACT,
            ("nodd.metadata_status", "nodd.metadata_issues"),
            "metadata-extract of the unit",
        ),
        _part(
            STAC_REGISTER,
            ("nodd.stac_item_id", "nodd.stac_collection_id", "nodd.stac_write_status"),
            "stac-register of the unit: staged here, written by the commit",
        ),
        _part(
            PROVENANCE_EMIT,
            ("nodd.provenance_status", "nodd.prov_activity_id", "nodd.openlineage_run_id"),
            "provenance-emit of the unit: staged here, written by the commit",
        ),
        _part(
            OUTBOX_WRITE,
            ("nodd.event_name", "nodd.idempotency_key", MESSAGING_OPERATION),
            "the commit that wrote an event into the outbox",
        ),
        Span(
            name=OUTBOX_DISPATCH,
            parent=OUTBOX_WRITE,
            attributes=(
                "nodd.outbox_id",
                "nodd.pipeline_id",
                "nodd.event_name",
                "nodd.dataset",
                "nodd.dispatch_status",
                "nodd.attempt",
                "nodd.latency_ms",
                "nodd.duplicate_detected",
                MESSAGING_OPERATION,
                MESSAGING_DESTINATION,
                ERROR_TYPE,
            ),
            meaning="one send of an event to one target, from its claim to what was written of it",
        ),
        Span(
            name=BATCH,
            parent=None,
            attributes=("nodd.queue", "nodd.run_mode", "nodd.messages", "nodd.units"),
            meaning="one batch, from asking for it to acknowledging it",
        ),
        _phase(RECEIVE, "messages", "taking messages from the queue"),
        _phase(PARSE, "messages", "understanding them, and storing what cannot be understood"),
        _phase(RECORD_AND_CLAIM, "units", "the first transaction: record units and open attempts"),
        _phase(READ_EVIDENCE, "units", "reading heads and tails of the objects"),
        _phase(OPERATE, "units", "integrity-check to provenance-emit over the batch"),
        _phase(COMMIT, "units", "the second transaction: outcomes and their effects"),
        _phase(ACKNOWLEDGE, "messages", "deleting messages, or hiding them for longer"),
        Span(
            name=CLI_CALL,
            parent=None,
            attributes=("nodd.command", ERROR_TYPE),
            meaning="one call of a command that works: `ingest`, `follow`, `outbox dispatch`, "
            "`replay`, `dlq drain`, `backfill`; batches of workers are linked to it",
        ),
        Span(
            name=REPLAY_BATCH,
            parent=CLI_CALL,
            attributes=(
                "nodd.replay_run_id",
                "nodd.replay_mode",
                "nodd.replay_reason",
                "nodd.plan_sha256",
                "nodd.units",
            ),
            meaning="one batch of a replay or a drain: putting records or letters to work, and "
            "what the call's own worker made of them",
        ),
    )
)
