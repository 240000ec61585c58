-- What a success writes beside the ledger: catalog item, provenance, outgoing event.
-- Bodies are bytes: what is hashed, compared and handed out is what is stored.

CREATE TABLE stac_collections (
  collection_id  text NOT NULL PRIMARY KEY CHECK (collection_id <> ''),
  body           bytea NOT NULL,
  sha256         text NOT NULL CHECK (length(sha256) = 64),
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL
);

-- An item belongs to one unit for good; a unit owns at most one item.
CREATE TABLE stac_items (
  collection_id  text NOT NULL CHECK (collection_id <> ''),
  item_id        text NOT NULL CHECK (item_id <> ''),
  wal_id         uuid NOT NULL UNIQUE REFERENCES wal_records (wal_id),
  attempt_no     integer NOT NULL CHECK (attempt_no >= 1),
  body           bytea NOT NULL,
  sha256         text NOT NULL CHECK (length(sha256) = 64),
  west           double precision NOT NULL,
  south          double precision NOT NULL,
  east           double precision NOT NULL,
  north          double precision NOT NULL CHECK (north >= south),
  start_at       timestamptz NOT NULL,
  end_at         timestamptz NOT NULL CHECK (end_at >= start_at),
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  PRIMARY KEY (collection_id, item_id)
);

-- One document for each activity: a unit, an object version, a code and a configuration.
CREATE TABLE provenance (
  wal_id       uuid NOT NULL REFERENCES wal_records (wal_id),
  activity_id  text NOT NULL CHECK (activity_id <> ''),
  attempt_no   integer NOT NULL CHECK (attempt_no >= 1),
  body         bytea NOT NULL,
  sha256       text NOT NULL CHECK (length(sha256) = 64),
  run          bytea NOT NULL,
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (wal_id, activity_id)
);

-- Events that are to leave, recorded with the state that they tell of. The key begins with the
-- subject, which grows with data time: random keys alone halve the speed of the commit.
CREATE TABLE outbox (
  outbox_id        uuid NOT NULL PRIMARY KEY,
  subject          text NOT NULL CHECK (subject <> ''),
  pipeline_id      text NOT NULL CHECK (pipeline_id <> ''),
  event_name       text NOT NULL CHECK (event_name <> ''),
  dataset_id       text NOT NULL CHECK (dataset_id <> ''),
  version          text NOT NULL CHECK (version <> ''),
  idempotency_key  text NOT NULL CHECK (trim(idempotency_key) <> ''),
  target           text NOT NULL CHECK (target <> ''),
  payload          bytea NOT NULL,
  care_label       text NOT NULL CHECK (care_label <> ''),
  created_at       timestamptz NOT NULL,
  UNIQUE (subject, idempotency_key, target)
);

CREATE TRIGGER stac_items_owner BEFORE UPDATE ON stac_items FOR EACH ROW
WHEN (NEW.wal_id <> OLD.wal_id OR NEW.item_id <> OLD.item_id OR NEW.collection_id <> OLD.collection_id
  OR NEW.created_at <> OLD.created_at)
EXECUTE FUNCTION tallgrass_refuse('append_only: the owner of a stac_items row');
CREATE TRIGGER stac_items_kept BEFORE DELETE ON stac_items FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: stac_items');
CREATE TRIGGER provenance_kept BEFORE UPDATE OR DELETE ON provenance FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: provenance');
CREATE TRIGGER outbox_kept BEFORE UPDATE OR DELETE ON outbox FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox');
CREATE TRIGGER stac_items_not_truncated BEFORE TRUNCATE ON stac_items
EXECUTE FUNCTION tallgrass_refuse('append_only: stac_items');
CREATE TRIGGER provenance_not_truncated BEFORE TRUNCATE ON provenance
EXECUTE FUNCTION tallgrass_refuse('append_only: provenance');
CREATE TRIGGER outbox_not_truncated BEFORE TRUNCATE ON outbox
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox');
