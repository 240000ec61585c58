"""The table of names holds what the specifications ask for, in their own words."""

from __future__ import annotations

import re

import pytest

from tallgrass.telemetry.names import EVENTS, METRICS, SPANS, Metric, table
from tests.documents.markdown import DOCS, read, rows, section, words

#: Name, type and labels as the specifications write them.
SPECIFIED = {
    "nodd_sns.wal_records_total": ("counter", "dataset status"),
    "nodd_sns.wal_attempts_histogram": ("histogram", "dataset"),
    "nodd_sns.messages_parsed_total": ("counter", "dataset status"),
    "nodd_sns.parse_failures_total": ("counter", "reason"),
    "nodd_sns.validation_errors_total": ("counter", "dataset env error_type"),
    "nodd_sns.integrity_checks_total": ("counter", "dataset status"),
    "nodd_sns.integrity_failures_total": ("counter", "dataset issue"),
    "nodd_sns.metadata_extract_total": ("counter", "dataset status"),
    "nodd_sns.metadata_extract_failures_total": ("counter", "dataset issue"),
    "nodd_sns.stac_writes_total": ("counter", "dataset outcome"),
    "nodd_sns.stac_write_latency_seconds": ("histogram", "dataset"),
    "nodd_sns.provenance_emits_total": ("counter", "dataset status"),
    "nodd_sns.provenance_failures_total": ("counter", "dataset path"),
    "nodd_sns.bytes_ingested_total": ("counter", "dataset env"),
    "nodd_sns.ingest_latency_seconds": ("histogram", "dataset env"),
    "nodd_sns.energy_kwh_total": ("counter", "env"),
    "nodd_sns.carbon_gco2e_total": ("counter", "env"),
    "nodd_sns.wal_replays_total": ("counter", "dataset replay_reason"),
    "nodd_sns.replays_total": ("counter", "dataset env reason"),
    "nodd_sns.replay_mismatch_total": ("counter", "dataset"),
    "nodd_sns.dlq_reprocessed_total": ("counter", "dataset"),
    "nodd_sns.dlq_messages_total": ("counter", "dataset env queue"),
    "nodd_sns.queue_depth": ("gauge", "env queue"),
    "nodd_sns.queue_age_seconds": ("histogram", "env queue"),
    "nodd_sns.watermark_lag_seconds": ("gauge", "dataset env partition"),
    "nodd_sns.replay_batches_total": ("counter", "env replay_reason"),
    "nodd_sns.replay_batch_size": ("histogram", "env"),
    "nodd_sns.replay_cli_invocations_total": ("counter", "command env"),
    "nodd_sns.replay_cli_failures_total": ("counter", "command env error_code"),
    "nodd_sns.replay_guardrail_violations_total": ("counter", "env guard_type"),
    "nodd_sns.replay_throttled_batches_total": ("counter", "env reason"),
    "nodd_sns.replay_skipped_records_total": ("counter", "env reason"),
}
#: Labels whose values are few. Whoever adds one here has thought of how many there can be.
FEW = {
    "queue", "dataset", "status", "action", "reason", "error_type", "issue", "outcome", "source",
    "target", "event_name", "dispatch_status", "pipeline", "node", "dataset_id", "signal",
    "replay_reason", "guard_type", "command", "error_code", "path",
    "state", "partition", "scope", "slo", "zone",
}  # fmt: skip
#: Nodes are reported under names of their own, which tell their unit but not their type.
OF_NODES = {
    "kfm.node_latency_ms": ("histogram", "ms"),
    "kfm.node_retries": ("counter", "1"),
    "kfm.node_cache_hits": ("counter", "1"),
    "kfm.node_cache_misses": ("counter", "1"),
    "kfm.node_cache_corrupt": ("counter", "1"),
    "kfm.node_energy_wh": ("histogram", "W.h"),
    "kfm.node_carbon_gco2e": ("histogram", "g"),
}
#: Keys of spans that are OpenTelemetry's own.
CONVENTIONS = {
    "messaging.system", "messaging.operation.type", "messaging.destination.name",
    "messaging.message.id", "messaging.batch.message_count", "error.type",
}  # fmt: skip
UNITS = {"_seconds": "s", "_bytes_total": "By"}


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_specified_metric_is_as_specified(name: str) -> None:
    """Name, type and labels are the specification's."""
    kind, labels = SPECIFIED[name]
    metric = METRICS[name]
    assert (metric.kind, sorted(metric.all_labels)) == (kind, labels.split())


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_a_metric_keeps_the_rules_of_names(metric: Metric) -> None:
    """Names begin alike and tell their type and unit; labels have few values and are not ids."""
    if metric.name in OF_NODES:
        assert (metric.kind, metric.unit) == OF_NODES[metric.name]
    else:
        assert re.fullmatch(r"nodd_sns\.[a-z0-9_]+", metric.name)
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert (metric.unit == "s") == metric.name.endswith("_seconds")
    assert set(metric.labels) <= FEW
    assert metric.meaning


def test_spans_form_a_tree_below_the_specified_root() -> None:
    """The specified parts are below `nodd_sns.ingest`; all others have a parent in the table."""
    roots = [span.name for span in SPANS.values() if span.parent is None]
    assert roots == ["nodd_sns.ingest", "nodd_sns.batch", "nodd_sns.cli"]
    parts = {span.name for span in SPANS.values() if span.parent == "nodd_sns.ingest"}
    assert parts - {"outbox_write"} == {
        "sqs_receive", "message_parse", "object_fetch", "integrity_check", "metadata_extract",
        "stac_register", "provenance_emit",
    }  # fmt: skip
    for span in SPANS.values():
        assert span.parent is None or span.parent in SPANS
        assert all(a.startswith("nodd.") or a in CONVENTIONS for a in span.attributes)


def test_log_events_have_a_level_and_hash_the_uri() -> None:
    """No line of the log holds an object's address; its hash tells enough."""
    for event in EVENTS.values():
        assert event.level in {"info", "warning", "error"}
        assert "object_uri" not in event.fields
        assert re.fullmatch(r"[a-z_]+", event.name)


def test_a_name_is_declared_once() -> None:
    """Two entries of one name are a mistake, found when the table is made."""
    entry = METRICS["nodd_sns.wal_records_total"]
    with pytest.raises(ValueError, match="declared twice"):
        table([entry, entry])


@pytest.mark.parametrize(
    ("heading", "names"),
    [("Metrics", set(METRICS)), ("Spans", set(SPANS)), ("Log events", set(EVENTS))],
)
def test_every_name_is_documented(heading: str, names: set[str]) -> None:
    """Each name is in the document, and the document has no other."""
    table = rows(section(read(DOCS / "reference" / "telemetry.md"), heading))
    assert {words(row[0])[0] for row in table} == names
