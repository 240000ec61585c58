-- Where the ledger stands: each from a range of one index, but for workers, which are few.

-- name: unfinished_since(dataset, status)
SELECT min(updated_at) AS oldest FROM wal_records WHERE dataset = :dataset AND status = :status;

-- name: count_near_limit(dataset, spent)
SELECT count(*) AS records FROM wal_records
WHERE dataset = :dataset AND (status = 'pending' OR status = 'in_progress' OR status = 'failed')
  AND attempts - budget_from >= :spent;

-- name: newest_announced(dataset, status, size)
-- Ids are in order of data time: the newest objects are among the last ids.
SELECT max(event_time) AS heard_at, max(time_range_end) AS data_until FROM (
  SELECT event_time, time_range_end FROM wal_records
  WHERE dataset = :dataset AND status = :status ORDER BY wal_id DESC LIMIT :size) AS newest;

-- name: newest_successes(dataset, after, size)
-- What a replay, a repair or a backfill brought late was never promised to be quick.
SELECT a.event_time, a.claimed_at, a.closed_at
FROM wal_records AS r JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
WHERE r.dataset = :dataset AND r.status = 'succeeded' AND r.wal_id > :after
  AND a.replay_run_id IS NULL AND (a.intent = 'ingest' OR a.intent = 'reingest')
ORDER BY r.wal_id DESC LIMIT :size;

-- name: count_since(dataset, status, after)
SELECT count(*) AS records FROM wal_records
WHERE dataset = :dataset AND status = :status AND wal_id > :after;

-- name: count_lost_workers(now, fenced_since)
SELECT count(*) FILTER (WHERE fenced_at IS NULL AND stopped_at IS NULL AND expires_at <= :now) AS lapsed,
  count(*) FILTER (WHERE fenced_at > :fenced_since) AS fenced
FROM workers;
