-- What a search of the catalog goes by, in one index for each collection in order of time.

-- The item's own `datetime`. The default is for the rows that are there already, which get theirs below.
ALTER TABLE stac_items ADD COLUMN datetime_at TEXT NOT NULL DEFAULT '1970-01-01T00:00:00.000000Z'
  CHECK (length(datetime_at) = 27);

-- How far its start and end lie from its `datetime` at most: whoever looks for a time range looks that
-- much further on both sides, and no further.
ALTER TABLE stac_items ADD COLUMN reach TEXT NOT NULL DEFAULT 'long'
  CHECK (reach = 'hour' OR reach = 'day' OR reach = 'long');

UPDATE stac_items SET datetime_at = json_extract(CAST(body AS TEXT), '$.properties.datetime');
UPDATE stac_items SET reach = CASE
  WHEN max(julianday(end_at) - julianday(datetime_at), julianday(datetime_at) - julianday(start_at)) * 86400 < 3599 THEN 'hour'
  WHEN max(julianday(end_at) - julianday(datetime_at), julianday(datetime_at) - julianday(start_at)) * 86400 < 86399 THEN 'day'
  ELSE 'long' END;

-- An item without a place has a box outside the world: no search for a place finds it.
UPDATE stac_items SET west = 999.0, south = 999.0, east = 999.0, north = 999.0
WHERE json_type(CAST(body AS TEXT), '$.geometry') = 'null';

CREATE INDEX stac_items_searched ON stac_items
  (collection_id, reach, datetime_at, item_id, start_at, end_at, west, south, east, north);
