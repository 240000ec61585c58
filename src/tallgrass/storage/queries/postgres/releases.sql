-- The approved way out of quarantine.

-- name: release_records(now; wal_id, version)
-- The journal's row and the used approval stand before it: a trigger asks for both. The newest
-- object is the next one, and the attempts so far count no longer.
UPDATE wal_records AS r SET status = 'pending', updated_at = :now, version = r.version + 1,
  due_at = :now, retry_after = NULL, budget_from = r.attempts
FROM each_row AS x
WHERE r.wal_id = x.wal_id
  AND CASE WHEN r.version = x.version AND r.status = 'quarantined' THEN true ELSE false END;
