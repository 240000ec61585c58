-- The approved way out of quarantine.

-- name: release_records(now; wal_id, version)
-- The journal's row and the used approval stand before it: a trigger asks for both. The newest
-- object is the next one, and the attempts so far count no longer.
UPDATE wal_records SET status = 'pending', updated_at = :now, version = version + 1,
  due_at = :now, retry_after = NULL, budget_from = attempts
WHERE wal_id = :wal_id AND version = :version AND status = 'quarantined';
