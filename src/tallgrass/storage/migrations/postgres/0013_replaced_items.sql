-- An item may get another id, when a policy begins to mask places or does so no longer. The id that
-- it had is noted first: whoever copied the item must know what to take away.

CREATE TABLE replaced_items (
  wal_id         uuid NOT NULL REFERENCES wal_records (wal_id),
  -- The attempt whose item took its place.
  attempt_no     integer NOT NULL CHECK (attempt_no >= 2),
  collection_id  text COLLATE "C" NOT NULL CHECK (collection_id <> ''),
  item_id        text COLLATE "C" NOT NULL CHECK (item_id <> ''),
  sha256         text NOT NULL CHECK (length(sha256) = 64),
  replaced_at    timestamptz NOT NULL,
  PRIMARY KEY (wal_id, attempt_no)
);
CREATE TRIGGER replaced_items_kept BEFORE UPDATE OR DELETE ON replaced_items FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: replaced_items');
CREATE TRIGGER replaced_items_not_truncated BEFORE TRUNCATE ON replaced_items
EXECUTE FUNCTION tallgrass_refuse('append_only: replaced_items');

DROP TRIGGER stac_items_owner ON stac_items;
CREATE TRIGGER stac_items_owner BEFORE UPDATE ON stac_items FOR EACH ROW
WHEN (NEW.wal_id <> OLD.wal_id OR NEW.created_at <> OLD.created_at)
EXECUTE FUNCTION tallgrass_refuse('append_only: the owner of a stac_items row');

CREATE FUNCTION tallgrass_require_noted_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM replaced_items WHERE wal_id = OLD.wal_id AND attempt_no = NEW.attempt_no
      AND collection_id = OLD.collection_id AND item_id = OLD.item_id AND sha256 = OLD.sha256) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: the id of a stac_items row';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER stac_items_renamed BEFORE UPDATE ON stac_items FOR EACH ROW
WHEN (NEW.item_id <> OLD.item_id OR NEW.collection_id <> OLD.collection_id)
EXECUTE FUNCTION tallgrass_require_noted_id();

-- The mark of an item goes with it.
ALTER TABLE expired_items DROP CONSTRAINT expired_items_collection_id_item_id_fkey,
  ADD CONSTRAINT expired_items_collection_id_item_id_fkey FOREIGN KEY (collection_id, item_id)
  REFERENCES stac_items (collection_id, item_id) ON UPDATE CASCADE;
DROP TRIGGER expired_items_kept ON expired_items;
CREATE FUNCTION tallgrass_require_moved_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM stac_items WHERE collection_id = OLD.collection_id AND item_id = OLD.item_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: expired_items';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER expired_items_kept BEFORE UPDATE ON expired_items FOR EACH ROW
WHEN (NEW.collection_id <> OLD.collection_id OR NEW.item_id <> OLD.item_id)
EXECUTE FUNCTION tallgrass_require_moved_item();

-- An id that is no longer there leaves the copy in pgstac too.
CREATE FUNCTION tallgrass_replaced_to_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO stac_changes (collection_id, item_id, changed_at)
  SELECT w.collection_id, w.item_id, w.replaced_at
  FROM written AS w JOIN stac_projections AS p ON p.collection_id = w.collection_id
  ORDER BY w.collection_id, w.item_id;
  RETURN NULL;
END $$;
CREATE TRIGGER replaced_items_to_project AFTER INSERT ON replaced_items REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tallgrass_replaced_to_project();
