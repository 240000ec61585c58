-- What a success writes beside the ledger.

-- name: collection_names()
SELECT collection_id FROM stac_collections;

-- name: items_page(collection_id, item_id, size)
-- In order of collection and id, from behind the given one.
SELECT collection_id, item_id, wal_id, attempt_no, body, sha256, west, south, east, north, start_at,
  end_at, created_at, updated_at
FROM stac_items WHERE (collection_id, item_id) > (:collection_id, :item_id)
ORDER BY collection_id, item_id LIMIT :size;

-- name: projection_lag()
-- How far the copy in pgstac is behind; no collections where there is none. The join is written so that
-- SQLite begins with the copies, not with all items.
SELECT (SELECT count(*) FROM stac_projections) AS collections,
  (SELECT count(*) FROM stac_projections AS p CROSS JOIN stac_items AS i
   WHERE i.collection_id = p.collection_id AND i.item_id > p.copied_to) AS uncopied,
  (SELECT count(*) FROM stac_changes) AS changed,
  (SELECT min(changed_at) FROM stac_changes) AS oldest,
  (SELECT max(projected_at) FROM stac_projections) AS projected_at;

-- name: spans_of(collection_id)
SELECT span_id, gathered, span FROM stac_spans WHERE collection_id = :collection_id ORDER BY span_id;
