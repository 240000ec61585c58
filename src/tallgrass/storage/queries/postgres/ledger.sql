-- Statements of the ledger's hot path. Rows are locked in id order before they are read: a join read
-- together with FOR UPDATE is stale after a wait, and rows locked in any order deadlock.
-- Guards of an UPDATE stand in a CASE, so that the planner joins on the key and never takes a rare
-- status for the better entry (30 times slower).

-- name: hold_worker(incarnation)
-- KEY SHARE lets heartbeats pass and makes a fence wait until this transaction ends.
SELECT worker_id, expires_at, fenced_at, stopped_at FROM workers
WHERE incarnation = :incarnation::uuid FOR KEY SHARE;

-- name: switched_off(scope)
SELECT dataset FROM kill_switches WHERE scope = :scope AND is_on;

-- name: lock_objects(rows)
SELECT wal_id FROM wal_records
WHERE object_uri IN (SELECT value FROM json_array_elements_text(:rows::json) AS announced (value))
ORDER BY wal_id FOR NO KEY UPDATE;

-- name: lock_units(rows)
SELECT wal_id FROM wal_records
WHERE wal_id IN (SELECT value::uuid FROM json_array_elements_text(:rows::json) AS unit (value))
ORDER BY wal_id FOR NO KEY UPDATE;

-- part: origin
-- What made a unit's item, and which attempt of which run a replay repeats.
(SELECT d.prov_activity_id FROM wal_attempts AS d
 WHERE d.wal_id = r.wal_id AND d.attempt_no = r.applied_attempt) AS item_activity_id,
(SELECT p.mode FROM replay_runs AS p WHERE p.replay_run_id = r.replay_run_id) AS replay_mode,
CASE WHEN r.replay_run_id IS NOT NULL THEN (
  SELECT o.attempt_no FROM wal_attempts AS o
  WHERE o.wal_id = r.wal_id AND o.replay_run_id IS DISTINCT FROM r.replay_run_id
  ORDER BY o.attempt_no DESC LIMIT 1) END AS original_attempt,
CASE WHEN r.replay_run_id IS NOT NULL THEN (
  SELECT o.ingest_run_id FROM wal_attempts AS o
  WHERE o.wal_id = r.wal_id AND o.replay_run_id IS DISTINCT FROM r.replay_run_id
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
      THEN '0001-01-01T00:00:00Z'::timestamptz ELSE w.expires_at END
  END AS held_until
FROM json_array_elements_text(:rows::json) AS announced (value)
JOIN wal_records AS r ON r.object_uri = announced.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id;

-- part: switched_on
-- :rows are the datasets that are switched off, and :replay_off those whose replays are.
AND dataset NOT IN (SELECT value FROM json_array_elements_text(:rows::json) AS off (value))
AND (replay_run_id IS NULL OR NOT EXISTS (
  SELECT 1 FROM json_array_elements_text(:replay_off::json) AS paused (value) WHERE paused.value = dataset OR paused.value = '*'))

-- name: due_company(now, rows, replay_off)
-- The company that the longest-due unit wants.
SELECT least(lease_expiries, 2) AS company FROM wal_records
WHERE due_at <= :now AND due_at IS NOT NULL
  {switched_on}
ORDER BY due_at LIMIT 1;

-- name: due_ids(now, company, size, rows, replay_off)
SELECT wal_id FROM wal_records
WHERE due_at <= :now AND due_at IS NOT NULL AND least(lease_expiries, 2) = :company
  {switched_on}
ORDER BY due_at LIMIT :size FOR NO KEY UPDATE SKIP LOCKED;

-- name: due_units(rows)
SELECT r.wal_id, r.dataset, r.object_uri, r.provider, r.queue, r.event_time, r.time_range_start,
  r.time_range_end, r.status, r.version, r.attempts, r.budget_from, r.lease_expiries,
  r.last_error_code, r.due_at, r.retry_after, r.rerun_intent, r.next_object, r.replay_run_id,
  r.replay_reason, i.collection_id AS item_collection_id, i.item_id, i.sha256 AS item_sha256, r.extensions,
  {origin},
  a.event_time AS attempt_event_time, a.intent AS attempt_intent, a.sns_message_id, a.object_etag, a.object_size,
  a.object_sequencer, a.object_version_id, NULL::timestamptz AS held_until
FROM json_array_elements_text(:rows::json) AS due (value)
JOIN wal_records AS r ON r.wal_id = due.value::uuid
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
WHERE r.due_at IS NOT NULL
ORDER BY r.wal_id;

-- name: insert_records(now, ingest_run_id, worker_id, replay_run_id, replay_reason; wal_id, dataset, object_uri, provider, queue, event_time, time_range_start, time_range_end, extensions, due_at, next_object)
INSERT INTO wal_records (wal_id, dataset, object_uri, provider, queue, event_time,
  time_range_start, time_range_end, status, attempts, integrity_status, metadata_status,
  stac_status, provenance_status, ingest_run_id, worker_id, replay_reason, created_at, updated_at,
  version, recorded_by, extensions, due_at, next_object, budget_from, lease_expiries, replay_run_id)
SELECT x.wal_id, x.dataset, x.object_uri, x.provider, x.queue, x.event_time,
  x.time_range_start, x.time_range_end, 'pending', 0, 'unknown', 'unknown',
  'unknown', 'unknown', :ingest_run_id, :worker_id, :replay_reason, :now, :now,
  1, :worker_id, x.extensions, x.due_at, x.next_object, 0, 0, :replay_run_id::text
FROM each_row AS x
ORDER BY x.wal_id
ON CONFLICT DO NOTHING;

-- name: claim_records(now, ingest_run_id, worker_id; wal_id, version, from_status, to_status, budget_from, rerun_intent)
UPDATE wal_records AS r SET status = x.to_status, attempts = r.attempts + 1, last_attempt_at = :now,
  updated_at = :now, version = r.version + 1, ingest_run_id = :ingest_run_id,
  worker_id = :worker_id, due_at = NULL, retry_after = NULL, next_object = NULL,
  budget_from = x.budget_from, rerun_intent = x.rerun_intent
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = x.from_status THEN true ELSE false END;

-- name: insert_attempts(now, claim_id, incarnation, worker_id, ingest_run_id, code_version, config_version; wal_id, attempt_no, intent, replay_run_id, queue, event_time, sns_message_id, sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, claimed_from, claimed_version)
INSERT INTO wal_attempts (wal_id, attempt_no, status, intent, queue, event_time, sns_message_id,
  sqs_message_id, object_etag, object_size, object_sequencer, object_version_id, code_version,
  config_version, replay_run_id, ingest_run_id, worker_id, worker_incarnation, claim_id,
  claimed_at, claimed_from, claimed_version, integrity_status, metadata_status, stac_status,
  provenance_status)
SELECT x.wal_id, x.attempt_no, 'pending', x.intent, x.queue, x.event_time, x.sns_message_id,
  x.sqs_message_id, x.object_etag, x.object_size, x.object_sequencer, x.object_version_id, :code_version,
  :config_version, x.replay_run_id, :ingest_run_id, :worker_id, :incarnation::uuid, :claim_id::uuid,
  :now, x.claimed_from, x.claimed_version, 'unknown', 'unknown', 'unknown',
  'unknown'
FROM each_row AS x
ORDER BY x.wal_id;

-- name: close_attempts(now, commit_id, incarnation; wal_id, attempt_no, status, closed_version, error_code, error_message, integrity_status, metadata_status, stac_status, provenance_status, read_etag, evidence, item_sha256, provenance_sha256, prov_activity_id, openlineage_run_id, issues)
-- The fence: an attempt is closed by the process that opened it, once.
UPDATE wal_attempts AS a SET status = x.status, commit_id = :commit_id::uuid, closed_at = :now,
  closed_version = x.closed_version, error_code = x.error_code, error_message = x.error_message,
  integrity_status = x.integrity_status, metadata_status = x.metadata_status,
  stac_status = x.stac_status, provenance_status = x.provenance_status, read_etag = x.read_etag,
  evidence = convert_to(x.evidence, 'UTF8'), item_sha256 = x.item_sha256,
  provenance_sha256 = x.provenance_sha256, prov_activity_id = x.prov_activity_id,
  openlineage_run_id = x.openlineage_run_id, issues = x.issues
FROM each_row AS x
WHERE a.wal_id = x.wal_id AND a.attempt_no = x.attempt_no
  AND CASE WHEN a.status = 'pending' AND a.worker_incarnation = :incarnation::uuid THEN true ELSE false END;

-- name: closed_by(commit_id, rows)
SELECT a.wal_id FROM json_array_elements_text(:rows::json) AS unit (value)
JOIN wal_attempts AS a ON a.wal_id = unit.value::uuid AND a.commit_id = :commit_id::uuid;

-- name: claimed_by(claim_id, rows)
SELECT a.wal_id FROM json_array_elements_text(:rows::json) AS unit (value)
JOIN wal_attempts AS a ON a.wal_id = unit.value::uuid AND a.claim_id = :claim_id::uuid;

-- name: close_records(now; wal_id, version, from_status, to_status, last_error_code, last_error_message, integrity_status, metadata_status, stac_status, provenance_status, stac_item_id, stac_collection_id, stac_item_href, applied_attempt, budget_from, due_at, retry_after)
-- What the ledger does not run again by itself is no longer its replay run's.
UPDATE wal_records AS r SET status = x.to_status, updated_at = :now, version = r.version + 1,
  last_error_code = x.last_error_code, last_error_message = x.last_error_message,
  integrity_status = x.integrity_status, metadata_status = x.metadata_status,
  stac_status = x.stac_status, provenance_status = x.provenance_status,
  stac_item_id = x.stac_item_id, stac_collection_id = x.stac_collection_id,
  stac_item_href = x.stac_item_href, applied_attempt = x.applied_attempt,
  budget_from = x.budget_from, due_at = x.due_at, retry_after = x.retry_after,
  rerun_intent = NULL, lease_expiries = 0,
  replay_run_id = CASE WHEN x.to_status = 'succeeded' OR x.due_at IS NULL THEN NULL ELSE r.replay_run_id END
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = x.from_status THEN true ELSE false END;

-- name: fail_reruns(now; wal_id, version, last_error_code, last_error_message, due_at, retry_after, lease_expiries, budget_from)
-- A re-run that failed leaves item, statuses and status as they are; the error makes it stale.
UPDATE wal_records AS r SET updated_at = :now, version = r.version + 1,
  last_error_code = x.last_error_code, last_error_message = x.last_error_message,
  due_at = x.due_at, retry_after = x.retry_after, lease_expiries = x.lease_expiries,
  budget_from = x.budget_from,
  replay_run_id = CASE WHEN x.due_at IS NULL THEN NULL ELSE r.replay_run_id END
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = 'succeeded' THEN true ELSE false END;

-- name: reset_records(now; wal_id, version, replay_reason, replay_run_id, due_at, budget_from, next_object, lease_expiries)
UPDATE wal_records AS r SET status = 'pending', updated_at = :now, version = r.version + 1,
  replay_reason = coalesce(x.replay_reason, r.replay_reason),
  replay_run_id = coalesce(x.replay_run_id, r.replay_run_id), due_at = x.due_at, retry_after = NULL,
  budget_from = x.budget_from, next_object = x.next_object, lease_expiries = x.lease_expiries
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = 'failed' THEN true ELSE false END;

-- name: abandon_records(now; wal_id, version, last_error_code, last_error_message)
UPDATE wal_records AS r SET status = 'failed', updated_at = :now, version = r.version + 1,
  last_error_code = x.last_error_code, last_error_message = x.last_error_message
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = 'in_progress' THEN true ELSE false END;

-- name: quarantine_records(now; wal_id, version, from_status, error_code)
UPDATE wal_records AS r SET status = 'quarantined', updated_at = :now, version = r.version + 1,
  last_error_code = coalesce(r.last_error_code, x.error_code), due_at = NULL, retry_after = NULL,
  replay_run_id = NULL
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = x.from_status THEN true ELSE false END;

-- name: park_records(now; wal_id, version, status, due_at, next_object, budget_from, rerun_intent)
UPDATE wal_records AS r SET updated_at = :now, version = r.version + 1, due_at = x.due_at,
  next_object = x.next_object, budget_from = x.budget_from, rerun_intent = x.rerun_intent
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = x.status THEN true ELSE false END;

-- name: give_up_reruns(now; wal_id, version)
UPDATE wal_records AS r SET updated_at = :now, version = r.version + 1, due_at = NULL, replay_run_id = NULL
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = 'succeeded' THEN true ELSE false END;

-- name: insert_transitions(now; wal_id, kind, from_status, to_status, from_version, to_version, actor, reason, replay_run_id, approval_ref)
INSERT INTO wal_transitions (wal_id, occurred_at, kind, from_status, to_status, from_version,
  to_version, actor, reason, replay_run_id, approval_ref)
SELECT x.wal_id, :now, x.kind, x.from_status, x.to_status, x.from_version,
  x.to_version, x.actor, x.reason, x.replay_run_id, x.approval_ref
FROM each_row AS x
ORDER BY x.wal_id;
