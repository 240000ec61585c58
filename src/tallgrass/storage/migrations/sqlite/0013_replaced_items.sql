-- An item may get another id, when a policy begins to mask places or does so no longer. The id that
-- it had is noted first: whoever copied the item must know what to take away.

CREATE TABLE replaced_items (
  wal_id         TEXT    NOT NULL REFERENCES wal_records (wal_id),
  -- The attempt whose item took its place.
  attempt_no     INTEGER NOT NULL CHECK (attempt_no >= 2),
  collection_id  TEXT    NOT NULL CHECK (collection_id <> ''),
  item_id        TEXT    NOT NULL CHECK (item_id <> ''),
  sha256         TEXT    NOT NULL CHECK (length(sha256) = 64),
  replaced_at    TEXT    NOT NULL CHECK (length(replaced_at) = 27),
  PRIMARY KEY (wal_id, attempt_no)
) STRICT;
CREATE TRIGGER replaced_items_not_updated BEFORE UPDATE ON replaced_items BEGIN SELECT RAISE(ABORT, 'append_only: replaced_items'); END;
CREATE TRIGGER replaced_items_not_deleted BEFORE DELETE ON replaced_items BEGIN SELECT RAISE(ABORT, 'append_only: replaced_items'); END;

DROP TRIGGER stac_items_owner;
CREATE TRIGGER stac_items_owner BEFORE UPDATE ON stac_items
WHEN NEW.wal_id <> OLD.wal_id OR NEW.created_at <> OLD.created_at
BEGIN SELECT RAISE(ABORT, 'append_only: the owner of a stac_items row'); END;
CREATE TRIGGER stac_items_renamed BEFORE UPDATE ON stac_items
WHEN (NEW.item_id <> OLD.item_id OR NEW.collection_id <> OLD.collection_id)
  AND NOT EXISTS (SELECT 1 FROM replaced_items WHERE wal_id = OLD.wal_id AND attempt_no = NEW.attempt_no
    AND collection_id = OLD.collection_id AND item_id = OLD.item_id AND sha256 = OLD.sha256)
BEGIN SELECT RAISE(ABORT, 'append_only: the id of a stac_items row'); END;

-- The mark of an item goes with it. SQLite changes no constraint of a table that is there.
CREATE TEMP TABLE kept_marks AS SELECT * FROM expired_items;
DROP TABLE expired_items;
CREATE TABLE expired_items (
  collection_id  TEXT NOT NULL,
  item_id        TEXT NOT NULL,
  expires_at     TEXT NOT NULL CHECK (length(expires_at) = 27),
  reason         TEXT NOT NULL CHECK (reason = 'policy' OR reason = 'object_gone'),
  actor          TEXT NOT NULL CHECK (actor <> ''),
  marked_at      TEXT NOT NULL CHECK (length(marked_at) = 27),
  PRIMARY KEY (collection_id, item_id),
  FOREIGN KEY (collection_id, item_id) REFERENCES stac_items (collection_id, item_id) ON UPDATE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO expired_items (collection_id, item_id, expires_at, reason, actor, marked_at)
SELECT collection_id, item_id, expires_at, reason, actor, marked_at FROM kept_marks;
DROP TABLE kept_marks;
CREATE TRIGGER expired_items_kept BEFORE UPDATE ON expired_items
WHEN (NEW.collection_id <> OLD.collection_id OR NEW.item_id <> OLD.item_id)
  AND EXISTS (SELECT 1 FROM stac_items WHERE collection_id = OLD.collection_id AND item_id = OLD.item_id)
BEGIN SELECT RAISE(ABORT, 'append_only: expired_items'); END;
