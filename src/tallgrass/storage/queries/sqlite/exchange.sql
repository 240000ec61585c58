-- Moving a ledger: an import brings rows past their first state, under an open wal_imports row.

-- name: open_import(import_id, actor, source, sha256, now)
INSERT INTO wal_imports (import_id, actor, source, sha256, started_at, open_gate)
VALUES (:import_id, :actor, :source, :sha256, :now, 1);

-- name: finish_import(import_id, now)
UPDATE wal_imports SET finished_at = :now, open_gate = NULL WHERE import_id = :import_id;

-- name: export_records(rows)
SELECT r.* FROM json_each(:rows) AS unit JOIN wal_records AS r ON r.wal_id = unit.value;

-- name: import_records(; wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end, status, attempts, last_attempt_at, last_error_code, last_error_message, integrity_status, metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id, stac_item_href, ingest_run_id, worker_id, replay_reason, created_at, updated_at, version, recorded_by, replay_run_id, extensions, due_at, retry_after, rerun_intent, next_object, budget_from, lease_expiries, applied_attempt)
INSERT INTO wal_records (wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end,
  status, attempts, last_attempt_at, last_error_code, last_error_message, integrity_status,
  metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id,
  stac_item_href, ingest_run_id, worker_id, replay_reason, created_at, updated_at, version,
  recorded_by, replay_run_id, extensions, due_at, retry_after, rerun_intent, next_object, budget_from, lease_expiries,
  applied_attempt)
VALUES (:wal_id, :dataset, :object_uri, :provider, :queue, :event_time, :time_range_start,
  :time_range_end, :status, :attempts, :last_attempt_at, :last_error_code, :last_error_message,
  :integrity_status, :metadata_status, :stac_status, :provenance_status, :stac_item_id,
  :stac_collection_id, :stac_item_href, :ingest_run_id, :worker_id, :replay_reason, :created_at,
  :updated_at, :version, :recorded_by, :replay_run_id, :extensions, :due_at, :retry_after, :rerun_intent, :next_object,
  :budget_from, :lease_expiries, :applied_attempt);

-- name: import_attempts(; wal_id, attempt_no, status, intent, queue, event_time, sns_message_id, sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, read_etag, evidence, code_version, config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id, claimed_at, claimed_from, claimed_version, commit_id, closed_at, closed_version, error_code, error_message, integrity_status, metadata_status, stac_status, provenance_status, item_sha256, provenance_sha256, prov_activity_id, openlineage_run_id, issues)
INSERT INTO wal_attempts (wal_id, attempt_no, status, intent, queue, event_time, sns_message_id, sqs_message_id,
  object_etag, object_size, object_sequencer, object_version_id, read_etag, evidence, code_version,
  config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id,
  claimed_at, claimed_from, claimed_version, commit_id, closed_at, closed_version, error_code,
  error_message, integrity_status, metadata_status, stac_status, provenance_status, item_sha256,
  provenance_sha256, prov_activity_id, openlineage_run_id, issues)
VALUES (:wal_id, :attempt_no, :status, :intent, :queue, :event_time, :sns_message_id, :sqs_message_id,
  :object_etag, :object_size, :object_sequencer, :object_version_id, :read_etag,
  CAST(:evidence AS BLOB), :code_version, :config_version, :replay_run_id, :ingest_run_id,
  :worker_id, :worker_incarnation, :claim_id, :claimed_at, :claimed_from, :claimed_version,
  :commit_id, :closed_at, :closed_version, :error_code, :error_message, :integrity_status,
  :metadata_status, :stac_status, :provenance_status, :item_sha256, :provenance_sha256,
  :prov_activity_id, :openlineage_run_id, :issues);

-- name: import_transitions(; wal_id, occurred_at, kind, from_status, to_status, from_version, to_version, actor, reason, replay_run_id, approval_ref)
INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status, from_version, to_version, actor, reason,
  replay_run_id, approval_ref)
VALUES (:wal_id, :occurred_at, :kind, :from_status, :to_status, :from_version, :to_version, :actor,
  :reason, :replay_run_id, :approval_ref);

-- name: import_annotations(; wal_id, attempt_no, noted_at, actor, kind, note)
INSERT INTO wal_annotations (wal_id, attempt_no, noted_at, actor, kind, note)
VALUES (:wal_id, :attempt_no, :noted_at, :actor, :kind, :note);
