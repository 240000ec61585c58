-- What a reconciliation reads: pages by key, each a short statement; nothing is written.

-- name: listed_objects(rows)
-- Places in a list of [uri, etag, size] that the ledger knows; the newest object counts, and what one
-- side does not tell is not compared.
SELECT listed.place - 1 AS place, r.wal_id, r.dataset,
  coalesce(listed.value ->> 1 <> CASE WHEN r.next_object IS NULL
    THEN coalesce(a.read_etag, a.object_etag) ELSE r.next_object::json ->> 'etag' END, false)
  OR coalesce((listed.value ->> 2)::bigint <> CASE WHEN r.next_object IS NULL
    THEN a.object_size ELSE (r.next_object::json ->> 'size')::bigint END, false) AS differs
FROM json_array_elements(:rows::json) WITH ORDINALITY AS listed (value, place)
JOIN wal_records AS r ON r.object_uri = listed.value ->> 0
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts;

-- name: known_references(rows)
SELECT r.object_uri, r.next_object, a.object_etag, a.object_size, a.object_sequencer,
  a.object_version_id, a.read_etag
FROM json_array_elements_text(:rows::json) AS listed (value)
JOIN wal_records AS r ON r.object_uri = listed.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.attempts;

-- name: reconcile_page(dataset, status, start, stop, size)
-- One range of the index by dataset, status and id, with the item that the record names and the
-- lease of whoever holds it. Compared as rows, and joined by lookups, for the same reasons as the
-- candidates of a plan.
SELECT r.wal_id, r.object_uri, r.status, r.time_range_start, r.created_at, r.updated_at, r.due_at,
  r.replay_run_id, r.last_error_code,
  EXISTS (SELECT 1 FROM stac_items AS i WHERE i.wal_id = r.wal_id
    AND i.item_id = r.stac_item_id AND i.collection_id = r.stac_collection_id) AS has_item,
  (SELECT CASE WHEN w.incarnation IS NULL OR w.fenced_at IS NOT NULL OR w.stopped_at IS NOT NULL
      THEN '0001-01-01T00:00:00Z'::timestamptz ELSE w.expires_at END
    FROM wal_attempts AS a LEFT JOIN workers AS w ON w.incarnation = a.worker_incarnation
    WHERE a.wal_id = r.wal_id AND a.status = 'pending') AS held_until
FROM wal_records AS r
WHERE (r.dataset, r.status, r.wal_id) >= (:dataset, :status, :start::uuid)
  AND (r.dataset, r.status, r.wal_id) < (:dataset, :status, :stop::uuid)
ORDER BY r.dataset, r.status, r.wal_id LIMIT :size;

-- name: reconcile_item_ahead(start, size)
SELECT wal_id FROM stac_items WHERE wal_id >= :start::uuid ORDER BY wal_id LIMIT 1 OFFSET :size;

-- name: orphan_items(collection_id, start, stop)
SELECT i.wal_id, i.collection_id, i.item_id, i.start_at, r.status FROM stac_items AS i
LEFT JOIN wal_records AS r ON r.wal_id = i.wal_id
WHERE i.wal_id >= :start::uuid AND i.wal_id < :stop::uuid AND i.collection_id = :collection_id
  AND (r.wal_id IS NULL OR r.status <> 'succeeded' OR r.stac_item_id <> i.item_id
    OR r.stac_collection_id <> i.collection_id)
ORDER BY i.wal_id;
