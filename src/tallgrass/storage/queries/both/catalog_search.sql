-- Searching the catalog: one look into an index for each stretch of a collection, given as `rows`.
-- A box that crosses the antimeridian has its west east of its east. Where the place looked for crosses
-- it, the second pair of longitudes says so; else no box meets them.

-- name: item_collections()
-- The collections that have items: one index probe each.
WITH RECURSIVE found (collection_id) AS (
  SELECT min(collection_id) FROM stac_items
  UNION ALL
  SELECT (SELECT min(i.collection_id) FROM stac_items AS i WHERE i.collection_id > found.collection_id)
  FROM found WHERE found.collection_id IS NOT NULL)
SELECT collection_id FROM found WHERE collection_id IS NOT NULL;

-- name: units_by_item(first, last, size)
-- Units whose item's id lies in a range: one index range a collection.
WITH RECURSIVE found (collection_id) AS (
  SELECT min(collection_id) FROM stac_items
  UNION ALL
  SELECT (SELECT min(i.collection_id) FROM stac_items AS i WHERE i.collection_id > found.collection_id)
  FROM found WHERE found.collection_id IS NOT NULL)
SELECT x.wal_id FROM found CROSS JOIN stac_items AS x
WHERE x.collection_id = found.collection_id AND x.item_id >= :first AND x.item_id < :last
ORDER BY x.collection_id, x.item_id LIMIT :size;

-- name: provenance_of_unit(wal_id, size)
SELECT body, run FROM provenance WHERE wal_id = :wal_id ORDER BY attempt_no DESC LIMIT :size;

-- name: collection_bodies()
SELECT collection_id, body FROM stac_collections ORDER BY collection_id;

-- name: collection_body(collection_id)
SELECT body FROM stac_collections WHERE collection_id = :collection_id;

-- part: spanned
-- What items span. Those without a place, whose box lies outside the world, count for time alone.
count(*) AS items, min(x.start_at) AS start_at, max(x.end_at) AS end_at,
  min(CASE WHEN x.west > x.east THEN x.west END) AS crossing_west,
  max(CASE WHEN x.west > x.east THEN x.east END) AS crossing_east,
  min(CASE WHEN x.west <= x.east AND x.west <= 180 THEN x.west END) AS west,
  max(CASE WHEN x.west <= x.east AND x.west <= 180 THEN x.east END) AS east,
  min(CASE WHEN x.south <= 90 THEN x.south END) AS south, max(CASE WHEN x.north <= 90 THEN x.north END) AS north

-- name: item_extents(since, until, west, south, east, north, west2, east2)
-- Of each collection: what its items that match span.
SELECT x.collection_id, {spanned}
FROM stac_items AS x
WHERE {overlaps}
GROUP BY x.collection_id ORDER BY x.collection_id;

-- name: former_items(wal_id)
-- Ids that the item of a unit had and that no item has now.
SELECT DISTINCT f.collection_id, f.item_id FROM replaced_items AS f
WHERE f.wal_id = :wal_id AND NOT EXISTS (SELECT 1 FROM stac_items AS i
  WHERE i.collection_id = f.collection_id AND i.item_id = f.item_id)
ORDER BY f.collection_id, f.item_id;
-- name: collection_span(collection_id)
SELECT {spanned} FROM stac_items AS x WHERE x.collection_id = :collection_id;
