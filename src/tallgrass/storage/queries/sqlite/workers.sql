-- Leases, recovery, and the verbs of people and tools.

-- name: insert_worker(now, incarnation, worker_id, expires_at)
INSERT INTO workers (incarnation, worker_id, started_at, expires_at)
VALUES (:incarnation, :worker_id, :now, :expires_at);

-- name: renew_lease(incarnation, expires_at)
UPDATE workers SET expires_at = :expires_at
WHERE incarnation = :incarnation AND fenced_at IS NULL AND stopped_at IS NULL;

-- name: stop_worker(now, incarnation)
UPDATE workers SET stopped_at = :now
WHERE incarnation = :incarnation AND fenced_at IS NULL AND stopped_at IS NULL;

-- name: fence_expired(now)
-- Expiry is judged and the fence set in one statement: a worker that renews is never fenced.
UPDATE workers SET fenced_at = :now
WHERE expires_at <= :now AND fenced_at IS NULL AND stopped_at IS NULL;

-- name: attempts_of_worker(incarnation)
SELECT wal_id FROM wal_attempts WHERE status = 'pending' AND worker_incarnation = :incarnation
ORDER BY wal_id;

-- name: open_attempts(rows)
-- With whether a live worker holds each: one that was found abandoned may be claimed anew by now.
SELECT a.wal_id, a.attempt_no, a.worker_incarnation, r.dataset, r.status, r.version,
  r.budget_from, r.lease_expiries, r.replay_reason,
  (w.incarnation IS NULL OR w.fenced_at IS NOT NULL OR w.stopped_at IS NOT NULL) AS is_abandoned
FROM json_each(:rows) AS unit
JOIN wal_attempts AS a ON a.wal_id = unit.value AND a.status = 'pending'
JOIN wal_records AS r ON r.wal_id = a.wal_id
LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
ORDER BY a.wal_id;

-- name: abandon_attempts(now, commit_id; wal_id, attempt_no, closed_version, error_code, error_message)
UPDATE wal_attempts SET status = 'failed', commit_id = :commit_id, closed_at = :now,
  closed_version = :closed_version, error_code = :error_code, error_message = :error_message
WHERE wal_id = :wal_id AND attempt_no = :attempt_no AND status = 'pending';

-- name: roll_back_attempts(; wal_id, attempt_no)
UPDATE wal_attempts SET status = 'rolled_back'
WHERE wal_id = :wal_id AND attempt_no = :attempt_no AND status = 'failed';

-- name: units(rows)
SELECT wal_id, dataset, status, version, attempts, budget_from, lease_expiries, last_error_code,
  due_at, retry_after, rerun_intent, next_object, replay_run_id, replay_reason, NULL AS held_until
FROM json_each(:rows) AS unit JOIN wal_records ON wal_id = unit.value;

-- name: recorded_by_run(run, rows)
-- Those of the units that the run recorded and that nobody has claimed yet.
SELECT wal_id FROM json_each(:rows) AS unit JOIN wal_records ON wal_id = unit.value
WHERE ingest_run_id = :run;

-- name: insert_reasons(now; code, description, approval_ref)
INSERT INTO replay_reasons (code, description, approval_ref, registered_at)
VALUES (:code, :description, :approval_ref, :now) ON CONFLICT DO NOTHING;

-- name: insert_annotations(now; wal_id, attempt_no, actor, kind, note)
INSERT INTO wal_annotations (wal_id, attempt_no, noted_at, actor, kind, note)
VALUES (:wal_id, :attempt_no, :now, :actor, :kind, :note);
