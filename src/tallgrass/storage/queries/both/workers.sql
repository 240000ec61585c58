-- Leases, recovery, and the verbs of people and tools.

-- name: abandoned_attempts(size)
-- Open attempts that no live worker holds.
SELECT a.wal_id FROM wal_attempts AS a
LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
WHERE a.status = 'pending'
  AND (w.incarnation IS NULL OR w.fenced_at IS NOT NULL OR w.stopped_at IS NOT NULL)
ORDER BY a.wal_id LIMIT :size;
