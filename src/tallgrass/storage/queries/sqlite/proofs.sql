-- Counts straight from the tables, by which the promises are checked; they share no statement with
-- what they check.

-- name: count_became(status, error_code, rows)
-- Of the given objects, those whose unit stands so; without a code, whatever its code.
SELECT count(*) AS found FROM json_each(:rows) AS unit
JOIN wal_records AS r ON r.object_uri = unit.value
WHERE r.status = :status AND (:error_code IS NULL OR r.last_error_code = :error_code);

-- name: count_applied_twice(rows)
-- Of the given objects, those whose unit was applied more than once.
SELECT count(*) AS found FROM json_each(:rows) AS unit
JOIN wal_records AS r ON r.object_uri = unit.value
WHERE (SELECT count(*) FROM wal_attempts AS a WHERE a.wal_id = r.wal_id AND a.status = 'applied') > 1;

-- name: count_torn()
-- Units of which a part is there and another is not: a success has its item, the provenance of its
-- applied attempt and an event; whatever never succeeded has none of them.
SELECT count(*) AS found FROM wal_records AS r
LEFT JOIN wal_attempts AS a
  ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt AND a.status = 'applied'
LEFT JOIN stac_items AS i ON i.wal_id = r.wal_id
WHERE (r.status = 'succeeded') <> (a.wal_id IS NOT NULL)
  OR (a.wal_id IS NOT NULL) <> (i.wal_id IS NOT NULL)
  OR (a.wal_id IS NOT NULL AND i.sha256 <> a.item_sha256)
  OR (a.wal_id IS NOT NULL) <> EXISTS (
    SELECT 1 FROM provenance AS p WHERE p.wal_id = r.wal_id
      AND (a.wal_id IS NULL OR p.sha256 = a.provenance_sha256))
  OR (a.wal_id IS NOT NULL) <> EXISTS (SELECT 1 FROM outbox AS o WHERE o.subject = r.wal_id)
    -- Delivered events may have left for an archive.
    AND (a.wal_id IS NULL OR NOT EXISTS (SELECT 1 FROM archives WHERE kind = 'events' AND removed > 0));
