-- Change records and incidents: what a replay or a drain refers to.

-- name: insert_change(now, ref, title, description, opened_by)
INSERT INTO change_records (change_ref, title, description, opened_by, opened_at)
VALUES (:ref, :title, :description, :opened_by, :now);

-- name: close_change(now, ref, closed_by, resolution)
UPDATE change_records SET closed_by = :closed_by, closed_at = :now, resolution = :resolution
WHERE change_ref = :ref AND closed_at IS NULL;

-- name: change_by_ref(ref)
SELECT change_ref AS ref, title, description, opened_by, opened_at, closed_by, closed_at, resolution
FROM change_records WHERE change_ref = :ref;

-- name: insert_incident(now, ref, title, description, opened_by)
INSERT INTO incidents (incident_ref, title, description, opened_by, opened_at)
VALUES (:ref, :title, :description, :opened_by, :now);

-- name: close_incident(now, ref, closed_by, resolution)
UPDATE incidents SET closed_by = :closed_by, closed_at = :now, resolution = :resolution
WHERE incident_ref = :ref AND closed_at IS NULL;

-- name: incident_by_ref(ref)
SELECT incident_ref AS ref, title, description, opened_by, opened_at, closed_by, closed_at, resolution
FROM incidents WHERE incident_ref = :ref;
