-- Statements of the ledger's hot path. A write runs under the database's only writer lock, so reads
-- inside it are exact and rows need no lock of their own.

-- name: hold_worker(incarnation)
SELECT worker_id, expires_at, fenced_at, stopped_at FROM workers WHERE incarnation = :incarnation;

-- name: switched_off(scope)
SELECT dataset FROM kill_switches WHERE scope = :scope AND is_on = 1;

-- part: origin
-- What made a unit's item, and which attempt of which run a replay repeats.
(SELECT d.prov_activity_id FROM wal_attempts AS d
 WHERE d.wal_id = r.wal_id AND d.attempt_no = r.applied_attempt) AS item_activity_id,
(SELECT p.mode FROM replay_runs AS p WHERE p.replay_run_id = r.replay_run_id) AS replay_mode,
CASE WHEN r.replay_run_id IS NOT NULL THEN (
  SELECT o.attempt_no FROM wal_attempts AS o
  WHERE o.wal_id = r.wal_id AND o.replay_run_id IS NOT r.replay_run_id
  ORDER BY o.attempt_no DESC LIMIT 1) END AS original_attempt,
CASE WHEN r.replay_run_id IS NOT NULL THEN (
  SELECT o.ingest_run_id FROM wal_attempts AS o
  WHERE o.wal_id = r.wal_id AND o.replay_run_id IS NOT r.replay_run_id
  ORDER BY o.attempt_no DESC LIMIT 1) END AS original_run

-- name: known_objects(rows)
-- What the ledger knows of announced objects, with the newest attempt and its holder's lease.
-- An event without a sequencer does not make the ledger forget the last one that it saw. Where no
-- attempt has one, it may be noted beside the attempt that a message confirmed; COALESCE looks there last.
SELECT r.wal_id, r.object_uri, r.dataset, r.status, r.version, r.attempts, r.budget_from,
  r.lease_expiries, r.last_error_code, r.due_at, r.retry_after, r.rerun_intent, r.next_object, r.replay_run_id,
  r.replay_reason, i.collection_id AS item_collection_id, i.item_id, i.sha256 AS item_sha256,
  {origin},
  a.object_etag, a.object_size, a.object_version_id, a.read_etag,
  coalesce(a.object_sequencer, (
    SELECT earlier.object_sequencer FROM wal_attempts AS earlier
    WHERE earlier.wal_id = r.wal_id AND earlier.object_sequencer IS NOT NULL
    ORDER BY earlier.attempt_no DESC LIMIT 1), (
    SELECT noted.note FROM wal_annotations AS noted
    WHERE noted.wal_id = r.wal_id AND noted.kind = 'announced_sequencer'
    ORDER BY noted.attempt_no DESC LIMIT 1)) AS object_sequencer,
  CASE WHEN a.status = 'pending' THEN
    CASE WHEN w.incarnation IS NULL OR w.fenced_at IS NOT NULL OR w.stopped_at IS NOT NULL
      THEN '0001-01-01T00:00:00.000000Z' ELSE w.expires_at END
  END AS held_until
FROM json_each(:rows) AS announced
JOIN wal_records AS r ON r.object_uri = announced.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id;

-- part: switched_on
-- :rows are the datasets that are switched off, and :replay_off those whose replays are.
AND dataset NOT IN (SELECT value FROM json_each(:rows))
AND (replay_run_id IS NULL OR NOT EXISTS (
  SELECT 1 FROM json_each(:replay_off) AS paused WHERE paused.value = dataset OR paused.value = '*'))

-- name: due_company(now, rows, replay_off)
-- The company that the longest-due unit wants.
SELECT min(lease_expiries, 2) AS company FROM wal_records
WHERE due_at <= :now AND due_at IS NOT NULL
  {switched_on}
ORDER BY due_at LIMIT 1;

-- name: due_ids(now, company, size, rows, replay_off)
SELECT wal_id FROM wal_records
WHERE due_at <= :now AND due_at IS NOT NULL AND min(lease_expiries, 2) = :company
  {switched_on}
ORDER BY due_at LIMIT :size;

-- name: due_units(rows)
SELECT r.wal_id, r.dataset, r.object_uri, r.provider, r.queue, r.event_time, r.time_range_start,
  r.time_range_end, r.status, r.version, r.attempts, r.budget_from, r.lease_expiries,
  r.last_error_code, r.due_at, r.retry_after, r.rerun_intent, r.next_object, r.replay_run_id,
  r.replay_reason, i.collection_id AS item_collection_id, i.item_id, i.sha256 AS item_sha256, r.extensions,
  {origin},
  a.event_time AS attempt_event_time, a.intent AS attempt_intent, a.sns_message_id, a.object_etag, a.object_size,
  a.object_sequencer, a.object_version_id, NULL AS held_until
FROM json_each(:rows) AS due
JOIN wal_records AS r ON r.wal_id = due.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
WHERE r.due_at IS NOT NULL
ORDER BY r.wal_id;

-- name: insert_records(now, ingest_run_id, worker_id, replay_run_id, replay_reason; wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end, extensions, due_at, next_object)
INSERT INTO wal_records (wal_id, dataset, object_uri, provider, queue, event_time,
  time_range_start, time_range_end, status, attempts, integrity_status, metadata_status,
  stac_status, provenance_status, ingest_run_id, worker_id, replay_reason, created_at, updated_at,
  version, recorded_by, extensions, due_at, next_object, budget_from, lease_expiries, replay_run_id)
VALUES (:wal_id, :dataset, :object_uri, :provider, :queue, :event_time,
  :time_range_start, :time_range_end, 'pending', 0, 'unknown', 'unknown',
  'unknown', 'unknown', :ingest_run_id, :worker_id, :replay_reason, :now, :now,
  1, :worker_id, :extensions, :due_at, :next_object, 0, 0, :replay_run_id);

-- name: claim_records(now, ingest_run_id, worker_id; wal_id, version, from_status, to_status, budget_from, rerun_intent)
UPDATE wal_records SET status = :to_status, attempts = attempts + 1, last_attempt_at = :now,
  updated_at = :now, version = version + 1, ingest_run_id = :ingest_run_id,
  worker_id = :worker_id, due_at = NULL, retry_after = NULL, next_object = NULL,
  budget_from = :budget_from, rerun_intent = :rerun_intent
WHERE wal_id = :wal_id AND version = :version AND status = :from_status;

-- name: insert_attempts(now, claim_id, incarnation, worker_id, ingest_run_id, code_version, config_version; wal_id, attempt_no, intent, replay_run_id, queue, event_time, sns_message_id, sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, claimed_from, claimed_version)
INSERT INTO wal_attempts (wal_id, attempt_no, status, intent, queue, event_time, sns_message_id,
  sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, code_version,
  config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id,
  claimed_at, claimed_from, claimed_version, integrity_status, metadata_status, stac_status,
  provenance_status)
VALUES (:wal_id, :attempt_no, 'pending', :intent, :queue, :event_time, :sns_message_id,
  :sqs_message_id, :object_etag, :object_size, :object_sequencer, :object_version_id, :code_version,
  :config_version, :replay_run_id, :ingest_run_id, :worker_id, :incarnation, :claim_id,
  :now, :claimed_from, :claimed_version, 'unknown', 'unknown', 'unknown',
  'unknown');

-- name: close_attempts(now, commit_id, incarnation; wal_id, attempt_no, status, closed_version, error_code, error_message, integrity_status, metadata_status, stac_status, provenance_status, read_etag, evidence, item_sha256, provenance_sha256, prov_activity_id, openlineage_run_id, issues)
-- The fence: an attempt is closed by the process that opened it, once.
UPDATE wal_attempts SET status = :status, commit_id = :commit_id, closed_at = :now,
  closed_version = :closed_version, error_code = :error_code, error_message = :error_message,
  integrity_status = :integrity_status, metadata_status = :metadata_status,
  stac_status = :stac_status, provenance_status = :provenance_status, read_etag = :read_etag,
  evidence = CAST(:evidence AS BLOB), item_sha256 = :item_sha256,
  provenance_sha256 = :provenance_sha256, prov_activity_id = :prov_activity_id,
  openlineage_run_id = :openlineage_run_id, issues = :issues
WHERE wal_id = :wal_id AND attempt_no = :attempt_no AND status = 'pending'
  AND worker_incarnation = :incarnation;

-- name: closed_by(commit_id, rows)
SELECT wal_id FROM json_each(:rows) AS unit
JOIN wal_attempts AS a ON a.wal_id = unit.value AND a.commit_id = :commit_id;

-- name: claimed_by(claim_id, rows)
SELECT wal_id FROM json_each(:rows) AS unit
JOIN wal_attempts AS a ON a.wal_id = unit.value AND a.claim_id = :claim_id;

-- name: close_records(now; wal_id, version, from_status, to_status, last_error_code, last_error_message, integrity_status, metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id, stac_item_href, applied_attempt, budget_from, due_at, retry_after)
-- What the ledger does not run again by itself is no longer its replay run's.
UPDATE wal_records SET status = :to_status, updated_at = :now, version = version + 1,
  last_error_code = :last_error_code, last_error_message = :last_error_message,
  integrity_status = :integrity_status, metadata_status = :metadata_status,
  stac_status = :stac_status, provenance_status = :provenance_status,
  stac_item_id = :stac_item_id, stac_collection_id = :stac_collection_id,
  stac_item_href = :stac_item_href, applied_attempt = :applied_attempt,
  budget_from = :budget_from, due_at = :due_at, retry_after = :retry_after,
  rerun_intent = NULL, lease_expiries = 0,
  replay_run_id = CASE WHEN :to_status = 'succeeded' OR :due_at IS NULL THEN NULL ELSE replay_run_id END
WHERE wal_id = :wal_id AND version = :version AND status = :from_status;

-- name: fail_reruns(now; wal_id, version, last_error_code, last_error_message, due_at, retry_after, lease_expiries, budget_from)
-- A re-run that failed leaves item, statuses and status as they are; the error makes it stale.
UPDATE wal_records SET updated_at = :now, version = version + 1,
  last_error_code = :last_error_code, last_error_message = :last_error_message,
  due_at = :due_at, retry_after = :retry_after, lease_expiries = :lease_expiries,
  budget_from = :budget_from,
  replay_run_id = CASE WHEN :due_at IS NULL THEN NULL ELSE replay_run_id END
WHERE wal_id = :wal_id AND version = :version AND status = 'succeeded';

-- name: reset_records(now; wal_id, version, replay_reason, replay_run_id, due_at, budget_from, next_object, lease_expiries)
UPDATE wal_records SET status = 'pending', updated_at = :now, version = version + 1,
  replay_reason = coalesce(:replay_reason, replay_reason),
  replay_run_id = coalesce(:replay_run_id, replay_run_id), due_at = :due_at, retry_after = NULL,
  budget_from = :budget_from, next_object = :next_object, lease_expiries = :lease_expiries
WHERE wal_id = :wal_id AND version = :version AND status = 'failed';

-- name: abandon_records(now; wal_id, version, last_error_code, last_error_message)
UPDATE wal_records SET status = 'failed', updated_at = :now, version = version + 1,
  last_error_code = :last_error_code, last_error_message = :last_error_message
WHERE wal_id = :wal_id AND version = :version AND status = 'in_progress';

-- name: quarantine_records(now; wal_id, version, from_status, error_code)
UPDATE wal_records SET status = 'quarantined', updated_at = :now, version = version + 1,
  last_error_code = coalesce(last_error_code, :error_code), due_at = NULL, retry_after = NULL,
  replay_run_id = NULL
WHERE wal_id = :wal_id AND version = :version AND status = :from_status;

-- name: park_records(now; wal_id, version, status, due_at, next_object, budget_from, rerun_intent)
UPDATE wal_records SET updated_at = :now, version = version + 1, due_at = :due_at,
  next_object = :next_object, budget_from = :budget_from, rerun_intent = :rerun_intent
WHERE wal_id = :wal_id AND version = :version AND status = :status;

-- name: give_up_reruns(now; wal_id, version)
UPDATE wal_records SET updated_at = :now, version = version + 1, due_at = NULL, replay_run_id = NULL
WHERE wal_id = :wal_id AND version = :version AND status = 'succeeded';

-- name: insert_transitions(now; wal_id, kind, from_status, to_status, from_version, to_version, actor, reason, replay_run_id, approval_ref)
INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status, from_version,
  to_version, actor, reason, replay_run_id, approval_ref)
VALUES (:wal_id, :now, :kind, :from_status, :to_status, :from_version,
  :to_version, :actor, :reason, :replay_run_id, :approval_ref);
