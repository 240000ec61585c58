-- What a success writes beside the ledger.

-- name: insert_items(now; collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
INSERT INTO stac_items (collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east,
  north, start_at, end_at, datetime_at, reach, created_at, updated_at)
SELECT x.collection_id, x.item_id, x.wal_id, x.attempt_no, convert_to(x.body, 'UTF8'), x.sha256, x.west, x.south, x.east,
  x.north, x.start_at, x.end_at, x.datetime_at, x.reach, :now, :now
FROM each_row AS x;

-- name: update_items(now; collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
-- Only the owner replaces its item.
UPDATE stac_items AS i SET attempt_no = x.attempt_no, body = convert_to(x.body, 'UTF8'), sha256 = x.sha256,
  west = x.west, south = x.south, east = x.east, north = x.north, start_at = x.start_at,
  end_at = x.end_at, datetime_at = x.datetime_at, reach = x.reach, updated_at = :now
FROM each_row AS x
WHERE i.collection_id = x.collection_id AND i.item_id = x.item_id
  AND CASE WHEN i.wal_id = x.wal_id THEN true ELSE false END;

-- name: note_replaced(now; former_collection_id, former_item_id, wal_id, attempt_no)
-- Before the id changes: a trigger asks for it.
INSERT INTO replaced_items (wal_id, attempt_no, collection_id, item_id, sha256, replaced_at)
SELECT i.wal_id, x.attempt_no, i.collection_id, i.item_id, i.sha256, :now
FROM each_row AS x JOIN stac_items AS i
  ON i.collection_id = x.former_collection_id AND i.item_id = x.former_item_id
WHERE i.wal_id = x.wal_id;

-- name: rename_items(now; former_collection_id, former_item_id, collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
-- One row under another id: at no moment has the unit two items, or none.
UPDATE stac_items AS i SET collection_id = x.collection_id, item_id = x.item_id, attempt_no = x.attempt_no,
  body = convert_to(x.body, 'UTF8'), sha256 = x.sha256,
  west = x.west, south = x.south, east = x.east, north = x.north, start_at = x.start_at,
  end_at = x.end_at, datetime_at = x.datetime_at, reach = x.reach, updated_at = :now
FROM each_row AS x
WHERE i.collection_id = x.former_collection_id AND i.item_id = x.former_item_id
  AND CASE WHEN i.wal_id = x.wal_id THEN true ELSE false END;

-- name: insert_provenance(now; wal_id, activity_id, attempt_no, body, sha256, run)
-- A re-run of the same activity tells nothing new.
INSERT INTO provenance (wal_id, activity_id, attempt_no, body, sha256, run, created_at)
SELECT x.wal_id, x.activity_id, x.attempt_no, convert_to(x.body, 'UTF8'), x.sha256, convert_to(x.run, 'UTF8'), :now
FROM each_row AS x
ON CONFLICT DO NOTHING;

-- name: insert_events(now, pipeline_id; outbox_id, subject, event_name, dataset_id, event_version, idempotency_key, target, payload, care_label, governance_ref)
INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,
  idempotency_key, target, payload, care_label, governance_ref, created_at)
SELECT x.outbox_id, x.subject, :pipeline_id, x.event_name, x.dataset_id, x.event_version,
  x.idempotency_key, x.target, convert_to(x.payload, 'UTF8'), x.care_label, x.governance_ref, :now
FROM each_row AS x
ON CONFLICT DO NOTHING;

-- name: insert_collections(now; collection_id, body, sha256)
INSERT INTO stac_collections (collection_id, body, sha256, created_at, updated_at)
SELECT x.collection_id, convert_to(x.body, 'UTF8'), x.sha256, :now, :now
FROM each_row AS x
ON CONFLICT DO NOTHING;

-- name: update_collections(now; collection_id, body, sha256)
UPDATE stac_collections AS c SET body = convert_to(x.body, 'UTF8'), sha256 = x.sha256, updated_at = :now
FROM each_row AS x WHERE c.collection_id = x.collection_id AND c.sha256 <> x.sha256;

-- name: lock_collections(rows)
-- One process at a time gathers what the items of a collection span.
SELECT collection_id FROM stac_collections
WHERE collection_id IN (SELECT value FROM json_array_elements_text(:rows::json) AS wanted (value))
ORDER BY collection_id FOR NO KEY UPDATE;

-- name: insert_spans(; collection_id, span)
INSERT INTO stac_spans (collection_id, gathered, span) SELECT x.collection_id, false, x.span FROM each_row AS x;

-- name: insert_gathered(collection_id, span)
INSERT INTO stac_spans (collection_id, gathered, span) VALUES (:collection_id, true, :span);

-- name: delete_spans(; span_id)
DELETE FROM stac_spans AS s USING each_row AS x WHERE s.span_id = x.span_id;

-- name: waiting_spans()
-- The collections with notes, and whether any were gathered before.
SELECT c.collection_id, EXISTS (
  SELECT FROM stac_spans AS g WHERE g.collection_id = c.collection_id AND g.gathered) AS known
FROM stac_collections AS c WHERE c.collection_id IN (SELECT s.collection_id FROM stac_spans AS s WHERE NOT s.gathered)
ORDER BY c.collection_id;
