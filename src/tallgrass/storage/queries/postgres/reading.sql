-- Reading the ledger: pages by key, never by offset, each from one index.

-- part: wanted
-- What no index tells of a record: its code, and why it was tried last or is to be tried again.
(:error_code::text IS NULL OR last_error_code = :error_code)
  AND (:intent::text IS NULL OR rerun_intent = :intent OR :intent = (SELECT a.intent FROM wal_attempts AS a
    WHERE a.wal_id = r.wal_id AND a.attempt_no = r.attempts))

-- Pages are ids alone, from the index; the records of the few that are shown are read after that.

-- name: stale_page(dataset, after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r
WHERE status = 'succeeded' AND last_error_code IS NOT NULL AND wal_id > :after AND wal_id < :before
  AND (:dataset::text IS NULL OR dataset = :dataset)
  AND {wanted}
ORDER BY wal_id LIMIT :size;

-- name: stale_page_newest(dataset, after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r
WHERE status = 'succeeded' AND last_error_code IS NOT NULL AND wal_id > :after AND wal_id < :before
  AND (:dataset::text IS NULL OR dataset = :dataset)
  AND {wanted}
ORDER BY wal_id DESC LIMIT :size;

-- name: records_of_ids(rows)
SELECT r.* FROM json_array_elements_text(:rows::json) AS unit (value) JOIN wal_records AS r ON r.wal_id = unit.value::uuid;

-- name: uri_page(prefix, after, size)
-- In the database's own order, which its index has. Where that is not the order of bytes the index
-- cannot find beginnings, and is read through to them: alone, without the records.
SELECT r.* FROM (
  SELECT object_uri FROM wal_records WHERE object_uri ^@ :prefix::text AND object_uri > :after
  ORDER BY object_uri LIMIT :size) AS found
JOIN wal_records AS r ON r.object_uri = found.object_uri ORDER BY r.object_uri;

-- name: export_attempts(rows)
SELECT a.* FROM json_array_elements_text(:rows::json) AS unit (value) JOIN wal_attempts AS a ON a.wal_id = unit.value::uuid
ORDER BY a.wal_id, a.attempt_no;

-- name: export_transitions(rows)
SELECT t.* FROM json_array_elements_text(:rows::json) AS unit (value) JOIN wal_transitions AS t ON t.wal_id = unit.value::uuid
ORDER BY t.wal_id, t.to_version;

-- name: export_annotations(rows)
SELECT n.* FROM json_array_elements_text(:rows::json) AS unit (value) JOIN wal_annotations AS n ON n.wal_id = unit.value::uuid
ORDER BY n.wal_id, n.annotation_id;
