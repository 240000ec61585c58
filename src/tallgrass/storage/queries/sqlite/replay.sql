-- Replay runs, what becomes of their records, and what a commit tells them.

-- name: replay_run(replay_run_id)
SELECT r.replay_run_id, r.mode, r.intent, r.reason, r.actor, r.selection, r.plan_sha256,
  r.approval_id, r.change_ref, r.incident_ref, r.policy_ref, r.expected, r.code_version,
  r.config_version, r.planned, r.started_at, r.finished_at,
  (SELECT max(p.wal_id) FROM replay_run_records AS p WHERE p.replay_run_id = r.replay_run_id)
    AS applied_to,
  (SELECT count(*) FROM approval_decisions AS d JOIN actors AS a ON a.name = d.actor
   WHERE d.approval_id = r.approval_id AND d.decision = 'approve' AND a.revoked_at IS NULL)
    AS approvals
FROM replay_runs AS r WHERE r.replay_run_id = :replay_run_id;

-- name: page_replay_runs(after, size)
-- Newest first, from behind the given one.
SELECT replay_run_id FROM replay_runs
WHERE :after IS NULL OR (started_at, replay_run_id) <
  (SELECT b.started_at, b.replay_run_id FROM replay_runs AS b WHERE b.replay_run_id = :after)
ORDER BY started_at DESC, replay_run_id DESC LIMIT :size;

-- name: run_units(rows)
-- Units as a run decides on them. An attempt may be open on a succeeded unit only.
SELECT r.wal_id, r.dataset, r.status, r.version, r.attempts, r.budget_from, r.lease_expiries,
  r.last_error_code, r.due_at, r.retry_after, r.rerun_intent, r.next_object, r.replay_run_id,
  r.replay_reason,
  NULL AS held_until, r.applied_attempt, a.code_version AS applied_code_version, i.body AS item,
  EXISTS (SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending')
    AS is_open
FROM json_each(:rows) AS unit JOIN wal_records AS r ON r.wal_id = unit.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id;

-- name: ask_reruns(now; wal_id, version, rerun_intent, replay_reason, replay_run_id, due_at)
-- A re-run never moves its unit: status, item and error stay until an attempt was applied. Somebody
-- approved it, so the attempts so far count no longer.
UPDATE wal_records SET updated_at = :now, version = version + 1, rerun_intent = :rerun_intent,
  replay_reason = :replay_reason, replay_run_id = :replay_run_id, due_at = :due_at,
  retry_after = NULL, budget_from = attempts
WHERE wal_id = :wal_id AND version = :version AND status = 'succeeded';

-- name: insert_run_records(replay_run_id; wal_id, version, action, outcome, reason)
INSERT INTO replay_run_records (replay_run_id, wal_id, version, action, outcome, reason)
VALUES (:replay_run_id, :wal_id, :version, :action, :outcome, :reason);

-- name: known_run_records(replay_run_id, rows)
-- The list first (CROSS JOIN): else all of the run is read at each batch, and the list at each row.
SELECT p.wal_id FROM json_each(:rows) AS unit
CROSS JOIN replay_run_records AS p ON p.wal_id = unit.value AND p.replay_run_id = :replay_run_id;

-- name: held_run_records(replay_run_id, reason, after, size)
-- Planned records that wait for a switch; their units were not touched.
SELECT wal_id, version, action FROM replay_run_records
WHERE replay_run_id = :replay_run_id AND outcome = 'due' AND attempt_no IS NULL
  AND reason = :reason AND wal_id > :after
ORDER BY wal_id LIMIT :size;

-- name: settle_run_records(replay_run_id; wal_id, outcome, reason)
UPDATE replay_run_records SET outcome = :outcome, reason = :reason
WHERE replay_run_id = :replay_run_id AND wal_id = :wal_id AND outcome = 'due';

-- name: lost_run_records(replay_run_id, reason)
-- Records that wait though nobody will run their unit for this run: it was quarantined, or another
-- run or a person took it over.
SELECT p.wal_id, r.status, r.last_error_code FROM replay_run_records AS p
JOIN wal_records AS r ON r.wal_id = p.wal_id
WHERE p.replay_run_id = :replay_run_id AND p.outcome = 'due' AND p.reason IS NOT :reason
  AND (r.replay_run_id IS NOT :replay_run_id OR (r.due_at IS NULL AND r.status <> 'in_progress'
    AND NOT EXISTS (SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending')))
ORDER BY p.wal_id;

-- name: count_run_records(replay_run_id, after, upto)
SELECT outcome, reason, attempt_no IS NOT NULL AS tried, count(*) AS records,
  sum(mismatch) AS mismatches
FROM replay_run_records
WHERE replay_run_id = :replay_run_id AND wal_id > :after AND wal_id <= :upto
GROUP BY outcome, reason, attempt_no IS NOT NULL;

-- name: run_work(now, replay_run_id, rows)
-- What of a run could be worked on now, and what is being worked on; :rows are datasets that are off.
SELECT count(*) AS waiting FROM replay_run_records AS p
JOIN wal_records AS r ON r.wal_id = p.wal_id
WHERE p.replay_run_id = :replay_run_id AND p.outcome = 'due' AND r.replay_run_id = :replay_run_id
  AND (EXISTS (SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending')
    OR (r.due_at <= :now AND NOT EXISTS (
      SELECT 1 FROM json_each(:rows) AS off WHERE off.value = r.dataset OR off.value = '*')));

-- name: run_records_page(replay_run_id, after, size)
SELECT p.wal_id, p.version, p.action, p.outcome, p.reason, p.attempt_no, p.mismatch, p.changes,
  r.dataset, r.stac_collection_id, r.stac_item_id
FROM replay_run_records AS p JOIN wal_records AS r ON r.wal_id = p.wal_id
WHERE p.replay_run_id = :replay_run_id AND p.wal_id > :after
ORDER BY p.wal_id LIMIT :size;

-- name: run_records_of_unit(wal_id)
SELECT p.replay_run_id, p.wal_id, p.version, p.action, p.outcome, p.reason, p.attempt_no,
  p.mismatch, p.changes, r.dataset, r.stac_collection_id, r.stac_item_id
FROM replay_runs AS u
CROSS JOIN replay_run_records AS p ON p.replay_run_id = u.replay_run_id AND p.wal_id = :wal_id
JOIN wal_records AS r ON r.wal_id = p.wal_id
ORDER BY u.started_at, u.replay_run_id;

-- name: replayed_before(rows)
-- The rows of runs whose units a commit is about to close, with what is stored now.
SELECT p.replay_run_id, p.wal_id, p.attempt_no, u.reason AS replay_reason, u.expected,
  a.prov_activity_id, a.object_version_id, coalesce(a.read_etag, a.object_etag) AS etag,
  i.body AS item, d.body AS provenance
FROM json_each(:rows) AS unit JOIN wal_records AS r ON r.wal_id = unit.value
JOIN replay_run_records AS p ON p.replay_run_id = r.replay_run_id AND p.wal_id = r.wal_id
JOIN replay_runs AS u ON u.replay_run_id = p.replay_run_id
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
LEFT JOIN provenance AS d ON d.wal_id = r.wal_id AND d.activity_id = a.prov_activity_id
WHERE p.outcome = 'due';

-- name: close_run_records(; replay_run_id, wal_id, outcome, reason, attempt_no, mismatch, changes)
UPDATE replay_run_records SET outcome = :outcome, reason = :reason, attempt_no = :attempt_no,
  mismatch = :mismatch, changes = :changes
WHERE replay_run_id = :replay_run_id AND wal_id = :wal_id AND outcome = 'due';

-- name: oldest_ingest_due(now, rows)
-- Since when the oldest unit waits that no replay asked for; :rows are datasets that are off.
SELECT min(due_at) AS oldest FROM wal_records
WHERE due_at <= :now AND due_at IS NOT NULL AND replay_run_id IS NULL AND NOT EXISTS (
  SELECT 1 FROM json_each(:rows) AS off WHERE off.value = dataset OR off.value = '*');
