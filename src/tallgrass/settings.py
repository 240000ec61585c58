"""Every setting, declared once: its key, type, default and meaning."""

from tallgrass import setting_form as must_be
from tallgrass.ledger.rules import MAX_ATTEMPTS_RANGE
from tallgrass.setting_form import Setting

SETTINGS: tuple[Setting, ...] = (
    Setting(
        key="env", default="dev", doc="label of metrics, such as dev or prod", check=must_be.label
    ),
    Setting(
        key="database.url",
        default="sqlite:///tallgrass.db",
        doc="sqlite:///FILE (one machine) or postgresql://…",
        check=must_be.database_url,
    ),
    Setting(
        key="database.lock_timeout_s",
        default=30.0,
        doc="how long a write waits for other writers (SQLite)",
        check=must_be.between(0.1, 3600),
    ),
    Setting(
        key="worker.id",
        default="worker",
        doc="logical name of a worker, never a host name",
        check=must_be.logical_name,
    ),
    Setting(
        key="worker.batch",
        default=500,
        doc="units claimed and committed together",
        check=must_be.between(1, 10_000),
    ),
    Setting(
        key="worker.lease_s",
        default=60.0,
        doc="a worker that does not renew for this long loses its units",
        check=must_be.between(1, 3600),
    ),
    Setting(
        key="worker.job_deadline_s",
        default=900.0,
        doc="a worker that makes no progress for this long stops renewing its lease",
        # Below the twelve hours after which no message can be kept hidden.
        check=must_be.between(1, 39_600),
    ),
    Setting(
        key="queue.url",
        default="sqlite:///tallgrass-queue.db",
        doc="sqlite:///FILE (the embedded queue), or the ARN or address of an SQS queue",
        check=must_be.queue_url,
    ),
    Setting(
        key="queue.name",
        default="nodd-primary",
        doc="logical name of the queue, as records show it",
        check=must_be.label,
    ),
    Setting(
        key="queue.visibility_s",
        default=300.0,
        doc="a message that was received is hidden for this long",
        check=must_be.between(1, 43_200),
    ),
    Setting(
        key="queue.max_receive_count",
        default=5,
        doc="deliveries of a message before it goes to the dead-letter queue",
        check=must_be.between(1, 1000),
    ),
    Setting(
        key="queue.endpoint_url",
        default="",
        doc="where SQS answers, if not at AWS's own address",
        check=must_be.endpoint_url,
    ),
    Setting(
        key="queue.wait_s",
        default=20,
        doc="how long a receive waits for the first message (SQS)",
        check=must_be.between(0, 20),
    ),
    Setting(
        key="queue.receivers",
        default=4,
        doc="receives, deletions and the like under way at the same time (SQS)",
        check=must_be.between(1, 32),
    ),
    Setting(
        key="queue.signatures",
        default="off",
        doc="required: messages without a valid SNS signature are stored as poison; or off",
        check=must_be.one_of("off", "required"),
    ),
    Setting(
        key="queue.topics",
        default="",
        doc="ARNs of the SNS topics that may send, separated by blanks; empty for any",
        check=must_be.topics,
    ),
    Setting(
        key="queue.confirm_subscriptions",
        default=False,
        doc="whether a subscription confirmation of an allowed topic is answered",
    ),
    Setting(
        key="objects.url",
        default="file:objects",
        doc="where objects are read: file:FOLDER, cloud, or event to believe the notification",
        check=must_be.objects_url,
    ),
    Setting(
        key="objects.endpoint_url",
        default="",
        doc="where S3 answers, if not at AWS's own address (cloud)",
        check=must_be.endpoint_url,
    ),
    Setting(
        key="objects.signed",
        default=False,
        doc="whether reads use credentials; NODD's buckets need none (cloud)",
    ),
    Setting(
        key="outbox.lineage_target",
        default="",
        doc="the target that gets OpenLineage events; empty for none",
        check=lambda value: must_be.label(value) if value else None,
    ),
    Setting(
        key="outbox.attempts",
        default=5,
        doc="times that the delivery of an event is tried before it waits for a person",
        check=must_be.between(1, 1000),
    ),
    Setting(
        key="outbox.base_s",
        default=0.5,
        doc="ceiling of the first back-off of a delivery; it doubles with each failure",
        check=must_be.between(0.001, 3600),
    ),
    Setting(
        key="outbox.cap_s",
        default=30.0,
        doc="ceiling of every back-off of a delivery",
        check=must_be.between(0.001, 86_400),
    ),
    Setting(
        key="outbox.lease_s",
        default=60.0,
        doc="an event that a dispatcher claimed is another's to send after this long",
        check=must_be.between(1, 3600),
    ),
    Setting(
        key="outbox.pause_s_max",
        default=300.0,
        doc="longest pause between two tries of a target that is down; 0 to pause for none",
        check=must_be.between(0, 86_400),
    ),
    Setting(
        key="outbox.batch",
        default=1000,
        doc="events of a target that a dispatcher claims together, at most ten of its sends",
        check=must_be.between(1, 10_000),
    ),
    Setting(
        key="outbox.payload_bytes_max",
        default=262_144,
        doc="largest payload of an event that is published; queues take no more",
        check=must_be.between(1, 1_048_576),
    ),
    Setting(
        key="replay.max_events",
        default=5000,
        doc="units that one replay run puts to work at most; flags can only lower it",
        check=must_be.between(1, 1_000_000),
    ),
    Setting(
        key="replay.batch",
        default=500,
        doc="units that a replay run puts back together",
        check=must_be.between(1, 10_000),
    ),
    Setting(
        key="replay.max_candidates",
        default=1_000_000,
        doc="a selection of more units than this is refused (selection_too_large)",
        check=must_be.between(1, 1_000_000_000),
    ),
    Setting(
        key="replay.max_records_per_second",
        default=500.0,
        doc="how fast a replay run puts units back at most",
        check=must_be.between(0.001, 1_000_000),
    ),
    Setting(
        key="replay.allow_global_scope",
        default=False,
        doc="whether a replay may leave out the dataset or the time (scope_too_broad)",
    ),
    Setting(
        key="replay.allow_downgrade",
        default=False,
        doc="whether an approved replay may make items by older code (downgrade_refused)",
    ),
    Setting(
        key="replay.lag_s_max",
        default=300.0,
        doc="a replay waits while the oldest work of ingest has waited for longer than this",
        check=must_be.between(1, 86_400),
    ),
    Setting(
        key="datasets.folder",
        default="",
        doc="a folder of your own dataset files, which join or replace the shipped ones",
    ),
    Setting(
        key="nodes.folder",
        default="tallgrass-nodes",
        doc="where reliable nodes keep their logs, their cache and their sensitive values",
        check=lambda value: None if str(value).strip() else "must name a folder",
    ),
    Setting(
        key="audit.anchor_file",
        default="tallgrass-audit-anchors.jsonl",
        doc="where the audit chain's heads are written down, outside the database",
    ),
    Setting(
        key="retention.attempts_days",
        default=0,
        doc="days that attempts which no unit needs any more stay in the database; 0: for ever",
        check=must_be.between(0, 36_500),
    ),
    Setting(
        key="retention.events_days",
        default=0,
        doc="days that delivered events stay in the database; 0: for ever",
        check=must_be.between(0, 36_500),
    ),
    Setting(
        key="retention.audit_days",
        default=0,
        doc="days that sealed audit entries stay in the database; 0: for ever",
        check=must_be.between(0, 36_500),
    ),
    Setting(
        key="retention.archive",
        default="tallgrass-archive",
        doc="where archives are written: a folder, or an address such as s3://BUCKET/PREFIX",
        check=lambda value: None if str(value).strip() else "must name a folder or an address",
    ),
    Setting(
        key="retention.format",
        default="ndjson",
        doc="ndjson (JSON Lines, compressed by gzip) or parquet",
        check=must_be.one_of("ndjson", "parquet"),
    ),
    Setting(
        key="telemetry.metrics_port",
        default=0,
        doc="port at which workers answer Prometheus; 0: none. Of several, each takes the next",
        check=must_be.between(0, 65_535),
    ),
    Setting(
        key="telemetry.metrics_host",
        default="127.0.0.1",
        doc="address at which Prometheus is answered",
        check=lambda value: None if str(value).strip() else "must name an address",
    ),
    Setting(
        key="telemetry.traces_ratio",
        default=0.05,
        doc="share of traces that are sent, where a collector is named by OTEL_* variables",
        check=must_be.between(0, 1),
    ),
    Setting(
        key="telemetry.logs",
        default="text",
        doc="lines of the log: text for people, or json with the keys of the spans",
        check=must_be.one_of("text", "json"),
    ),
    Setting(
        key="telemetry.waiting_spans",
        default=8192,
        doc="spans that wait for a collector at most; further ones are dropped and counted",
        check=must_be.between(1, 1_000_000),
    ),
    Setting(
        key="telemetry.energy_file",
        default="",
        doc="file that workers add their measured energy to, for `telemetry export`; empty: none",
    ),
    Setting(
        key="telemetry.energy_watts_per_core",
        default=12.0,
        doc="power of a busy core",
        check=must_be.between(0, 10_000),
    ),
    Setting(
        key="telemetry.energy_watts_per_gb",
        default=0.3725,
        doc="power of a gigabyte of memory",
        check=must_be.between(0, 1000),
    ),
    Setting(
        key="telemetry.energy_memory_gb",
        default=0.5,
        doc="memory of a worker",
        check=must_be.between(0, 1_000_000),
    ),
    Setting(
        key="telemetry.energy_pue",
        default=1.67,
        doc="what the data centre takes in all for each watt of its machines",
        check=must_be.between(1, 100),
    ),
    Setting(
        key="telemetry.energy_grams_per_kwh",
        default=475.0,
        doc="emissions of a kilowatt hour, in grams of carbon dioxide equivalents",
        check=must_be.between(0, 10_000),
    ),
    Setting(
        key="telemetry.energy_source",
        default="",
        doc="where these figures come from; empty: published averages. Others need to say it",
    ),
    Setting(
        key="governance.approval_hours",
        default=24.0,
        doc="how long a request may be approved and used",
        check=must_be.between(0.001, 8760),
    ),
    Setting(
        key="ledger.max_attempts",
        default=8,
        doc="attempts of a unit before it is held; keep it above the queue's maxReceiveCount",
        shapes_output=True,
        check=must_be.between(MAX_ATTEMPTS_RANGE.start, MAX_ATTEMPTS_RANGE.stop - 1),
    ),
    Setting(
        key="ledger.retry_base_s",
        default=5.0,
        doc="ceiling of the first back-off; it doubles with each failure",
        check=must_be.between(0.001, 3600),
    ),
    Setting(
        key="ledger.retry_cap_s",
        default=900.0,
        doc="ceiling of every back-off",
        check=must_be.between(0.001, 86_400),
    ),
    Setting(
        key="ledger.allow_partial",
        default=True,
        doc="whether partial provenance still makes a success",
        shapes_output=True,
    ),
    Setting(
        key="ledger.allow_suspect",
        default=True,
        doc="whether a suspect integrity or metadata result still makes a success",
        shapes_output=True,
    ),
    Setting(
        key="ledger.reingest",
        default=True,
        doc="whether an overwritten source object is ingested again",
        shapes_output=True,
    ),
)

#: Tables that only a file can hold, each with its meaning.
TABLES: dict[str, str] = {
    "ledger.providers": "further providers beside aws, azure and gcp",
    "ledger.replay_reasons": "[ledger.replay_reasons.CODE] description and approval_ref",
    "ledger.exceptions": "[ledger.exceptions.DATASET] approval_ref and what it may do differently",
    "outbox.targets": "[outbox.targets.NAME] kind, its settings, concurrency, ordered and rate",
    "outbox.routes": "[[outbox.routes]] targets for events, datasets and care_labels (patterns)",
    "governance.policies": "[governance.policies.DATASET] what replaces the dataset's governance",
    "ledger.extensions": "declared extension fields: DATASET = ['ext_name', …]",
}
