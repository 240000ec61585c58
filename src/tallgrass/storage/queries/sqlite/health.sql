-- Where the ledger stands, in this database's own words.

-- name: count_mismatches(since)
SELECT count(*) AS records, count(*) FILTER (WHERE p.mismatch = 1) AS mismatches
FROM replay_runs AS r CROSS JOIN replay_run_records AS p ON p.replay_run_id = r.replay_run_id
WHERE r.started_at >= :since AND p.outcome = 'done';

-- name: attempts_spent()
-- How many unfinished units have so many attempts of their budget behind them.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL)
SELECT f.dataset, r.attempts - r.budget_from AS spent, count(*) AS records
FROM found AS f CROSS JOIN wal_records AS r
WHERE r.dataset = f.dataset
  AND (r.status = 'pending' OR r.status = 'in_progress' OR r.status = 'failed')
GROUP BY f.dataset, spent;

-- name: newest_successes(after, size)
-- What a replay, a repair or a backfill brought late was never promised to be quick.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL)
SELECT f.dataset, r.wal_id, a.event_time, a.claimed_at, a.closed_at
FROM found AS f
CROSS JOIN wal_records AS r ON r.wal_id IN (
  SELECT n.wal_id
  FROM wal_records AS n JOIN wal_attempts AS a ON a.wal_id = n.wal_id AND a.attempt_no = n.applied_attempt
  WHERE n.dataset = f.dataset AND n.status = 'succeeded' AND n.wal_id > :after
    AND a.replay_run_id IS NULL AND (a.intent = 'ingest' OR a.intent = 'reingest')
  ORDER BY n.wal_id DESC LIMIT :size)
CROSS JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt;

-- name: newest_missing(after, size)
-- Units that a worker has taken up and that are not in the catalog, with their first attempt: what
-- is tried again, or replayed, was announced but once.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL),
states (status) AS (VALUES ('pending'), ('in_progress'), ('failed'), ('quarantined'))
SELECT f.dataset, r.wal_id, a.event_time, a.claimed_at, NULL AS closed_at
FROM found AS f
CROSS JOIN states AS s
CROSS JOIN wal_records AS r ON r.wal_id IN (
  SELECT n.wal_id
  FROM wal_records AS n JOIN wal_attempts AS a ON a.wal_id = n.wal_id AND a.attempt_no = 1
  WHERE n.dataset = f.dataset AND n.status = s.status AND n.wal_id > :after
    AND a.replay_run_id IS NULL AND a.intent = 'ingest'
  ORDER BY n.wal_id DESC LIMIT :size)
CROSS JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = 1;
