-- What a search of the catalog goes by, in one index for each collection in order of time.

-- Ids in the order of their bytes, as on SQLite: pages and exports are the same on both.
DROP TRIGGER stac_items_owner ON stac_items;
ALTER TABLE stac_collections ALTER COLUMN collection_id TYPE text COLLATE "C";
ALTER TABLE stac_items ALTER COLUMN collection_id TYPE text COLLATE "C",
  ALTER COLUMN item_id TYPE text COLLATE "C";
CREATE TRIGGER stac_items_owner BEFORE UPDATE ON stac_items FOR EACH ROW
WHEN (NEW.wal_id <> OLD.wal_id OR NEW.item_id <> OLD.item_id OR NEW.collection_id <> OLD.collection_id
  OR NEW.created_at <> OLD.created_at)
EXECUTE FUNCTION tallgrass_refuse('append_only: the owner of a stac_items row');

-- The item's own `datetime`.
ALTER TABLE stac_items ADD COLUMN datetime_at timestamptz;

-- How far its start and end lie from its `datetime` at most: whoever looks for a time range looks that
-- much further on both sides, and no further.
ALTER TABLE stac_items ADD COLUMN reach text COLLATE "C"
  CHECK (reach = 'hour' OR reach = 'day' OR reach = 'long');

UPDATE stac_items SET datetime_at = (convert_from(body, 'UTF8')::json #>> '{properties,datetime}')::timestamptz;
UPDATE stac_items SET reach = CASE
  WHEN greatest(end_at - datetime_at, datetime_at - start_at) <= interval '1 hour' THEN 'hour'
  WHEN greatest(end_at - datetime_at, datetime_at - start_at) <= interval '1 day' THEN 'day'
  ELSE 'long' END;

-- An item without a place has a box outside the world: no search for a place finds it.
UPDATE stac_items SET west = 999.0, south = 999.0, east = 999.0, north = 999.0
WHERE convert_from(body, 'UTF8')::json ->> 'geometry' IS NULL;

ALTER TABLE stac_items ALTER COLUMN datetime_at SET NOT NULL, ALTER COLUMN reach SET NOT NULL;

CREATE INDEX stac_items_searched ON stac_items (collection_id, reach, datetime_at, item_id)
  INCLUDE (start_at, end_at, west, south, east, north);
