-- What a success writes beside the ledger: catalog item, provenance, outgoing event.
-- Bodies are bytes: what is hashed, compared and handed out is what is stored.

CREATE TABLE stac_collections (
  collection_id  TEXT NOT NULL PRIMARY KEY CHECK (collection_id <> ''),
  body           BLOB NOT NULL,
  sha256         TEXT NOT NULL CHECK (length(sha256) = 64),
  created_at     TEXT NOT NULL CHECK (length(created_at) = 27),
  updated_at     TEXT NOT NULL CHECK (length(updated_at) = 27)
) STRICT;

-- An item belongs to one unit for good; a unit owns at most one item.
CREATE TABLE stac_items (
  collection_id  TEXT    NOT NULL CHECK (collection_id <> ''),
  item_id        TEXT    NOT NULL CHECK (item_id <> ''),
  wal_id         TEXT    NOT NULL UNIQUE REFERENCES wal_records (wal_id),
  attempt_no     INTEGER NOT NULL CHECK (attempt_no >= 1),
  body           BLOB    NOT NULL,
  sha256         TEXT    NOT NULL CHECK (length(sha256) = 64),
  west           REAL    NOT NULL,
  south          REAL    NOT NULL,
  east           REAL    NOT NULL,
  north          REAL    NOT NULL CHECK (north >= south),
  start_at       TEXT    NOT NULL CHECK (length(start_at) = 27),
  end_at         TEXT    NOT NULL CHECK (length(end_at) = 27 AND end_at >= start_at),
  created_at     TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_at     TEXT    NOT NULL CHECK (length(updated_at) = 27),
  PRIMARY KEY (collection_id, item_id)
) STRICT;

-- One document for each activity: a unit, an object version, a code and a configuration.
CREATE TABLE provenance (
  wal_id       TEXT    NOT NULL REFERENCES wal_records (wal_id),
  activity_id  TEXT    NOT NULL CHECK (activity_id <> ''),
  attempt_no   INTEGER NOT NULL CHECK (attempt_no >= 1),
  body         BLOB    NOT NULL,
  sha256       TEXT    NOT NULL CHECK (length(sha256) = 64),
  run          BLOB    NOT NULL,
  created_at   TEXT    NOT NULL CHECK (length(created_at) = 27),
  PRIMARY KEY (wal_id, activity_id)
) STRICT;

-- Events that are to leave, recorded with the state that they tell of. The key begins with the
-- subject, which grows with data time: random keys alone halve the speed of the commit.
CREATE TABLE outbox (
  outbox_id        TEXT NOT NULL PRIMARY KEY,
  subject          TEXT NOT NULL CHECK (subject <> ''),
  pipeline_id      TEXT NOT NULL CHECK (pipeline_id <> ''),
  event_name       TEXT NOT NULL CHECK (event_name <> ''),
  dataset_id       TEXT NOT NULL CHECK (dataset_id <> ''),
  version          TEXT NOT NULL CHECK (version <> ''),
  idempotency_key  TEXT NOT NULL CHECK (trim(idempotency_key) <> ''),
  target           TEXT NOT NULL CHECK (target <> ''),
  payload          BLOB NOT NULL,
  care_label       TEXT NOT NULL CHECK (care_label <> ''),
  created_at       TEXT NOT NULL CHECK (length(created_at) = 27),
  UNIQUE (subject, idempotency_key, target)
) STRICT;

CREATE TRIGGER stac_items_owner BEFORE UPDATE ON stac_items
WHEN NEW.wal_id <> OLD.wal_id OR NEW.item_id <> OLD.item_id OR NEW.collection_id <> OLD.collection_id
  OR NEW.created_at <> OLD.created_at
BEGIN SELECT RAISE(ABORT, 'append_only: the owner of a stac_items row'); END;
CREATE TRIGGER stac_items_not_deleted BEFORE DELETE ON stac_items BEGIN SELECT RAISE(ABORT, 'append_only: stac_items'); END;
CREATE TRIGGER provenance_not_updated BEFORE UPDATE ON provenance BEGIN SELECT RAISE(ABORT, 'append_only: provenance'); END;
CREATE TRIGGER provenance_not_deleted BEFORE DELETE ON provenance BEGIN SELECT RAISE(ABORT, 'append_only: provenance'); END;
CREATE TRIGGER outbox_not_updated BEFORE UPDATE ON outbox BEGIN SELECT RAISE(ABORT, 'append_only: outbox'); END;
CREATE TRIGGER outbox_not_deleted BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'append_only: outbox'); END;
