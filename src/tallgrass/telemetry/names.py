"""Every name that Tallgrass emits: metrics, spans and log events, declared once.

Names and labels are the specifications' own where they have them. A label never holds the id of an
object or of a unit: those are many, and metrics are kept for each combination of labels.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar


class MetricKind(StrEnum):
    """How the values of a metric add up."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number over time."""

    name: str
    kind: MetricKind
    #: What a call gives. `env` is not among them: the recorder adds it where `has_env` says so.
    labels: tuple[str, ...]
    has_env: bool = False
    #: As UCUM writes it: `1` for plain counts, `s` for seconds, `By` for bytes.
    unit: str
    meaning: str

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels as they are exported."""
        return (*self.labels, "env") if self.has_env else self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time."""

    name: str
    parent: str | None
    attributes: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """Something worth a line of the log."""

    name: str
    #: `info`, `warning` or `error`.
    level: str
    fields: tuple[str, ...]
    meaning: str


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


def _table(entries: Iterable[_Entry]) -> dict[str, _Entry]:
    table: dict[str, _Entry] = {}
    for entry in entries:
        if entry.name in table:
            raise ValueError(f"{entry.name} is declared twice")
        table[entry.name] = entry
    return table


# --- metrics --------------------------------------------------------------------------------------

MESSAGES_RECEIVED: Final = "nodd_sns.messages_received_total"
MESSAGES_DELETED: Final = "nodd_sns.messages_deleted_total"
MESSAGES_KEPT: Final = "nodd_sns.messages_kept_total"
MESSAGES_DEFERRED: Final = "nodd_sns.messages_deferred_total"
MESSAGES_STALE: Final = "nodd_sns.messages_stale_total"
MESSAGES_PARSED: Final = "nodd_sns.messages_parsed_total"
PARSE_FAILURES: Final = "nodd_sns.parse_failures_total"
RECORDS_IGNORED: Final = "nodd_sns.records_ignored_total"
RECEIPTS: Final = "nodd_sns.receipts_total"
WAL_RECORDS: Final = "nodd_sns.wal_records_total"
WAL_ATTEMPTS: Final = "nodd_sns.wal_attempts_histogram"
CLAIMS_LOST: Final = "nodd_sns.claims_lost_total"
VALIDATION_ERRORS: Final = "nodd_sns.validation_errors_total"
INTEGRITY_CHECKS: Final = "nodd_sns.integrity_checks_total"
INTEGRITY_FAILURES: Final = "nodd_sns.integrity_failures_total"
METADATA_EXTRACTS: Final = "nodd_sns.metadata_extract_total"
METADATA_FAILURES: Final = "nodd_sns.metadata_extract_failures_total"
STAC_WRITES: Final = "nodd_sns.stac_writes_total"
PROVENANCE_EMITS: Final = "nodd_sns.provenance_emits_total"
BYTES_INGESTED: Final = "nodd_sns.bytes_ingested_total"
INGEST_LATENCY: Final = "nodd_sns.ingest_latency_seconds"
BATCH_UNITS: Final = "nodd_sns.batch_units"
BATCH_SECONDS: Final = "nodd_sns.batch_seconds"
REPLAYS: Final = "nodd_sns.replays_total"
REPLAY_HITS: Final = "nodd_sns.replay_hits_total"
REPLAY_MISMATCHES: Final = "nodd_sns.replay_mismatch_total"
DLQ_REPROCESSED: Final = "nodd_sns.dlq_reprocessed_total"
OUTBOX_PUBLICATIONS: Final = "nodd_sns.outbox_publications_total"
OUTBOX_DISPATCHES: Final = "nodd_sns.outbox_dispatches_total"
OUTBOX_LATENCY: Final = "nodd_sns.outbox_latency_seconds"
OUTBOX_DUPLICATES: Final = "nodd_sns.outbox_duplicates_total"
OUTBOX_FENCED: Final = "nodd_sns.outbox_fenced_total"
NODE_LATENCY: Final = "kfm.node_latency_ms"
NODE_RETRIES: Final = "kfm.node_retries"
NODE_CACHE_HITS: Final = "kfm.node_cache_hits"
NODE_CACHE_MISSES: Final = "kfm.node_cache_misses"
NODE_CACHE_CORRUPT: Final = "kfm.node_cache_corrupt"
NODE_ENERGY: Final = "kfm.node_energy_wh"
NODE_CARBON: Final = "kfm.node_carbon_gco2e"


def _counter(
    name: str, labels: tuple[str, ...], meaning: str, *, unit: str = "1", has_env: bool = False
) -> Metric:
    return Metric(
        name=name,
        kind=MetricKind.COUNTER,
        labels=labels,
        has_env=has_env,
        unit=unit,
        meaning=meaning,
    )


def _histogram(
    name: str, labels: tuple[str, ...], meaning: str, *, unit: str = "1", has_env: bool = False
) -> Metric:
    return Metric(
        name=name,
        kind=MetricKind.HISTOGRAM,
        labels=labels,
        has_env=has_env,
        unit=unit,
        meaning=meaning,
    )


_NODE_LABELS: Final = ("pipeline", "node", "dataset_id")

METRICS: Final = _table(
    (
        _counter(MESSAGES_RECEIVED, ("queue",), "deliveries taken from the queue"),
        _counter(MESSAGES_DELETED, ("queue",), "messages that left the queue as done"),
        _counter(MESSAGES_KEPT, ("queue",), "deliveries left in the queue, to be seen again"),
        _counter(
            MESSAGES_DEFERRED,
            ("reason",),
            "deliveries that could not be judged yet and stay in the queue, by the code of why",
        ),
        _counter(
            MESSAGES_STALE,
            ("queue",),
            "deliveries whose receipt had expired when they were acknowledged",
        ),
        _counter(
            MESSAGES_PARSED,
            ("dataset", "status"),
            "units that message-parse made of messages",
        ),
        _counter(
            PARSE_FAILURES,
            ("reason",),
            "messages put into the poison store, by the code that says why",
        ),
        _counter(
            RECORDS_IGNORED,
            ("reason",),
            "records of messages that are no units: deletions, test events, sidecars",
        ),
        _counter(
            RECEIPTS,
            ("dataset", "action"),
            "announced units by what the ledger decided; `duplicate` is one already done",
        ),
        _counter(WAL_RECORDS, ("dataset", "status"), "units that entered a status, as committed"),
        _histogram(WAL_ATTEMPTS, ("dataset",), "attempt number of each claim that was won"),
        _counter(
            CLAIMS_LOST,
            ("dataset",),
            "claims whose lease had ended before their outcome could be committed",
        ),
        _counter(
            VALIDATION_ERRORS,
            ("dataset", "error_type"),
            "attempts that ended as failures, by their error code",
            has_env=True,
        ),
        _counter(INTEGRITY_CHECKS, ("dataset", "status"), "results of integrity-check"),
        _counter(
            INTEGRITY_FAILURES,
            ("dataset", "issue"),
            "what integrity-check found wrong, of successes too",
        ),
        _counter(METADATA_EXTRACTS, ("dataset", "status"), "results of metadata-extract"),
        _counter(
            METADATA_FAILURES,
            ("dataset", "issue"),
            "what metadata-extract found wrong, of successes too",
        ),
        _counter(
            STAC_WRITES,
            ("dataset", "outcome"),
            "results of stac-register: `created`, `updated`, `no_op` or `failed`",
        ),
        _counter(PROVENANCE_EMITS, ("dataset", "status"), "results of provenance-emit"),
        _counter(
            BYTES_INGESTED,
            ("dataset",),
            "size, as read, of the objects of successes",
            unit="By",
            has_env=True,
        ),
        _histogram(
            INGEST_LATENCY,
            ("dataset",),
            "time from the source's announcement to the committed item",
            unit="s",
            has_env=True,
        ),
        _histogram(
            BATCH_UNITS, ("source",), "units of a batch, from the `queue` or `due` in the ledger"
        ),
        _histogram(
            BATCH_SECONDS, ("source",), "time from receiving a batch to acknowledging it", unit="s"
        ),
        _counter(
            REPLAYS,
            ("dataset", "reason"),
            "records that a replay run had executed, each once; later retries are not counted",
            has_env=True,
        ),
        _counter(
            REPLAY_HITS,
            ("dataset",),
            "records of replay runs whose item was what a re-run would give: nothing was run",
        ),
        _counter(
            REPLAY_MISMATCHES,
            ("dataset",),
            "records whose replay gave another result than before, as nobody had announced",
        ),
        _counter(
            DLQ_REPROCESSED,
            ("dataset", "action"),
            "dead letters that a drain took up, by what it did with them",
        ),
        _counter(
            OUTBOX_PUBLICATIONS,
            ("outcome",),
            "events given to `publish`: `recorded`, `duplicate` or refused as a `conflict`",
        ),
        _counter(
            OUTBOX_DISPATCHES,
            ("target", "event_name", "dispatch_status"),
            "sends of events that ended, as `success` or `failure`",
        ),
        _histogram(
            OUTBOX_LATENCY,
            ("target",),
            "time from writing an event to its delivery, by the database's clock",
            unit="s",
        ),
        _counter(OUTBOX_DUPLICATES, ("target",), "deliveries that the target said it had before"),
        _counter(
            OUTBOX_FENCED, ("target",), "sends whose results came after their lease had ended"
        ),
        _histogram(
            NODE_LATENCY,
            _NODE_LABELS,
            "time of each attempt of a node, and of each hit of its cache",
            unit="ms",
            has_env=True,
        ),
        _counter(
            NODE_RETRIES,
            _NODE_LABELS,
            "attempts of a node after its first, crashes too",
            has_env=True,
        ),
        _counter(NODE_CACHE_HITS, _NODE_LABELS, "results that came from the cache", has_env=True),
        _counter(
            NODE_CACHE_MISSES, _NODE_LABELS, "results that the cache did not have", has_env=True
        ),
        _counter(
            NODE_CACHE_CORRUPT,
            _NODE_LABELS,
            "entries of the cache that did not verify; each is also a miss",
            has_env=True,
        ),
        _histogram(
            NODE_ENERGY,
            _NODE_LABELS,
            "energy of each attempt of a node, as estimated",
            unit="W.h",
            has_env=True,
        ),
        _histogram(
            NODE_CARBON,
            _NODE_LABELS,
            "emissions of each attempt of a node, as estimated",
            unit="g",
            has_env=True,
        ),
    )
)

# --- spans ----------------------------------------------------------------------------------------

INGEST: Final = "nodd_sns.ingest"
SQS_RECEIVE: Final = "sqs_receive"
MESSAGE_PARSE: Final = "message_parse"
RECORD_AND_CLAIM: Final = "record_and_claim"
OBJECT_FETCH: Final = "object_fetch"
OPERATE: Final = "operate"
COMMIT: Final = "commit"
ACKNOWLEDGE: Final = "acknowledge"


def _phase(name: str, of: str, meaning: str) -> Span:
    return Span(name=name, parent=INGEST, attributes=(f"nodd.{of}",), meaning=meaning)


SPANS: Final = _table(
    (
        Span(
            name=INGEST,
            parent=None,
            attributes=("nodd.queue", "nodd.run_mode", "nodd.messages", "nodd.units"),
            meaning="one batch, from asking for it to acknowledging it",
        ),
        _phase(SQS_RECEIVE, "messages", "taking messages from the queue, whichever it is"),
        _phase(MESSAGE_PARSE, "messages", "message-parse over the batch"),
        _phase(RECORD_AND_CLAIM, "units", "the first transaction: record units and open attempts"),
        _phase(OBJECT_FETCH, "units", "reading heads and tails of the objects"),
        _phase(OPERATE, "units", "integrity-check to provenance-emit over the batch"),
        _phase(COMMIT, "units", "the second transaction: outcomes and their effects"),
        _phase(ACKNOWLEDGE, "messages", "deleting messages, or hiding them for longer"),
    )
)

# --- log events -----------------------------------------------------------------------------------

UNIT_FAILED: Final = "unit_failed"
UNIT_QUARANTINED: Final = "unit_quarantined"
MESSAGE_POISONED: Final = "message_poisoned"
RECEIPTS_STALE: Final = "receipts_stale"
CLAIMS_WERE_LOST: Final = "claims_lost"
UNITS_RECOVERED: Final = "units_recovered"
BATCH_SPLIT: Final = "batch_split"
STORE_WAITED_FOR: Final = "store_waited_for"
WORKER_STARTED: Final = "worker_started"
WORKER_STOPPED: Final = "worker_stopped"
WORKER_FENCED: Final = "worker_fenced"
WORKER_DIED: Final = "worker_died"
EVENT_UNDELIVERED: Final = "event_undelivered"
EVENT_EXHAUSTED: Final = "event_exhausted"
DELIVERIES_LOST: Final = "deliveries_lost"
TARGET_PAUSED: Final = "target_paused"
TARGET_RESUMED: Final = "target_resumed"
DISPATCH_STARTED: Final = "dispatch_started"
DISPATCH_STOPPED: Final = "dispatch_stopped"
NODE_FAILED: Final = "node_failed"
NODE_UNCACHED: Final = "node_uncached"
NODE_CACHE_UNUSABLE: Final = "node_cache_unusable"
NODE_HOOK_FAILED: Final = "node_hook_failed"
NODE_COMPENSATION_FAILED: Final = "node_compensation_failed"
NODE_COMPENSATION_HELD: Final = "node_compensation_held"
NODE_ALERT: Final = "node_alert"

_UNIT_FIELDS: Final = ("wal_id", "dataset", "object_uri_hash", "status", "error_code", "message")

_DELIVERY_FIELDS: Final = (
    "outbox_id",
    "pipeline_id",
    "event_name",
    "target",
    "attempt",
    "error_code",
    "message",
)

EVENTS: Final = _table(
    (
        LogEvent(
            name=UNIT_FAILED,
            level="warning",
            fields=_UNIT_FIELDS,
            meaning="an attempt failed; the unit is tried again or its message dead-lettered",
        ),
        LogEvent(
            name=UNIT_QUARANTINED,
            level="error",
            fields=_UNIT_FIELDS,
            meaning="a unit is held for a person",
        ),
        LogEvent(
            name=MESSAGE_POISONED,
            level="warning",
            fields=("queue", "message_id", "error_code", "message"),
            meaning="a message, or part of it, could not be understood and was stored",
        ),
        LogEvent(
            name=RECEIPTS_STALE,
            level="warning",
            fields=("queue", "count"),
            meaning="the batch took longer than the visibility timeout; its messages come again",
        ),
        LogEvent(
            name=CLAIMS_WERE_LOST,
            level="warning",
            fields=("worker_id", "count"),
            meaning="others had recovered units of this worker; nothing of them was written",
        ),
        LogEvent(
            name=UNITS_RECOVERED,
            level="warning",
            fields=("workers", "count"),
            meaning="workers stopped renewing their leases; their units are due again",
        ),
        LogEvent(
            name=BATCH_SPLIT,
            level="warning",
            fields=("error_code", "count", "message"),
            meaning="the database refused a batch; its halves are tried one after the other",
        ),
        LogEvent(
            name=STORE_WAITED_FOR,
            level="error",
            fields=("error_code", "message"),
            meaning="database, queue, objects or certificates do not answer; it is said once",
        ),
        LogEvent(
            name=WORKER_STARTED,
            level="info",
            fields=("worker_id", "ingest_run_id", "queue"),
            meaning="a worker registered its lease",
        ),
        LogEvent(
            name=WORKER_STOPPED,
            level="info",
            fields=("worker_id", "ingest_run_id", "handed_back"),
            meaning="a worker ended in good order",
        ),
        LogEvent(
            name=WORKER_FENCED,
            level="error",
            fields=("worker_id", "ingest_run_id"),
            meaning="a worker lost its lease and ends; it can write nothing more",
        ),
        LogEvent(
            name=WORKER_DIED,
            level="error",
            fields=("pid", "exit_code"),
            meaning="a worker process ended without a word; another takes its place",
        ),
        LogEvent(
            name=EVENT_UNDELIVERED,
            level="warning",
            fields=_DELIVERY_FIELDS,
            meaning="a send failed; the event is tried again after its back-off",
        ),
        LogEvent(
            name=EVENT_EXHAUSTED,
            level="error",
            fields=_DELIVERY_FIELDS,
            meaning="an event was given up until somebody asks for it again",
        ),
        LogEvent(
            name=DELIVERIES_LOST,
            level="warning",
            fields=("target", "count"),
            meaning="the lease of sends had ended; others send these events again",
        ),
        LogEvent(
            name=TARGET_PAUSED,
            level="error",
            fields=("target", "error_code", "message"),
            meaning="a target is down: one event is tried now and then; it is said once",
        ),
        LogEvent(
            name=TARGET_RESUMED,
            level="info",
            fields=("target", "paused_s"),
            meaning="a target that was down takes events again",
        ),
        LogEvent(
            name=DISPATCH_STARTED,
            level="info",
            fields=("targets",),
            meaning="dispatchers began to look for events",
        ),
        LogEvent(
            name=DISPATCH_STOPPED,
            level="info",
            fields=("dispatched", "undelivered"),
            meaning="dispatchers ended in good order; so many events are still undelivered",
        ),
        LogEvent(
            name=NODE_FAILED,
            level="error",
            fields=("pipeline", "run_id", "node", "task_id", "error_code", "message"),
            meaning="a node failed for good in its run and stays so until it is cleared",
        ),
        LogEvent(
            name=NODE_UNCACHED,
            level="warning",
            fields=("pipeline", "node", "message"),
            meaning="no version can be derived from a node's code, so it is not cached; said once",
        ),
        LogEvent(
            name=NODE_CACHE_UNUSABLE,
            level="warning",
            fields=("pipeline", "node", "message"),
            meaning="the cache of nodes cannot be read or written; the node runs without it",
        ),
        LogEvent(
            name=NODE_HOOK_FAILED,
            level="error",
            fields=("pipeline", "run_id", "node", "task_id", "hook", "message"),
            meaning="lineage, a watcher or the rollback of a node failed; its result stands",
        ),
        LogEvent(
            name=NODE_COMPENSATION_FAILED,
            level="error",
            fields=("pipeline", "run_id", "node", "task_id", "effect", "tries", "message"),
            meaning="an effect of a failed node could not be undone: a person must look at it",
        ),
        LogEvent(
            name=NODE_COMPENSATION_HELD,
            level="warning",
            fields=("pipeline", "run_id", "node", "task_id", "error_code", "message"),
            meaning="governance does not allow to undo effects now; it is tried again on resume",
        ),
        LogEvent(
            name=NODE_ALERT,
            level="error",
            fields=("pipeline", "run_id", "node", "task_id", "alert", "review_ref", "message"),
            meaning="a node's failure was raised to governance; review_ref: its review, if any",
        ),
    )
)
