-- Counts straight from the tables, by which the promises are checked; they share no statement with
-- what they check.

-- name: count_records()
SELECT count(*) AS found FROM wal_records;

-- name: count_objects()
SELECT count(DISTINCT object_uri) AS found FROM wal_records;

-- name: count_items()
SELECT count(*) AS found FROM stac_items;

-- name: count_overlaps()
-- Two attempts of one unit that were open at the same time: the later began before the earlier ended.
SELECT count(*) AS found FROM wal_attempts AS a
JOIN wal_attempts AS b ON b.wal_id = a.wal_id AND b.attempt_no > a.attempt_no
WHERE a.closed_version IS NULL OR b.claimed_version <= a.closed_version;

-- name: count_miscounted()
-- Where attempts were archived, the last of each unit is still here and has the total as its number.
SELECT count(*) AS found FROM wal_records AS r
WHERE r.attempts <> (SELECT CASE WHEN EXISTS (SELECT 1 FROM archives WHERE kind = 'attempts' AND removed > 0)
  THEN coalesce(max(a.attempt_no), 0) ELSE count(*) END FROM wal_attempts AS a WHERE a.wal_id = r.wal_id);

-- name: count_written_after_fence()
SELECT count(*) AS found FROM wal_attempts AS a
JOIN workers AS w ON w.incarnation = a.worker_incarnation
WHERE w.fenced_at IS NOT NULL AND (a.status = 'applied' AND a.closed_at >= w.fenced_at);

-- name: count_fenced_workers()
SELECT count(*) AS found FROM workers WHERE fenced_at IS NOT NULL;

-- name: count_unfinished()
-- Units that are neither done, nor held for a person, nor failed for good.
SELECT count(*) AS found FROM wal_records
WHERE status = 'pending' OR status = 'in_progress' OR due_at IS NOT NULL;

-- name: count_poison()
SELECT coalesce(sum(times_seen), 0) AS found FROM poison_messages;

-- name: applied_etags()
-- What each item was made of.
SELECT r.object_uri, a.read_etag FROM wal_records AS r
JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt;
