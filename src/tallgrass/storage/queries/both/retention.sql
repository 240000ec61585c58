-- Rows that leave for an archive: found by key, page by page, listed, and removed in batches.

-- name: archivable_audit(after, size)
-- Sealed, in order of the chain; never the last seal, which the next is chained to.
SELECT s.position, s.entry_hash, s.chain_hash, s.sealed_at, s.entry_id, e.entry_id AS found,
  e.occurred_at, e.actor, e.action, e.subject, e.reason, e.approval_ref, e.detail
FROM audit_seals AS s LEFT JOIN audit_log AS e ON e.entry_id = s.entry_id
WHERE s.position > :after AND s.position < (SELECT max(position) FROM audit_seals)
ORDER BY s.position LIMIT :size;

-- name: insert_archive(now, kind, format, place, file_name, sha256, bytes, row_count, older_than, first_key, last_key, first_at, last_at, first_position, last_position, before_hash, head_hash, actor)
INSERT INTO archives (kind, format, place, name, sha256, bytes, row_count, older_than, first_key, last_key,
  first_at, last_at, first_position, last_position, before_hash, head_hash, actor, recorded_at)
VALUES (:kind, :format, :place, :file_name, :sha256, :bytes, :row_count, :older_than, :first_key, :last_key,
  :first_at, :last_at, :first_position, :last_position, :before_hash, :head_hash, :actor, :now);

-- name: list_archives(after, size)
SELECT * FROM archives WHERE archive_id > :after ORDER BY archive_id LIMIT :size;

-- name: archive_by_id(archive_id)
SELECT * FROM archives WHERE archive_id = :archive_id;

-- name: open_archive(kind)
SELECT * FROM archives WHERE kind = :kind AND removed_at IS NULL AND abandoned_at IS NULL;

-- name: archived_audit()
-- In order of the chain.
SELECT * FROM archives WHERE kind = 'audit' AND removed_at IS NOT NULL AND abandoned_at IS NULL ORDER BY first_position;

-- name: archived_events()
-- Those for which rows have left; what the others hold is still here.
SELECT * FROM archives WHERE kind = 'events' AND removed > 0 ORDER BY first_key, archive_id;

-- name: told_archives(sha256)
SELECT detail FROM audit_log WHERE subject = 'archive:' || :sha256 AND action = 'archive_record';

-- name: verify_archive(archive_id, now)
UPDATE archives SET verified_at = :now WHERE archive_id = :archive_id AND verified_at IS NULL AND abandoned_at IS NULL;

-- name: abandon_archive(archive_id, now)
-- As long as no row of it has left.
UPDATE archives SET abandoned_at = :now WHERE archive_id = :archive_id AND removed = 0 AND removed_at IS NULL
  AND abandoned_at IS NULL;

-- name: archives_of_file(place, file_name)
SELECT archive_id FROM archives WHERE place = :place AND name = :file_name AND abandoned_at IS NULL;

-- name: count_listed_rows(archive_id)
-- Those that are here: no other archive took them meanwhile.
SELECT count(*) AS here FROM archive_rows AS l WHERE l.archive_id = :archive_id AND (
  EXISTS (SELECT 1 FROM wal_attempts AS a WHERE a.wal_id = l.row_id AND a.attempt_no = l.row_number)
  OR (l.row_number = 0 AND EXISTS (SELECT 1 FROM outbox AS e WHERE e.outbox_id = l.row_id)));

-- name: next_archive_rows(archive_id, size)
SELECT row_id, row_number FROM archive_rows WHERE archive_id = :archive_id ORDER BY row_id, row_number LIMIT :size;

-- name: remove_entries(first_position, last_position)
DELETE FROM audit_log WHERE entry_id IN (
  SELECT entry_id FROM audit_seals WHERE position BETWEEN :first_position AND :last_position);

-- name: remove_seals(first_position, last_position)
DELETE FROM audit_seals WHERE position BETWEEN :first_position AND :last_position;

-- name: unlist_archive(archive_id)
DELETE FROM archive_rows WHERE archive_id = :archive_id;

-- name: count_removed(archive_id, removed)
UPDATE archives SET removed = removed + :removed WHERE archive_id = :archive_id AND removed_at IS NULL;

-- name: finish_archive(archive_id, now)
UPDATE archives SET removed_at = :now WHERE archive_id = :archive_id AND verified_at IS NOT NULL AND removed_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM archive_rows WHERE archive_id = :archive_id);
