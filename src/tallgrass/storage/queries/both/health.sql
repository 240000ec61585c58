-- Where the ledger stands: each from ranges of one index, of all datasets at once, but for workers,
-- which are few.

-- part: newest
-- Ids are in order of data time: the newest objects are among the last ids.
FROM wal_records AS r
    WHERE r.dataset = f.dataset AND r.status = s.status
    ORDER BY r.wal_id DESC LIMIT :newest) AS n)

-- part: tried_at
-- When the object was announced that was tried last. The record has the first announcement, and a
-- look at its attempts costs as much again as the record: one attempt tells nothing else.
CASE WHEN r.attempts > 1 THEN (SELECT a.event_time FROM wal_attempts AS a
      WHERE a.wal_id = r.wal_id AND a.attempt_no = r.attempts) ELSE r.event_time END

-- name: dataset_stands(newest)
-- Announcements: of all units that are not in the catalog, of those that are (`done_at`), and of
-- those of the catalog and under way whose last attempt failed. The others failed in any case.
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
  CASE WHEN s.status <> 'succeeded' THEN (SELECT max(n.told_at) FROM (
    SELECT {tried_at} AS told_at
    {newest} END AS heard_at,
  CASE WHEN s.status <> 'failed' AND s.status <> 'quarantined' THEN (SELECT max(n.told_at) FROM (
    SELECT CASE WHEN r.last_error_code IS NOT NULL THEN {tried_at} END AS told_at
    {newest} END AS failed_at,
  CASE WHEN s.status = 'succeeded' THEN (SELECT max(n.told_at) FROM (
    SELECT CASE WHEN r.applied_attempt > 1 THEN (SELECT a.event_time FROM wal_attempts AS a
      WHERE a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt) ELSE r.event_time END AS told_at
    {newest} END AS done_at,
  CASE WHEN s.status = 'succeeded' THEN (SELECT max(n.time_range_end) FROM (
    SELECT r.time_range_end
    {newest} END AS data_until
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

-- name: oldest_dead()
-- When the unit was tried last that stands failed for longest, of those whose message waits among the
-- dead letters: one came with it, and the ledger does not run it again by itself.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL)
SELECT min(each_one.since) AS since FROM (
  SELECT (SELECT min(a.closed_at)
    FROM wal_records AS r JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts
    WHERE r.dataset = f.dataset AND r.status = 'failed' AND r.due_at IS NULL
      AND a.sqs_message_id IS NOT NULL) AS since
  FROM found AS f WHERE f.dataset IS NOT NULL) AS each_one;

-- name: count_lost_workers(now, fenced_since)
SELECT count(*) FILTER (WHERE fenced_at IS NULL AND stopped_at IS NULL AND expires_at <= :now) AS lapsed,
  count(*) FILTER (WHERE fenced_at > :fenced_since) AS fenced
FROM workers;
