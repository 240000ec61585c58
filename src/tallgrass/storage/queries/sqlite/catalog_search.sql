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
-- SQLite knows no LATERAL: the rows of a stretch are named by a list that is made for each.
WITH stretch AS MATERIALIZED (
  SELECT json_extract(value, '$.collection_id') AS collection_id, json_extract(value, '$.reach') AS reach,
    json_extract(value, '$.low') AS low, json_extract(value, '$.high') AS high,
    json_extract(value, '$.tie_at') AS tie_at, json_extract(value, '$.tie_id') AS tie_id
  FROM json_each(:rows))
SELECT i.collection_id, i.item_id, i.datetime_at
FROM stretch AS s CROSS JOIN stac_items AS i ON i.rowid IN (
  SELECT x.rowid FROM stac_items AS x
  WHERE x.collection_id = s.collection_id AND x.reach = s.reach
    AND x.datetime_at >= s.low AND x.datetime_at <= s.high

-- name: search_newest_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id < s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at DESC, x.item_id DESC LIMIT :size);

-- name: search_newest_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id > s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at DESC, x.item_id LIMIT :size);

-- name: search_oldest_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id > s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at, x.item_id LIMIT :size);

-- name: search_oldest_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
{items_of_stretches}
    AND (s.tie_at IS NULL OR x.datetime_at <> s.tie_at OR x.item_id < s.tie_id)
    AND {overlaps}
  ORDER BY x.datetime_at, x.item_id DESC LIMIT :size);

-- name: search_ids_up(rows, since, until, west, south, east, north, west2, east2, size)
SELECT i.collection_id, i.item_id, i.datetime_at
FROM json_each(:rows) AS s CROSS JOIN stac_items AS i ON i.rowid IN (
  SELECT x.rowid FROM stac_items AS x
  WHERE x.collection_id = json_extract(s.value, '$.collection_id') AND x.item_id > json_extract(s.value, '$.tie_id')
    AND {overlaps}
  ORDER BY x.item_id LIMIT :size);

-- name: search_ids_down(rows, since, until, west, south, east, north, west2, east2, size)
SELECT i.collection_id, i.item_id, i.datetime_at
FROM json_each(:rows) AS s CROSS JOIN stac_items AS i ON i.rowid IN (
  SELECT x.rowid FROM stac_items AS x
  WHERE x.collection_id = json_extract(s.value, '$.collection_id') AND x.item_id < json_extract(s.value, '$.tie_id')
    AND {overlaps}
  ORDER BY x.item_id DESC LIMIT :size);

-- name: search_named(rows, ids, since, until, west, south, east, north, west2, east2)
-- Items of the given ids in the given collections.
SELECT x.collection_id, x.item_id, x.datetime_at
FROM json_each(:rows) AS c CROSS JOIN json_each(:ids) AS d CROSS JOIN stac_items AS x
  ON x.collection_id = c.value AND x.item_id = d.value
WHERE {overlaps};

-- name: item_bodies(rows)
SELECT i.collection_id, i.item_id, i.body, x.expires_at FROM json_each(:rows) AS k CROSS JOIN stac_items AS i
  ON i.collection_id = json_extract(k.value, '$[0]') AND i.item_id = json_extract(k.value, '$[1]')
LEFT JOIN expired_items AS x ON x.collection_id = i.collection_id AND x.item_id = i.item_id;

-- name: item_units(rows)
SELECT i.collection_id, i.item_id, i.wal_id FROM json_each(:rows) AS k CROSS JOIN stac_items AS i
  ON i.collection_id = json_extract(k.value, '$[0]') AND i.item_id = json_extract(k.value, '$[1]');

-- name: provenance_bodies(rows)
-- Of each item, the document of the attempt that it stands for.
SELECT i.collection_id, i.item_id, p.body FROM json_each(:rows) AS k CROSS JOIN stac_items AS i
  ON i.collection_id = json_extract(k.value, '$[0]') AND i.item_id = json_extract(k.value, '$[1]')
JOIN wal_records AS r ON r.wal_id = i.wal_id
JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
JOIN provenance AS p ON p.wal_id = a.wal_id AND p.activity_id = a.prov_activity_id;

-- name: provenance_document(wal_id, activity_id)
SELECT body FROM provenance WHERE wal_id = :wal_id AND activity_id = :activity_id;

-- name: collection_values(collection_id, rows, most)
-- The values that items of a collection have for the given properties; null where there are too many.
WITH found AS (
  SELECT p.key AS name, json_quote(p.value) AS value
  FROM stac_items AS i CROSS JOIN json_each(CAST(i.body AS TEXT), '$.properties') AS p
  WHERE i.collection_id = :collection_id
    AND p.key IN (SELECT value FROM json_each(:rows)) AND p.type IN ('text', 'integer', 'real')
  GROUP BY p.key, p.value)
SELECT DISTINCT name, CASE WHEN number <= :most THEN value END AS value FROM (
  SELECT name, value, count(*) OVER (PARTITION BY name) AS number FROM found);
