"""Every setting, declared once: its key, type, default and meaning."""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tallgrass.ledger.rules import MAX_ATTEMPTS_RANGE

#: Of the environment variables.
PREFIX = "TALLGRASS_"

Value = str | int | float | bool

_IP_ADDRESS = re.compile(r"(?<!\d)\d{1,3}(?:[.-]\d{1,3}){3}(?!\d)")
#: An ARN, or the address that SQS gives a queue: .../ACCOUNT/NAME.
_SQS_QUEUE = re.compile(
    r"arn:aws[a-z-]*:sqs:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,80}(?:\.fifo)?"
    r"|https?://[^/\s@]+/\d{12}/[A-Za-z0-9_-]{1,80}(?:\.fifo)?"
)
_SNS_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?")
_ENDPOINT = re.compile(r"https?://[^/\s@]+/?")
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting with a single value."""

    key: str
    default: Value
    doc: str
    #: Whether it can change what the pipeline writes, and so counts in config_version.
    shapes_output: bool = False
    check: Callable[[Value], str | None] = lambda _value: None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.key.upper().replace(".", "_")


def _between(low: float, high: float) -> Callable[[Value], str | None]:
    def check(value: Value) -> str | None:
        return None if low <= float(value) <= high else f"must be between {low:g} and {high:g}"

    return check


def _label(value: Value) -> str | None:
    text = str(value)
    allowed = text and all(c.isalnum() or c in "._-" for c in text)
    return None if allowed else "must be a word of letters, digits, '.', '_' and '-'"


def _logical_name(value: Value) -> str | None:
    """Refuse names of machines: a record tells which worker, never where it ran."""
    text = str(value).lower()
    host = socket.gethostname().lower()
    if text in {host, host.split(".")[0]} or _IP_ADDRESS.search(text):
        return "must be a logical name such as worker-a, never a host name or an address"
    return _label(value)


def _database_url(value: Value) -> str | None:
    known = str(value).startswith(("sqlite:///", "postgresql://", "postgres://"))
    return None if known else "must begin with sqlite:/// or postgresql://"


def _queue_url(value: Value) -> str | None:
    known = str(value).startswith("sqlite:///") or _SQS_QUEUE.fullmatch(str(value))
    return None if known else "must be sqlite:///FILE, or the ARN or address of an SQS queue"


def _objects_url(value: Value) -> str | None:
    known = value in {"event", "cloud"} or str(value).startswith("file:")
    return None if known else "must be event, cloud, or file: and a folder"


def _endpoint_url(value: Value) -> str | None:
    known = not value or _ENDPOINT.fullmatch(str(value))
    return None if known else "must be empty, or http(s)://HOST[:PORT]"


def _topics(value: Value) -> str | None:
    known = all(_SNS_TOPIC.fullmatch(word) for word in str(value).split())
    return None if known else "must be ARNs of SNS topics, separated by blanks"


def _host_names(value: Value) -> str | None:
    known = all(_HOST_NAME.fullmatch(word) for word in str(value).split())
    return None if known else "must be host names without ports, separated by blanks"


def _one_of(*words: str) -> Callable[[Value], str | None]:
    def check(value: Value) -> str | None:
        return None if value in words else f"must be {' or '.join(words)}"

    return check


SETTINGS: tuple[Setting, ...] = (
    Setting(key="env", default="dev", doc="label of metrics, such as dev or prod", check=_label),
    Setting(
        key="database.url",
        default="sqlite:///tallgrass.db",
        doc="sqlite:///FILE (one machine) or postgresql://…",
        check=_database_url,
    ),
    Setting(
        key="database.lock_timeout_s",
        default=30.0,
        doc="how long a write waits for other writers (SQLite)",
        check=_between(0.1, 3600),
    ),
    Setting(
        key="worker.id",
        default="worker",
        doc="logical name of a worker, never a host name",
        check=_logical_name,
    ),
    Setting(
        key="worker.batch",
        default=500,
        doc="units claimed and committed together",
        check=_between(1, 10_000),
    ),
    Setting(
        key="worker.lease_s",
        default=60.0,
        doc="a worker that does not renew for this long loses its units",
        check=_between(1, 3600),
    ),
    Setting(
        key="worker.job_deadline_s",
        default=900.0,
        doc="a worker that makes no progress for this long stops renewing its lease",
        # Below the twelve hours after which no message can be kept hidden.
        check=_between(1, 39_600),
    ),
    Setting(
        key="queue.url",
        default="sqlite:///tallgrass-queue.db",
        doc="sqlite:///FILE (the embedded queue), or the ARN or address of an SQS queue",
        check=_queue_url,
    ),
    Setting(
        key="queue.name",
        default="nodd-primary",
        doc="logical name of the queue, as records show it",
        check=_label,
    ),
    Setting(
        key="queue.visibility_s",
        default=300.0,
        doc="a message that was received is hidden for this long",
        check=_between(1, 43_200),
    ),
    Setting(
        key="queue.max_receive_count",
        default=5,
        doc="deliveries of a message before it goes to the dead-letter queue",
        check=_between(1, 1000),
    ),
    Setting(
        key="queue.endpoint_url",
        default="",
        doc="where SQS answers, if not at AWS's own address",
        check=_endpoint_url,
    ),
    Setting(
        key="queue.wait_s",
        default=20,
        doc="how long a receive waits for the first message (SQS)",
        check=_between(0, 20),
    ),
    Setting(
        key="queue.receivers",
        default=4,
        doc="receives, deletions and the like under way at the same time (SQS)",
        check=_between(1, 32),
    ),
    Setting(
        key="queue.signatures",
        default="off",
        doc="required: messages without a valid SNS signature are stored as poison; or off",
        check=_one_of("off", "required"),
    ),
    Setting(
        key="queue.topics",
        default="",
        doc="ARNs of the SNS topics that may send, separated by blanks; empty for any",
        check=_topics,
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
        check=_objects_url,
    ),
    Setting(
        key="objects.endpoint_url",
        default="",
        doc="where S3 answers, if not at AWS's own address (cloud)",
        check=_endpoint_url,
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
        check=lambda value: _label(value) if value else None,
    ),
    Setting(
        key="outbox.attempts",
        default=5,
        doc="times that the delivery of an event is tried before it waits for a person",
        check=_between(1, 1000),
    ),
    Setting(
        key="outbox.base_s",
        default=0.5,
        doc="ceiling of the first back-off of a delivery; it doubles with each failure",
        check=_between(0.001, 3600),
    ),
    Setting(
        key="outbox.cap_s",
        default=30.0,
        doc="ceiling of every back-off of a delivery",
        check=_between(0.001, 86_400),
    ),
    Setting(
        key="outbox.lease_s",
        default=60.0,
        doc="an event that a dispatcher claimed is another's to send after this long",
        check=_between(1, 3600),
    ),
    Setting(
        key="outbox.pause_s_max",
        default=300.0,
        doc="longest pause between two tries of a target that is down; 0 to pause for none",
        check=_between(0, 86_400),
    ),
    Setting(
        key="outbox.batch",
        default=1000,
        doc="events of a target that a dispatcher claims together, at most ten of its sends",
        check=_between(1, 10_000),
    ),
    Setting(
        key="outbox.payload_bytes_max",
        default=262_144,
        doc="largest payload of an event that is published; queues take no more",
        check=_between(1, 1_048_576),
    ),
    Setting(
        key="replay.max_events",
        default=5000,
        doc="units that one replay run puts to work at most; flags can only lower it",
        check=_between(1, 1_000_000),
    ),
    Setting(
        key="replay.batch",
        default=500,
        doc="units that a replay run puts back together",
        check=_between(1, 10_000),
    ),
    Setting(
        key="replay.max_candidates",
        default=1_000_000,
        doc="a selection of more units than this is refused (selection_too_large)",
        check=_between(1, 1_000_000_000),
    ),
    Setting(
        key="replay.max_records_per_second",
        default=500.0,
        doc="how fast a replay run puts units back at most",
        check=_between(0.001, 1_000_000),
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
        check=_between(1, 86_400),
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
        check=_between(0, 36_500),
    ),
    Setting(
        key="retention.events_days",
        default=0,
        doc="days that delivered events stay in the database; 0: for ever",
        check=_between(0, 36_500),
    ),
    Setting(
        key="retention.audit_days",
        default=0,
        doc="days that sealed audit entries stay in the database; 0: for ever",
        check=_between(0, 36_500),
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
        check=_one_of("ndjson", "parquet"),
    ),
    Setting(
        key="telemetry.metrics_port",
        default=0,
        doc="port at which workers answer Prometheus; 0: none. Of several, each takes the next",
        check=_between(0, 65_535),
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
        check=_between(0, 1),
    ),
    Setting(
        key="telemetry.logs",
        default="text",
        doc="lines of the log: text for people, or json with the keys of the spans",
        check=_one_of("text", "json"),
    ),
    Setting(
        key="telemetry.waiting_spans",
        default=8192,
        doc="spans that wait for a collector at most; further ones are dropped and counted",
        check=_between(1, 1_000_000),
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
        check=_between(0, 10_000),
    ),
    Setting(
        key="telemetry.energy_watts_per_gb",
        default=0.3725,
        doc="power of a gigabyte of memory",
        check=_between(0, 1000),
    ),
    Setting(
        key="telemetry.energy_memory_gb",
        default=0.5,
        doc="memory of a worker",
        check=_between(0, 1_000_000),
    ),
    Setting(
        key="telemetry.energy_pue",
        default=1.67,
        doc="what the data centre takes in all for each watt of its machines",
        check=_between(1, 100),
    ),
    Setting(
        key="telemetry.energy_grams_per_kwh",
        default=475.0,
        doc="emissions of a kilowatt hour, in grams of carbon dioxide equivalents",
        check=_between(0, 10_000),
    ),
    Setting(
        key="telemetry.energy_source",
        default="",
        doc="where these figures come from; empty: published averages. Others need to say it",
    ),
    Setting(
        key="console.allowed_hosts",
        default="",
        doc="further host names by which browsers address the console, separated by blanks",
        check=_host_names,
    ),
    Setting(
        key="console.session_hours",
        default=12.0,
        doc="how long a browser stays signed in at the console",
        check=_between(0.01, 720),
    ),
    Setting(
        key="console.requests_per_minute",
        default=1200,
        doc="requests of one address, and of one actor, that console and API answer",
        check=_between(1, 1_000_000),
    ),
    Setting(
        key="console.plans_folder",
        default="tallgrass-plans",
        doc="where the console keeps plans of replays from the request for approval until they ran",
        check=lambda value: None if str(value).strip() else "must name a folder",
    ),
    Setting(
        key="governance.approval_hours",
        default=24.0,
        doc="how long a request may be approved and used",
        check=_between(0.001, 8760),
    ),
    Setting(
        key="ledger.max_attempts",
        default=8,
        doc="attempts of a unit before it is held; keep it above the queue's maxReceiveCount",
        shapes_output=True,
        check=_between(MAX_ATTEMPTS_RANGE.start, MAX_ATTEMPTS_RANGE.stop - 1),
    ),
    Setting(
        key="ledger.retry_base_s",
        default=5.0,
        doc="ceiling of the first back-off; it doubles with each failure",
        check=_between(0.001, 3600),
    ),
    Setting(
        key="ledger.retry_cap_s",
        default=900.0,
        doc="ceiling of every back-off",
        check=_between(0.001, 86_400),
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
