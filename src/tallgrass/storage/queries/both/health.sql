-- Where the ledger stands: each from ranges of one index, of all datasets at once, but for workers,
-- which are few.

-- name: dataset_stands(newest)
-- Ids are in order of data time: the newest objects are among the last ids.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL),
states (status) AS (VALUES ('pending'), ('in_progress'), ('succeeded'), ('failed'), ('quarantined'))
SELECT f.dataset, s.status,
  CASE WHEN s.status = 'pending' OR s.status = 'in_progress' THEN (
    SELECT min(r.updated_at) FROM wal_records AS r
    WHERE r.dataset = f.dataset AND r.status = s.status) END AS unfinished_since,
  (SELECT max(n.event_time) FROM (
    SELECT r.event_time FROM wal_records AS r
    WHERE r.dataset = f.dataset AND r.status = s.status
    ORDER BY r.wal_id DESC LIMIT :newest) AS n) AS heard_at,
  CASE WHEN s.status = 'succeeded' THEN (SELECT max(n.time_range_end) FROM (
    SELECT r.time_range_end FROM wal_records AS r
    WHERE r.dataset = f.dataset AND r.status = s.status
    ORDER BY r.wal_id DESC LIMIT :newest) AS n) END AS data_until
FROM found AS f CROSS JOIN states AS s WHERE f.dataset IS NOT NULL;

-- name: count_since(after)
-- Range by range of the index: grouped, PostgreSQL takes twice as long.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL),
states (status) AS (VALUES ('pending'), ('in_progress'), ('succeeded'), ('failed'), ('quarantined'))
SELECT f.dataset, s.status, (
  SELECT count(*) FROM wal_records AS r
  WHERE r.dataset = f.dataset AND r.status = s.status AND r.wal_id > :after) AS records
FROM found AS f CROSS JOIN states AS s WHERE f.dataset IS NOT NULL
ORDER BY f.dataset, s.status;

-- name: count_lost_workers(now, fenced_since)
SELECT count(*) FILTER (WHERE fenced_at IS NULL AND stopped_at IS NULL AND expires_at <= :now) AS lapsed,
  count(*) FILTER (WHERE fenced_at > :fenced_since) AS fenced
FROM workers;
