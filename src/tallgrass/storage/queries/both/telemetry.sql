-- What the counters of all workers come to, as far as the ledger still holds it.

-- name: telemetry_wal_records()
SELECT r.dataset, h.to_status AS status, count(*) AS number
FROM wal_history AS h JOIN wal_records AS r ON r.wal_id = h.wal_id
WHERE h.from_status IS NULL OR h.from_status <> h.to_status
GROUP BY r.dataset, h.to_status ORDER BY r.dataset, h.to_status;

-- name: telemetry_wal_replays()
-- A retry carries the reason of the last replay before it; a unit that a drain brought into the
-- ledger has had that reason from its beginning.
SELECT e.dataset, e.replay_reason, count(*) AS number
FROM (
  SELECT r.dataset, coalesce((
      SELECT p.reason FROM wal_transitions AS p
      WHERE p.wal_id = t.wal_id AND p.kind = 'replay' AND p.to_version <= t.to_version
      ORDER BY p.to_version DESC LIMIT 1),
    CASE WHEN r.replay_reason = 'dlq-drain' THEN r.replay_reason ELSE 'none' END) AS replay_reason
  FROM wal_transitions AS t JOIN wal_records AS r ON r.wal_id = t.wal_id
  WHERE t.from_status = 'failed' AND t.to_status = 'pending'
) AS e
GROUP BY e.dataset, e.replay_reason ORDER BY e.dataset, e.replay_reason;

-- name: telemetry_attempts()
SELECT r.dataset, a.attempt_no, count(*) AS number
FROM wal_attempts AS a JOIN wal_records AS r ON r.wal_id = a.wal_id
GROUP BY r.dataset, a.attempt_no ORDER BY r.dataset, a.attempt_no;

-- name: telemetry_replays()
SELECT r.dataset, u.reason, count(*) AS number, 
  sum(CASE WHEN p.mismatch THEN 1 ELSE 0 END) AS mismatches
FROM replay_run_records AS p JOIN wal_records AS r ON r.wal_id = p.wal_id
JOIN replay_runs AS u ON u.replay_run_id = p.replay_run_id
WHERE p.attempt_no IS NOT NULL
GROUP BY r.dataset, u.reason ORDER BY r.dataset, u.reason;

-- name: telemetry_errors()
-- An attempt that was ended from outside says nothing of its unit.
SELECT r.dataset, a.error_code, count(*) AS number
FROM wal_attempts AS a JOIN wal_records AS r ON r.wal_id = a.wal_id
WHERE a.error_code IS NOT NULL AND a.error_code <> 'handed_back' AND a.error_code <> 'lease_expired'
GROUP BY r.dataset, a.error_code ORDER BY r.dataset, a.error_code;
