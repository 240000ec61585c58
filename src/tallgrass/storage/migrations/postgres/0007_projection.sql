-- The catalog's copy in pgstac, which stock servers read: how far it is, and what it has yet to take.

-- One row each collection that is copied. Items up to the id of `copied_to` were; null: all were, and
-- the changes since are in `stac_changes`.
CREATE TABLE stac_projections (
  collection_id      text COLLATE "C" NOT NULL PRIMARY KEY CHECK (collection_id <> ''),
  copied_to          text COLLATE "C" DEFAULT '',
  -- Of the collection's own document as it was copied last.
  collection_sha256  text,
  -- Items written so far, one again each time that it changed.
  items              bigint NOT NULL DEFAULT 0 CHECK (items >= 0),
  projected_at       timestamptz
);

-- Items that changed and wait to be copied. Who copies them deletes their rows in the same transaction:
-- a change that is committed late cannot be passed over, whatever its number.
CREATE TABLE stac_changes (
  change_id      bigint GENERATED ALWAYS AS IDENTITY,
  collection_id  text COLLATE "C" NOT NULL,
  item_id        text COLLATE "C" NOT NULL,
  changed_at     timestamptz NOT NULL,
  PRIMARY KEY (collection_id, change_id)
);

-- One statement for all items of one insert or update.
CREATE FUNCTION tallgrass_item_to_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO stac_changes (collection_id, item_id, changed_at)
  SELECT w.collection_id, w.item_id, w.updated_at
  FROM written AS w JOIN stac_projections AS p ON p.collection_id = w.collection_id
  ORDER BY w.collection_id, w.item_id;
  RETURN NULL;
END $$;
CREATE TRIGGER stac_items_added_to_project AFTER INSERT ON stac_items REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tallgrass_item_to_project();
CREATE TRIGGER stac_items_changed_to_project AFTER UPDATE ON stac_items REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tallgrass_item_to_project();

-- Where nothing is copied, ingest pays nothing for it: the first copy turns them on.
ALTER TABLE stac_items DISABLE TRIGGER stac_items_added_to_project;
ALTER TABLE stac_items DISABLE TRIGGER stac_items_changed_to_project;
