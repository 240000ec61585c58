-- Rows that leave for an archive: found by key, page by page, listed, and removed in batches.

-- name: end_of_attempts(after_id, after_number, size)
-- The last key of the next rows, so that a page is of a known size however few of it may leave.
SELECT wal_id, attempt_no FROM wal_attempts WHERE (wal_id, attempt_no) > (:after_id::uuid, :after_number)
ORDER BY wal_id, attempt_no LIMIT 1 OFFSET :size - 1;

-- name: archivable_attempts(older_than, after_id, after_number, last_id, last_number)
-- Closed and old, and no unit needs them: a trigger asks the same of each that leaves.
SELECT a.* FROM wal_attempts AS a JOIN wal_records AS r ON r.wal_id = a.wal_id
WHERE (a.wal_id, a.attempt_no) > (:after_id::uuid, :after_number)
  AND (a.wal_id, a.attempt_no) <= (:last_id::uuid, :last_number)
  AND a.status <> 'pending' AND a.closed_at < :older_than
  AND a.attempt_no < r.attempts AND a.attempt_no IS DISTINCT FROM r.applied_attempt
  AND NOT EXISTS (SELECT 1 FROM stac_items AS i WHERE i.wal_id = a.wal_id AND i.attempt_no = a.attempt_no)
  AND NOT EXISTS (SELECT 1 FROM wal_annotations AS n WHERE n.wal_id = a.wal_id AND n.attempt_no = a.attempt_no)
  AND (a.object_sequencer IS NULL OR EXISTS (SELECT 1 FROM wal_attempts AS later
    WHERE later.wal_id = a.wal_id AND later.attempt_no > a.attempt_no AND later.object_sequencer IS NOT NULL))
ORDER BY a.wal_id, a.attempt_no;

-- name: end_of_events(after_id, stop, size)
SELECT outbox_id FROM outbox WHERE outbox_id > :after_id::uuid AND outbox_id < :stop::uuid
ORDER BY outbox_id LIMIT 1 OFFSET :size - 1;

-- name: archivable_events(older_than, after_id, last_id)
SELECT e.outbox_id, e.subject, e.pipeline_id, e.event_name, e.dataset_id, e.version, e.idempotency_key,
  e.target, e.payload, e.care_label, e.governance_ref, e.created_at, d.status, d.attempt, d.budget_from,
  d.updated_at
FROM outbox AS e JOIN outbox_delivery AS d ON d.outbox_id = e.outbox_id
WHERE e.outbox_id > :after_id::uuid AND e.outbox_id <= :last_id::uuid
  AND d.status = 'dispatched' AND d.updated_at < :older_than
ORDER BY e.outbox_id;

-- name: attempts_of_events(rows)
SELECT outbox_id, attempt, dispatcher, outcome, duplicate, error_code, error, ended_at
FROM outbox_attempts WHERE outbox_id IN (SELECT value::uuid FROM json_array_elements_text(:rows::json))
ORDER BY outbox_id, attempt;

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

-- name: insert_archive_rows(archive_id; row_id, row_number)
INSERT INTO archive_rows (archive_id, row_id, row_number)
SELECT :archive_id::bigint, x.row_id, x.row_number FROM each_row AS x;

-- name: list_archives(after, size)
SELECT * FROM archives WHERE archive_id > :after ORDER BY archive_id LIMIT :size;

-- name: archive_by_id(archive_id)
SELECT * FROM archives WHERE archive_id = :archive_id;

-- name: open_archive(kind)
SELECT * FROM archives WHERE kind = :kind AND removed_at IS NULL AND abandoned_at IS NULL;

-- name: archived_audit()
-- In order of the chain.
SELECT * FROM archives WHERE kind = 'audit' AND removed_at IS NOT NULL AND abandoned_at IS NULL ORDER BY first_position;

-- name: told_archives(sha256)
SELECT detail FROM audit_log WHERE subject = 'archive:' || :sha256 AND action = 'archive_record';

-- name: verify_archive(archive_id, now)
UPDATE archives SET verified_at = :now WHERE archive_id = :archive_id AND verified_at IS NULL AND abandoned_at IS NULL;

-- name: abandon_archive(archive_id, now)
-- As long as no row of it has left.
UPDATE archives SET abandoned_at = :now WHERE archive_id = :archive_id AND removed = 0 AND removed_at IS NULL
  AND abandoned_at IS NULL;

-- name: hold_archive(archive_id)
-- Whose rows may leave; one that removes or gives it up at the same time waits.
SELECT archive_id FROM archives WHERE archive_id = :archive_id AND verified_at IS NOT NULL AND removed_at IS NULL
  AND abandoned_at IS NULL
FOR UPDATE;

-- name: archives_of_file(place, file_name)
SELECT archive_id FROM archives WHERE place = :place AND name = :file_name AND abandoned_at IS NULL;

-- name: count_listed_rows(archive_id)
-- Those that are here: no other archive took them meanwhile.
SELECT count(*) AS here FROM archive_rows AS l WHERE l.archive_id = :archive_id AND (
  EXISTS (SELECT 1 FROM wal_attempts AS a WHERE a.wal_id = l.row_id AND a.attempt_no = l.row_number)
  OR (l.row_number = 0 AND EXISTS (SELECT 1 FROM outbox AS e WHERE e.outbox_id = l.row_id)));

-- name: next_archive_rows(archive_id, size)
SELECT row_id, row_number FROM archive_rows WHERE archive_id = :archive_id ORDER BY row_id, row_number LIMIT :size;

-- name: remove_attempts(; row_id, row_number)
-- One that somebody has noted something on meanwhile stays.
DELETE FROM wal_attempts AS a USING each_row AS x WHERE a.wal_id = x.row_id AND a.attempt_no = x.row_number
  AND NOT EXISTS (SELECT 1 FROM wal_annotations AS n WHERE n.wal_id = x.row_id AND n.attempt_no = x.row_number);

-- name: remove_delivery_attempts(; row_id, row_number)
DELETE FROM outbox_attempts
WHERE outbox_id = ANY (ARRAY(SELECT x.row_id FROM each_row AS x WHERE x.row_number = 0));

-- name: remove_deliveries(; row_id, row_number)
DELETE FROM outbox_delivery
WHERE outbox_id = ANY (ARRAY(SELECT x.row_id FROM each_row AS x WHERE x.row_number = 0));

-- name: remove_events(; row_id, row_number)
DELETE FROM outbox
WHERE outbox_id = ANY (ARRAY(SELECT x.row_id FROM each_row AS x WHERE x.row_number = 0));

-- name: remove_entries(first_position, last_position)
DELETE FROM audit_log WHERE entry_id IN (
  SELECT entry_id FROM audit_seals WHERE position BETWEEN :first_position AND :last_position);

-- name: remove_seals(first_position, last_position)
DELETE FROM audit_seals WHERE position BETWEEN :first_position AND :last_position;

-- name: unlist_rows(archive_id; row_id, row_number)
DELETE FROM archive_rows AS l USING each_row AS x
WHERE l.archive_id = :archive_id AND l.row_id = x.row_id AND l.row_number = x.row_number;

-- name: unlist_archive(archive_id)
DELETE FROM archive_rows WHERE archive_id = :archive_id;

-- name: count_removed(archive_id, removed)
UPDATE archives SET removed = removed + :removed WHERE archive_id = :archive_id AND removed_at IS NULL;

-- name: finish_archive(archive_id, now)
UPDATE archives SET removed_at = :now WHERE archive_id = :archive_id AND verified_at IS NOT NULL AND removed_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM archive_rows WHERE archive_id = :archive_id);

-- name: database_bytes()
SELECT pg_database_size(current_database()) AS bytes;

-- name: count_recent_units(after_id)
-- By the ids alone, which begin with the time of the data.
SELECT count(*) AS recent FROM wal_records WHERE wal_id >= :after_id::uuid;

-- name: keep_partitions(now)
SELECT tallgrass_keep_partitions(:now) AS dropped;

-- name: expirable_items(dataset, collection_id, days, ended_before, after_id, size)
-- A dataset's items that are not marked, or with another time than theirs, in the order of their ids.
SELECT i.item_id, i.end_at FROM stac_items AS i JOIN wal_records AS r ON r.wal_id = i.wal_id
LEFT JOIN expired_items AS x ON x.collection_id = i.collection_id AND x.item_id = i.item_id
WHERE i.collection_id = :collection_id AND r.dataset = :dataset AND i.item_id > :after_id
  AND ((x.item_id IS NULL AND i.end_at < :ended_before)
    OR (x.reason = 'policy' AND x.expires_at <> i.end_at + :days * interval '24 hours'))
ORDER BY i.item_id LIMIT :size;

-- name: insert_expired(now, reason, actor; collection_id, item_id, expires_at)
INSERT INTO expired_items (collection_id, item_id, expires_at, reason, actor, marked_at)
SELECT x.collection_id, x.item_id, x.expires_at, :reason, :actor, :now FROM each_row AS x
ON CONFLICT (collection_id, item_id) DO UPDATE SET expires_at = excluded.expires_at
WHERE expired_items.reason = 'policy' AND expired_items.expires_at <> excluded.expires_at;
