-- What a success writes beside the ledger.

-- name: insert_items(now; collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
INSERT INTO stac_items (collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east,
  north, start_at, end_at, datetime_at, reach, created_at, updated_at)
VALUES (:collection_id, :item_id, :wal_id, :attempt_no, CAST(:body AS BLOB), :sha256, :west, :south, :east,
  :north, :start_at, :end_at, :datetime_at, :reach, :now, :now);

-- name: update_items(now; collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
-- Only the owner replaces its item.
UPDATE stac_items SET attempt_no = :attempt_no, body = CAST(:body AS BLOB), sha256 = :sha256,
  west = :west, south = :south, east = :east, north = :north, start_at = :start_at,
  end_at = :end_at, datetime_at = :datetime_at, reach = :reach, updated_at = :now
WHERE collection_id = :collection_id AND item_id = :item_id AND wal_id = :wal_id;

-- name: note_replaced(now; former_collection_id, former_item_id, wal_id, attempt_no)
-- Before the id changes: a trigger asks for it.
INSERT INTO replaced_items (wal_id, attempt_no, collection_id, item_id, sha256, replaced_at)
SELECT i.wal_id, :attempt_no, i.collection_id, i.item_id, i.sha256, :now FROM stac_items AS i
WHERE i.collection_id = :former_collection_id AND i.item_id = :former_item_id AND i.wal_id = :wal_id;

-- name: rename_items(now; former_collection_id, former_item_id, collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at, end_at, datetime_at, reach)
-- One row under another id: at no moment has the unit two items, or none.
UPDATE stac_items SET collection_id = :collection_id, item_id = :item_id, attempt_no = :attempt_no,
  body = CAST(:body AS BLOB), sha256 = :sha256,
  west = :west, south = :south, east = :east, north = :north, start_at = :start_at,
  end_at = :end_at, datetime_at = :datetime_at, reach = :reach, updated_at = :now
WHERE collection_id = :former_collection_id AND item_id = :former_item_id AND wal_id = :wal_id;

-- name: insert_provenance(now; wal_id, activity_id, attempt_no, body, sha256, run)
-- A re-run of the same activity tells nothing new.
INSERT INTO provenance (wal_id, activity_id, attempt_no, body, sha256, run, created_at)
VALUES (:wal_id, :activity_id, :attempt_no, CAST(:body AS BLOB), :sha256, CAST(:run AS BLOB), :now)
ON CONFLICT DO NOTHING;

-- name: insert_events(now, pipeline_id; outbox_id, subject, event_name, dataset_id, event_version, idempotency_key, target, payload, care_label, governance_ref)
INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,
  idempotency_key, target, payload, care_label, governance_ref, created_at)
VALUES (:outbox_id, :subject, :pipeline_id, :event_name, :dataset_id, :event_version,
  :idempotency_key, :target, CAST(:payload AS BLOB), :care_label, :governance_ref, :now)
ON CONFLICT DO NOTHING;

-- name: insert_collections(now; collection_id, body, sha256)
INSERT INTO stac_collections (collection_id, body, sha256, created_at, updated_at)
VALUES (:collection_id, CAST(:body AS BLOB), :sha256, :now, :now) ON CONFLICT DO NOTHING;

-- name: update_collections(now; collection_id, body, sha256)
UPDATE stac_collections SET body = CAST(:body AS BLOB), sha256 = :sha256, updated_at = :now
WHERE collection_id = :collection_id AND sha256 <> :sha256;

-- name: insert_spans(; collection_id, span)
INSERT INTO stac_spans (collection_id, gathered, span) VALUES (:collection_id, 0, :span);

-- name: insert_gathered(collection_id, span)
INSERT INTO stac_spans (collection_id, gathered, span) VALUES (:collection_id, 1, :span);

-- name: delete_spans(; span_id)
DELETE FROM stac_spans WHERE span_id = :span_id;

-- name: waiting_spans()
-- The collections with notes, and whether any were gathered before.
SELECT c.collection_id, EXISTS (
  SELECT 1 FROM stac_spans AS g WHERE g.collection_id = c.collection_id AND g.gathered = 1) AS known
FROM stac_collections AS c WHERE c.collection_id IN (SELECT s.collection_id FROM stac_spans AS s WHERE s.gathered = 0)
ORDER BY c.collection_id;
