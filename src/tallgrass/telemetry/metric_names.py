"""Every metric: its name, type, labels, unit and meaning.

A label never holds the id of an object or of a unit: those are many, and metrics are kept for each
combination of labels.
"""

from typing import Final

from tallgrass.telemetry.declarations import Metric, MetricKind, table
from tallgrass.telemetry.gauge_names import GAUGES

MESSAGES_RECEIVED: Final = "nodd_sns.messages_received_total"
QUEUE_AGE: Final = "nodd_sns.queue_age_seconds"
MESSAGES_DELETED: Final = "nodd_sns.messages_deleted_total"
MESSAGES_KEPT: Final = "nodd_sns.messages_kept_total"
MESSAGES_DEFERRED: Final = "nodd_sns.messages_deferred_total"
MESSAGES_STALE: Final = "nodd_sns.messages_stale_total"
MESSAGES_PARSED: Final = "nodd_sns.messages_parsed_total"
PARSE_FAILURES: Final = "nodd_sns.parse_failures_total"
RECORDS_IGNORED: Final = "nodd_sns.records_ignored_total"
RECEIPTS: Final = "nodd_sns.receipts_total"
WAL_RECORDS: Final = "nodd_sns.wal_records_total"
WAL_REPLAYS: Final = "nodd_sns.wal_replays_total"
WAL_ATTEMPTS: Final = "nodd_sns.wal_attempts_histogram"
CLAIMS_LOST: Final = "nodd_sns.claims_lost_total"
VALIDATION_ERRORS: Final = "nodd_sns.validation_errors_total"
INTEGRITY_CHECKS: Final = "nodd_sns.integrity_checks_total"
INTEGRITY_FAILURES: Final = "nodd_sns.integrity_failures_total"
METADATA_EXTRACTS: Final = "nodd_sns.metadata_extract_total"
METADATA_FAILURES: Final = "nodd_sns.metadata_extract_failures_total"
STAC_WRITES: Final = "nodd_sns.stac_writes_total"
STAC_WRITE_LATENCY: Final = "nodd_sns.stac_write_latency_seconds"
PROVENANCE_EMITS: Final = "nodd_sns.provenance_emits_total"
PROVENANCE_FAILURES: Final = "nodd_sns.provenance_failures_total"
BYTES_INGESTED: Final = "nodd_sns.bytes_ingested_total"
ENERGY_KWH: Final = "nodd_sns.energy_kwh_total"
CARBON_GCO2E: Final = "nodd_sns.carbon_gco2e_total"
INGEST_LATENCY: Final = "nodd_sns.ingest_latency_seconds"
BATCH_UNITS: Final = "nodd_sns.batch_units"
BATCH_SECONDS: Final = "nodd_sns.batch_seconds"
REPLAYS: Final = "nodd_sns.replays_total"
REPLAY_HITS: Final = "nodd_sns.replay_hits_total"
REPLAY_MISMATCHES: Final = "nodd_sns.replay_mismatch_total"
REPLAY_BATCHES: Final = "nodd_sns.replay_batches_total"
REPLAY_BATCH_SIZE: Final = "nodd_sns.replay_batch_size"
REPLAY_SKIPPED: Final = "nodd_sns.replay_skipped_records_total"
REPLAY_THROTTLED: Final = "nodd_sns.replay_throttled_batches_total"
REPLAY_GUARDRAILS: Final = "nodd_sns.replay_guardrail_violations_total"
REPLAY_CLI_INVOCATIONS: Final = "nodd_sns.replay_cli_invocations_total"
REPLAY_CLI_FAILURES: Final = "nodd_sns.replay_cli_failures_total"
DLQ_MESSAGES: Final = "nodd_sns.dlq_messages_total"
DLQ_LETTERS: Final = "nodd_sns.dlq_letters_total"
DLQ_REPROCESSED: Final = "nodd_sns.dlq_reprocessed_total"
OUTBOX_PUBLICATIONS: Final = "nodd_sns.outbox_publications_total"
OUTBOX_DISPATCHES: Final = "nodd_sns.outbox_dispatches_total"
OUTBOX_LATENCY: Final = "nodd_sns.outbox_latency_seconds"
OUTBOX_DUPLICATES: Final = "nodd_sns.outbox_duplicates_total"
OUTBOX_FENCED: Final = "nodd_sns.outbox_fenced_total"
TELEMETRY_DROPPED: Final = "nodd_sns.telemetry_dropped_total"
TELEMETRY_UNSENT: Final = "nodd_sns.telemetry_failed_sends_total"
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

METRICS: Final = table(
    (
        _counter(MESSAGES_RECEIVED, ("queue",), "deliveries taken from the queue"),
        _histogram(
            QUEUE_AGE,
            ("queue",),
            "age of each message when it was taken from the queue",
            unit="s",
            has_env=True,
        ),
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
        _counter(
            WAL_REPLAYS,
            ("dataset", "replay_reason"),
            "failed units that became pending again; `none`: a worker's retry, no replay before it",
        ),
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
        _histogram(
            STAC_WRITE_LATENCY,
            ("dataset",),
            "time of the commit that wrote an item, for each item that was created or updated",
            unit="s",
        ),
        _counter(PROVENANCE_EMITS, ("dataset", "status"), "results of provenance-emit"),
        _counter(
            PROVENANCE_FAILURES,
            ("dataset", "path"),
            "provenance that did not come to be: `both` where provenance-emit failed a unit, as "
            "its documents are written together or not at all; `openlineage` where an event was "
            "given up that a lineage service did not take",
        ),
        _counter(
            BYTES_INGESTED,
            ("dataset",),
            "size, as read, of the objects of successes",
            unit="By",
            has_env=True,
        ),
        _counter(
            ENERGY_KWH,
            (),
            "energy of ingest, estimated from CPU time at the end of each batch",
            unit="kW.h",
            has_env=True,
        ),
        _counter(
            CARBON_GCO2E,
            (),
            "emissions of that energy, in grams of carbon dioxide equivalents",
            unit="g",
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
            REPLAY_BATCHES,
            ("replay_reason",),
            "batches of records that replay runs and drains took up",
            has_env=True,
        ),
        _histogram(REPLAY_BATCH_SIZE, (), "records or letters of such a batch", has_env=True),
        _counter(
            REPLAY_SKIPPED,
            ("reason",),
            "records of such batches that were not put to work, by why",
            has_env=True,
        ),
        _counter(
            REPLAY_THROTTLED,
            ("reason",),
            "batches of replays that waited: `ingest_lag` or `rate`",
            has_env=True,
        ),
        _counter(
            REPLAY_GUARDRAILS,
            ("guard_type",),
            "replays and drains that a guard refused",
            has_env=True,
        ),
        _counter(
            REPLAY_CLI_INVOCATIONS,
            ("command",),
            "commands that asked for a replay or a drain, dry runs too",
            has_env=True,
        ),
        _counter(
            REPLAY_CLI_FAILURES,
            ("command", "error_code"),
            "such commands that ended with an error, by its code; dry runs are not counted",
            has_env=True,
        ),
        _counter(
            DLQ_REPROCESSED,
            ("dataset",),
            "dead letters that a drain sent again and whose units have all succeeded since; "
            "letters of the same units count once",
        ),
        _counter(
            DLQ_MESSAGES,
            ("queue", "dataset"),
            "messages that stayed in the queue at their last delivery (queue.max_receive_count): "
            "it dead-letters them; `unknown` where nothing could be made of a message",
            has_env=True,
        ),
        _counter(
            DLQ_LETTERS,
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
        _counter(
            TELEMETRY_DROPPED,
            ("signal", "reason"),
            "spans (`traces`) that reached no collector: `queue_full`, `undelivered`, or `closed`"
            " too early; lines of `logs` and of `energy` that were `unwritable`",
        ),
        _counter(
            TELEMETRY_UNSENT,
            ("signal",),
            "requests with `metrics` or `traces` that could not be made, or that a collector did"
            " not take; metrics are sums, so the next request makes up for them",
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
        *GAUGES,
    )
)
