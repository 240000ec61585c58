-- Moving a ledger: an import brings rows past their first state, under an open wal_imports row.

-- name: open_import(import_id, actor, source, sha256, now)
INSERT INTO wal_imports (import_id, actor, source, sha256, started_at, open_gate)
VALUES (:import_id::uuid, :actor, :source, :sha256, :now, 1);

-- name: finish_import(import_id, now)
UPDATE wal_imports SET finished_at = :now, open_gate = NULL WHERE import_id = :import_id::uuid;

-- name: export_records(rows)
SELECT r.* FROM json_array_elements_text(:rows::json) AS unit (value)
JOIN wal_records AS r ON r.wal_id = unit.value::uuid;

-- name: import_records(; wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end, status, attempts, last_attempt_at, last_error_code, last_error_message, integrity_status, metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id, stac_item_href, ingest_run_id, worker_id, replay_reason, created_at, updated_at, version, recorded_by, replay_run_id, extensions, due_at, retry_after, rerun_intent, next_object, budget_from, lease_expiries, applied_attempt)
INSERT INTO wal_records (wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end,
  status, attempts, last_attempt_at, last_error_code, last_error_message, integrity_status,
  metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id,
  stac_item_href, ingest_run_id, worker_id, replay_reason, created_at, updated_at, version,
  recorded_by, replay_run_id, extensions, due_at, retry_after, rerun_intent, next_object, budget_from, lease_expiries,
  applied_attempt)
SELECT x.wal_id, x.dataset, x.object_uri, x.provider, x.queue, x.event_time, x.time_range_start,
  x.time_range_end, x.status, x.attempts, x.last_attempt_at, x.last_error_code,
  x.last_error_message, x.integrity_status, x.metadata_status, x.stac_status, x.provenance_status,
  x.stac_item_id, x.stac_collection_id, x.stac_item_href, x.ingest_run_id, x.worker_id,
  x.replay_reason, x.created_at, x.updated_at, x.version, x.recorded_by, x.replay_run_id, x.extensions, x.due_at, x.retry_after,
  x.rerun_intent, x.next_object, x.budget_from, x.lease_expiries, x.applied_attempt
FROM each_row AS x;

-- name: import_attempts(; wal_id, attempt_no, status, intent, queue, event_time, sns_message_id, sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, read_etag, evidence, code_version, config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id, claimed_at, claimed_from, claimed_version, commit_id, closed_at, closed_version, error_code, error_message, integrity_status, metadata_status, stac_status, provenance_status, item_sha256, provenance_sha256, prov_activity_id, openlineage_run_id, issues)
INSERT INTO wal_attempts (wal_id, attempt_no, status, intent, queue, event_time, sns_message_id, sqs_message_id,
  object_etag, object_size, object_sequencer, object_version_id, read_etag, evidence, code_version,
  config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id,
  claimed_at, claimed_from, claimed_version, commit_id, closed_at, closed_version, error_code,
  error_message, integrity_status, metadata_status, stac_status, provenance_status, item_sha256,
  provenance_sha256, prov_activity_id, openlineage_run_id, issues)
SELECT x.wal_id, x.attempt_no, x.status, x.intent, x.queue, x.event_time, x.sns_message_id,
  x.sqs_message_id, x.object_etag, x.object_size, x.object_sequencer, x.object_version_id,
  x.read_etag, convert_to(x.evidence, 'UTF8'), x.code_version, x.config_version, x.replay_run_id,
  x.ingest_run_id, x.worker_id, x.worker_incarnation, x.claim_id, x.claimed_at, x.claimed_from,
  x.claimed_version, x.commit_id, x.closed_at, x.closed_version, x.error_code, x.error_message,
  x.integrity_status, x.metadata_status, x.stac_status, x.provenance_status, x.item_sha256,
  x.provenance_sha256, x.prov_activity_id, x.openlineage_run_id, x.issues
FROM each_row AS x;

-- name: import_transitions(; wal_id, occurred_at, kind, from_status, to_status, from_version, to_version, actor, reason, replay_run_id, approval_ref)
INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status, from_version, to_version, actor, reason,
  replay_run_id, approval_ref)
SELECT x.wal_id, x.occurred_at, x.kind, x.from_status, x.to_status, x.from_version, x.to_version,
  x.actor, x.reason, x.replay_run_id, x.approval_ref
FROM each_row AS x;

-- name: import_annotations(; wal_id, attempt_no, noted_at, actor, kind, note)
INSERT INTO wal_annotations (wal_id, attempt_no, noted_at, actor, kind, note)
SELECT x.wal_id, x.attempt_no, x.noted_at, x.actor, x.kind, x.note
FROM each_row AS x;
