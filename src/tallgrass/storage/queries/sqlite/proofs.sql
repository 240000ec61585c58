-- Counts straight from the tables, by which the promises of the ledger are checked; they share no
-- statement with what they check.

-- name: count_records()
SELECT count(*) AS found FROM wal_records;

-- name: count_objects()
SELECT count(DISTINCT object_uri) AS found FROM wal_records;

-- name: count_failed()
SELECT count(*) AS found FROM wal_records WHERE status = 'failed';

-- name: count_held_for(error_code)
SELECT count(*) AS found FROM wal_records
WHERE status = 'quarantined' AND last_error_code = :error_code;

-- name: count_applied_twice()
SELECT count(*) AS found FROM (
  SELECT wal_id FROM wal_attempts WHERE status = 'applied' GROUP BY wal_id HAVING count(*) > 1
) AS twice;

-- name: count_overlaps()
-- Two attempts of one unit that were open at the same time: the later began before the earlier ended.
SELECT count(*) AS found FROM wal_attempts AS a
JOIN wal_attempts AS b ON b.wal_id = a.wal_id AND b.attempt_no > a.attempt_no
WHERE a.closed_version IS NULL OR b.claimed_version <= a.closed_version;

-- name: count_miscounted()
SELECT count(*) AS found FROM wal_records AS r
WHERE r.attempts <> (SELECT count(*) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id);

-- name: count_written_after_fence()
SELECT count(*) AS found FROM wal_attempts AS a
JOIN workers AS w ON w.incarnation = a.worker_incarnation
WHERE w.fenced_at IS NOT NULL AND (a.status = 'applied' AND a.closed_at >= w.fenced_at);

-- name: count_fenced_workers()
SELECT count(*) AS found FROM workers WHERE fenced_at IS NOT NULL;

-- name: count_in_hand()
-- Units that are neither done, nor held for a person, nor failed for good.
SELECT count(*) AS found FROM wal_records
WHERE status = 'pending' OR status = 'in_progress' OR due_at IS NOT NULL;

-- name: count_wrong_successes()
-- A success whose item did not come from an applied attempt of its own.
SELECT count(*) AS found FROM wal_records AS r
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
WHERE (r.status = 'succeeded') <> (a.status IS NOT NULL AND a.status = 'applied');

-- name: count_among(status, rows)
SELECT count(*) AS found FROM json_each(:rows) AS unit
JOIN wal_records AS r ON r.wal_id = unit.value WHERE r.status = :status;
