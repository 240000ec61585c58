"""Every log event: its name, level, fields and meaning."""

from typing import Final

from tallgrass.telemetry.declarations import LogEvent, table

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
INGEST_SWITCHED_OFF: Final = "ingest_switched_off"
WORKER_DIED: Final = "worker_died"
WORKER_FAILED: Final = "worker_failed"
EVENT_UNDELIVERED: Final = "event_undelivered"
EVENT_EXHAUSTED: Final = "event_exhausted"
DELIVERIES_LOST: Final = "deliveries_lost"
TARGET_PAUSED: Final = "target_paused"
TARGET_RESUMED: Final = "target_resumed"
DISPATCH_STARTED: Final = "dispatch_started"
DISPATCH_STOPPED: Final = "dispatch_stopped"
DISPATCH_FAILED: Final = "dispatch_failed"
METRICS_SERVED: Final = "metrics_served"
TELEMETRY_UNDELIVERED: Final = "telemetry_undelivered"
NODE_FAILED: Final = "node_failed"
NODE_UNCACHED: Final = "node_uncached"
NODE_CACHE_UNUSABLE: Final = "node_cache_unusable"
NODE_HOOK_FAILED: Final = "node_hook_failed"
NODE_COMPENSATION_FAILED: Final = "node_compensation_failed"
NODE_COMPENSATION_HELD: Final = "node_compensation_held"
NODE_ALERT: Final = "node_alert"

_UNIT_FIELDS: Final = (
    "wal_id",
    "dataset",
    "object_uri_hash",
    "attempt",
    "status",
    "error_code",
    "issues",
    "rule_id",
    "replay_run_id",
    "replay_mode",
    "replay_reason",
    "replay_original_run",
    "trace_id",
    "span_id",
    "message",
)

_DELIVERY_FIELDS: Final = (
    "outbox_id",
    "pipeline_id",
    "event_name",
    "target",
    "attempt",
    "error_code",
    "message",
)

EVENTS: Final = table(
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
            name=INGEST_SWITCHED_OFF,
            level="warning",
            fields=("worker_id", "message"),
            meaning="a freeze or switches stop all datasets: the queue is not polled; said once",
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
            name=WORKER_FAILED,
            level="error",
            fields=("pid", "error_code", "message"),
            meaning="a worker process ended with an error; another takes its place, or the command"
            " ends where that would meet the same",
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
            name=DISPATCH_FAILED,
            level="error",
            fields=("error_code", "message"),
            meaning="dispatchers beside workers ended with an error; the command ends with it",
        ),
        LogEvent(
            name=METRICS_SERVED,
            level="info",
            fields=("port",),
            meaning="Prometheus can scrape this process at that port of telemetry.metrics_host",
        ),
        LogEvent(
            name=TELEMETRY_UNDELIVERED,
            level="warning",
            fields=("signal", "lines"),
            meaning="metrics, traces, energy or so many lines of the log could not be delivered;"
            " work goes on, and it is said once",
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

#: Fields of the log that the spans know by a name of OpenTelemetry's.
_CONVENTIONS: Final = {
    "error_code": "error.type",
    "queue": "messaging.destination.name",
    "target": "messaging.destination.name",
    "message_id": "messaging.message.id",
}
#: Those that every log has.
_BASE: Final = frozenset({"message", "trace_id", "span_id"})


def attribute_of(event: str, field: str) -> str:
    """Return the key of a field where keys are those of the spans."""
    if field in _BASE:
        return field
    prefix = "kfm" if event.startswith("node_") else "nodd"
    return _CONVENTIONS.get(field, f"{prefix}.{field}")
