-- Change records and incidents: what a replay or a drain refers to.

-- name: page_changes(after, size, is_open)
-- Newest first.
SELECT change_ref AS ref, title, description, opened_by, opened_at, closed_by, closed_at, resolution
FROM change_records
WHERE (:after IS NULL OR (opened_at, change_ref) < (SELECT opened_at, change_ref FROM change_records WHERE change_ref = :after))
  AND (:is_open IS NULL OR (closed_at IS NULL) = :is_open)
ORDER BY opened_at DESC, change_ref DESC LIMIT :size;

-- name: page_incidents(after, size, is_open)
-- Newest first.
SELECT incident_ref AS ref, title, description, opened_by, opened_at, closed_by, closed_at, resolution
FROM incidents
WHERE (:after IS NULL OR (opened_at, incident_ref) < (SELECT opened_at, incident_ref FROM incidents WHERE incident_ref = :after))
  AND (:is_open IS NULL OR (closed_at IS NULL) = :is_open)
ORDER BY opened_at DESC, incident_ref DESC LIMIT :size;
