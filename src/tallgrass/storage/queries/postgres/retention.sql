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

-- name: insert_archive_rows(archive_id; row_id, row_number)
INSERT INTO archive_rows (archive_id, row_id, row_number)
SELECT :archive_id::bigint, x.row_id, x.row_number FROM each_row AS x;

-- name: hold_archive(archive_id)
-- Whose rows may leave; one that removes or gives it up at the same time waits.
SELECT archive_id FROM archives WHERE archive_id = :archive_id AND verified_at IS NOT NULL AND removed_at IS NULL
  AND abandoned_at IS NULL
FOR UPDATE;

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

-- name: unlist_rows(archive_id; row_id, row_number)
DELETE FROM archive_rows AS l USING each_row AS x
WHERE l.archive_id = :archive_id AND l.row_id = x.row_id AND l.row_number = x.row_number;

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
LEFT JOIN expired_items AS x
  ON x.collection_id = i.collection_id COLLATE "default" AND x.item_id = i.item_id COLLATE "default"
WHERE i.collection_id = :collection_id AND r.dataset = :dataset AND i.item_id > :after_id
  AND ((x.item_id IS NULL AND i.end_at < :ended_before)
    OR (x.reason = 'policy' AND x.expires_at <> i.end_at + :days * interval '24 hours'))
ORDER BY i.item_id LIMIT :size;

-- name: insert_expired(now, reason, actor; collection_id, item_id, expires_at)
INSERT INTO expired_items (collection_id, item_id, expires_at, reason, actor, marked_at)
SELECT x.collection_id, x.item_id, x.expires_at, :reason, :actor, :now FROM each_row AS x
ON CONFLICT (collection_id, item_id) DO UPDATE SET expires_at = excluded.expires_at
WHERE expired_items.reason = 'policy' AND expired_items.expires_at <> excluded.expires_at;
