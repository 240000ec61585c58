-- Searching the catalog: one look into an index for each stretch of a collection, given as `rows`.
-- A box that crosses the antimeridian has its west east of its east. Where the place looked for crosses
-- it, the second pair of longitudes says so; else no box meets them.

-- part: overlaps
-- Whether the item `x` and what is looked for have an instant and a place in common.
x.start_at <= :until AND x.end_at >= :since AND x.south <= :north AND x.north >= :south
  AND CASE WHEN x.west <= x.east
    THEN (x.west <= :east AND x.east >= :west) OR (x.west <= :east2 AND x.east >= :west2)
    ELSE x.west <= :east OR x.east >= :west OR x.west <= :east2 OR x.east >= :west2 END

-- part: items_of_stretches
SELECT s.collection_id, i.item_id, i.datetime_at
FROM json_to_recordset(:rows::json) AS s (collection_id text, reach text, low timestamptz, high timestamptz,
  tie_at timestamptz, tie_id text)
CROSS JOIN LATERAL (
  SELECT x.item_id, x.datetime_at FROM stac_items AS x
  WHERE x.collection_id = s.collection_id AND x.reach = s.reach
    AND x.datetime_at >= s.low AND x.datetime_at <= s.high

-- name: search_newest_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id < s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at DESC, x.item_id DESC LIMIT :size) AS i;

-- name: search_newest_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id > s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at DESC, x.item_id LIMIT :size) AS i;

-- name: search_oldest_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id > s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at, x.item_id LIMIT :size) AS i;

-- name: search_oldest_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id < s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at, x.item_id DESC LIMIT :size) AS i;

-- name: search_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
SELECT s.collection_id, i.item_id, i.datetime_at
FROM json_to_recordset(:rows::json) AS s (collection_id text, tie_id text)
CROSS JOIN LATERAL (
  SELECT x.item_id, x.datetime_at FROM stac_items AS x
  WHERE x.collection_id = s.collection_id AND x.item_id > s.tie_id
    AND {overlaps}
  ORDER BY x.item_id LIMIT :size) AS i;

-- name: search_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
SELECT s.collection_id, i.item_id, i.datetime_at
FROM json_to_recordset(:rows::json) AS s (collection_id text, tie_id text)
CROSS JOIN LATERAL (
  SELECT x.item_id, x.datetime_at FROM stac_items AS x
  WHERE x.collection_id = s.collection_id AND x.item_id < s.tie_id
    AND {overlaps}
  ORDER BY x.item_id DESC LIMIT :size) AS i;

-- name: search_named(rows, ids, since, until, west, south, east, north, west2, east2)
-- Items of the given ids in the given collections.
SELECT x.collection_id, x.item_id, x.datetime_at
FROM json_array_elements_text(:rows::json) AS c (collection_id)
CROSS JOIN json_array_elements_text(:ids::json) AS d (item_id)
JOIN stac_items AS x ON x.collection_id = c.collection_id AND x.item_id = d.item_id
WHERE {overlaps};

-- name: item_bodies(rows)
-- Marks are kept in the database's own order, items in that of bytes: said so, the marks' index is used.
SELECT i.collection_id, i.item_id, i.body, x.expires_at FROM json_array_elements(:rows::json) AS k (pair)
JOIN stac_items AS i ON i.collection_id = k.pair ->> 0 AND i.item_id = k.pair ->> 1
LEFT JOIN expired_items AS x
  ON x.collection_id = i.collection_id COLLATE "default" AND x.item_id = i.item_id COLLATE "default";

-- name: item_units(rows)
SELECT i.collection_id, i.item_id, i.wal_id FROM json_array_elements(:rows::json) AS k (pair)
JOIN stac_items AS i ON i.collection_id = k.pair ->> 0 AND i.item_id = k.pair ->> 1;

-- name: provenance_bodies(rows)
-- Of each item, the document of the attempt that it stands for.
SELECT i.collection_id, i.item_id, p.body FROM json_array_elements(:rows::json) AS k (pair)
JOIN stac_items AS i ON i.collection_id = k.pair ->> 0 AND i.item_id = k.pair ->> 1
JOIN wal_records AS r ON r.wal_id = i.wal_id
JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
JOIN provenance AS p ON p.wal_id = a.wal_id AND p.activity_id = a.prov_activity_id;

-- name: provenance_document(wal_id, activity_id)
SELECT body FROM provenance WHERE wal_id = :wal_id::uuid AND activity_id = :activity_id;

-- name: collection_values(collection_id, rows, most)
-- The values that items of a collection have for the given properties; null where there are too many.
WITH found AS (
  SELECT p.key AS name, p.value::text AS value
  FROM stac_items AS i CROSS JOIN LATERAL json_each(convert_from(i.body, 'UTF8')::json -> 'properties') AS p
  WHERE i.collection_id = :collection_id
    AND p.key IN (SELECT json_array_elements_text(:rows::json)) AND json_typeof(p.value) IN ('string', 'number')
  GROUP BY p.key, p.value::text)
SELECT DISTINCT name, CASE WHEN number <= :most THEN value END AS value FROM (
  SELECT name, value, count(*) OVER (PARTITION BY name) AS number FROM found) AS counted;
