-- The catalog's copy in pgstac. PostgreSQL alone: there is no other database to keep in step with.

-- name: facts()
SELECT to_regclass('pgstac.migrations') IS NOT NULL AS has_pgstac,
  EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgis') AS has_postgis;

-- name: pgstac_version()
SELECT version FROM pgstac.migrations ORDER BY datetime DESC, version DESC LIMIT 1;

-- name: known_collections()
SELECT c.collection_id, p.collection_id IS NOT NULL AS is_projected
FROM stac_collections AS c LEFT JOIN stac_projections AS p ON p.collection_id = c.collection_id
ORDER BY c.collection_id;

-- name: lock_items()
-- Waits for whoever writes items now and did not see the new rows of stac_projections: what they
-- write, the copy reads; what is written later, is noted. In the order of those who write: the ids
-- that items had come first.
LOCK TABLE replaced_items, stac_items IN SHARE ROW EXCLUSIVE MODE;

-- name: add_projection(collection_id)
INSERT INTO stac_projections (collection_id) VALUES (:collection_id) ON CONFLICT DO NOTHING;

-- name: note_changes()
ALTER TABLE stac_items ENABLE TRIGGER stac_items_added_to_project,
  ENABLE TRIGGER stac_items_changed_to_project;

-- name: note_no_changes()
ALTER TABLE stac_items DISABLE TRIGGER stac_items_added_to_project,
  DISABLE TRIGGER stac_items_changed_to_project;

-- name: waiting_collections()
-- Those that have something to copy: items that were never copied, changes, or their own document.
SELECT p.collection_id FROM stac_projections AS p
JOIN stac_collections AS c ON c.collection_id = p.collection_id
WHERE p.copied_to IS NOT NULL OR p.collection_sha256 IS DISTINCT FROM c.sha256
  OR EXISTS (SELECT FROM stac_changes AS s WHERE s.collection_id = p.collection_id)
ORDER BY p.collection_id;

-- name: projection(collection_id)
-- Its row is the lock. One writer a collection: two that widen one partition of pgstac at once break
-- each other.
SELECT p.copied_to, c.body,
  p.collection_sha256 IS DISTINCT FROM c.sha256 AS collection_changed, c.sha256
FROM stac_projections AS p JOIN stac_collections AS c ON c.collection_id = p.collection_id
WHERE p.collection_id = :collection_id FOR UPDATE OF p;

-- name: next_items(collection_id, copied_to, size)
-- As text, which travels as it is: bytes would come as hexadecimal digits, twice as long.
SELECT item_id, convert_from(body, 'UTF8') AS body, west <= 180 AS has_place FROM stac_items
WHERE collection_id = :collection_id AND item_id > :copied_to ORDER BY item_id LIMIT :size;

-- name: has_changes(collection_id)
SELECT change_id FROM stac_changes WHERE collection_id = :collection_id LIMIT 1;

-- name: take_changes(collection_id, size)
-- A change that can be seen is committed, and so is its item, in this version or a later one. One
-- that got another id meanwhile has no body: it leaves the copy.
WITH taken AS (
  DELETE FROM stac_changes WHERE collection_id = :collection_id AND change_id IN (
    SELECT s.change_id FROM stac_changes AS s WHERE s.collection_id = :collection_id
    ORDER BY s.change_id LIMIT :size)
  RETURNING item_id)
SELECT t.item_id, convert_from(i.body, 'UTF8') AS body, i.west <= 180 AS has_place
FROM (SELECT DISTINCT item_id FROM taken) AS t
LEFT JOIN stac_items AS i ON i.collection_id = :collection_id AND i.item_id = t.item_id
ORDER BY t.item_id;

-- name: move_projection(collection_id, copied_to, collection_sha256, items)
UPDATE stac_projections SET copied_to = :copied_to, collection_sha256 = :collection_sha256,
  items = items + :items, projected_at = clock_timestamp()
WHERE collection_id = :collection_id;

-- name: use_pgstac()
-- For the rest of the transaction.
SELECT set_config('search_path', 'pgstac, ' || current_setting('search_path'), true);

-- name: queue_statistics()
-- Of partitions, in this transaction: to renew them takes a lock that keeps readers out, and a scan.
SELECT set_config('pgstac.use_queue', 'true', true);

-- name: partition_trunc(collection_id)
SELECT partition_trunc FROM pgstac.collections WHERE id = :collection_id;

-- name: count_items(collection_id, rows)
SELECT count(*) AS items FROM json_array_elements_text(:rows::json) AS t (item_id)
JOIN pgstac.items AS i ON i.collection = :collection_id AND i.id = t.item_id;

-- name: drop_items(collection_id, rows)
DELETE FROM pgstac.items AS i USING json_array_elements_text(:rows::json) AS t (item_id)
WHERE i.collection = :collection_id AND i.id = t.item_id;

-- name: run_queued()
SELECT pgstac.run_queued_query() AS has_run;

-- name: drop_collection(collection_id)
DELETE FROM pgstac.collections WHERE id = :collection_id;

-- name: forget_changes(collection_id)
DELETE FROM stac_changes WHERE collection_id = :collection_id;

-- name: restart_projection(collection_id)
UPDATE stac_projections SET copied_to = '', collection_sha256 = NULL, items = 0
WHERE collection_id = :collection_id;

-- name: forget_projection(collection_id)
DELETE FROM stac_projections WHERE collection_id = :collection_id;

-- name: projections()
SELECT collection_id FROM stac_projections ORDER BY collection_id;
