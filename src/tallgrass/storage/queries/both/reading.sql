-- Reading the ledger: pages by key, never by offset, each from one index.

-- name: record(wal_id)
SELECT * FROM wal_records WHERE wal_id = :wal_id;

-- name: record_by_uri(object_uri)
SELECT * FROM wal_records WHERE object_uri = :object_uri;

-- name: attempts(wal_id)
SELECT * FROM wal_attempts WHERE wal_id = :wal_id ORDER BY attempt_no;

-- name: annotations(wal_id)
SELECT * FROM wal_annotations WHERE wal_id = :wal_id ORDER BY annotation_id;

-- name: history(wal_id)
SELECT * FROM wal_history WHERE wal_id = :wal_id ORDER BY version;

-- name: datasets()
-- One index probe a dataset, not one a record.
WITH RECURSIVE found (dataset) AS (
  SELECT min(dataset) FROM wal_records
  UNION ALL
  SELECT (SELECT min(r.dataset) FROM wal_records AS r WHERE r.dataset > found.dataset)
  FROM found WHERE found.dataset IS NOT NULL)
SELECT dataset FROM found WHERE dataset IS NOT NULL;

-- name: page_end(dataset, status, after, before, skipped)
-- Where a range of so many records and one ends.
SELECT wal_id FROM wal_records
WHERE dataset = :dataset AND status = :status AND wal_id > :after AND wal_id < :before
ORDER BY wal_id LIMIT 1 OFFSET :skipped;

-- name: page_end_newest(dataset, status, after, before, skipped)
SELECT wal_id FROM wal_records
WHERE dataset = :dataset AND status = :status AND wal_id > :after AND wal_id < :before
ORDER BY wal_id DESC LIMIT 1 OFFSET :skipped;

-- name: page_end_of_all(after, before, skipped)
SELECT wal_id FROM wal_records WHERE wal_id > :after AND wal_id < :before
ORDER BY wal_id LIMIT 1 OFFSET :skipped;

-- name: page_end_of_all_newest(after, before, skipped)
SELECT wal_id FROM wal_records WHERE wal_id > :after AND wal_id < :before
ORDER BY wal_id DESC LIMIT 1 OFFSET :skipped;

-- name: count_codes(dataset, status, most)
-- Among the newest records alone.
SELECT last_error_code AS code, count(*) AS records FROM (
  SELECT last_error_code FROM wal_records WHERE dataset = :dataset AND status = :status
  ORDER BY wal_id DESC LIMIT :most) AS newest
WHERE last_error_code IS NOT NULL GROUP BY last_error_code;

-- name: export_page(after, size)
SELECT * FROM wal_records WHERE wal_id > :after ORDER BY wal_id LIMIT :size;

-- name: count_stale()
-- By an expression: grouped by the bare column SQLite walks all records in its order, not the few
-- of the partial index.
SELECT min(dataset) AS dataset, count(*) AS records FROM wal_records
WHERE status = 'succeeded' AND last_error_code IS NOT NULL GROUP BY dataset || '' ORDER BY 1;

-- name: count_due(now)
SELECT count(*) AS records, min(due_at) AS oldest FROM wal_records
WHERE due_at IS NOT NULL AND due_at <= :now;

-- name: count_due_by_dataset(now)
SELECT dataset, count(*) AS records FROM wal_records
WHERE due_at IS NOT NULL AND due_at <= :now GROUP BY dataset ORDER BY dataset;

-- name: count_workers(now)
SELECT count(*) AS workers FROM workers
WHERE fenced_at IS NULL AND stopped_at IS NULL AND expires_at > :now;

-- name: applied_migrations()
SELECT number, name, sha256 FROM schema_migrations ORDER BY number;

-- name: page(dataset, status, after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r
WHERE dataset = :dataset AND status = :status AND wal_id > :after AND wal_id < :before
  AND {wanted}
ORDER BY wal_id LIMIT :size;

-- name: page_newest(dataset, status, after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r
WHERE dataset = :dataset AND status = :status AND wal_id > :after AND wal_id < :before
  AND {wanted}
ORDER BY wal_id DESC LIMIT :size;

-- name: page_of_all(after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r WHERE wal_id > :after AND wal_id < :before
  AND {wanted}
ORDER BY wal_id LIMIT :size;

-- name: page_of_all_newest(after, before, error_code, intent, size)
SELECT r.wal_id FROM wal_records AS r WHERE wal_id > :after AND wal_id < :before
  AND {wanted}
ORDER BY wal_id DESC LIMIT :size;
