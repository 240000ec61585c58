-- The catalog's copy in pgstac. Only PostgreSQL has one; here the tables stay empty, so that whoever
-- reads one database can read the other.

CREATE TABLE stac_projections (
  collection_id      TEXT NOT NULL PRIMARY KEY CHECK (collection_id <> ''),
  copied_to          TEXT DEFAULT '',
  collection_sha256  TEXT,
  items              INTEGER NOT NULL DEFAULT 0 CHECK (items >= 0),
  projected_at       TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE stac_changes (
  change_id      INTEGER NOT NULL,
  collection_id  TEXT NOT NULL,
  item_id        TEXT NOT NULL,
  changed_at     TEXT NOT NULL,
  PRIMARY KEY (collection_id, change_id)
) STRICT, WITHOUT ROWID;
