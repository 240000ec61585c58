-- Retention: what leaves the database for an archive, and guards that let nothing else leave.

-- A file that holds rows. It is recorded when it is whole, then read back (`verified_at`), and only
-- then do its rows leave, in batches, until all are gone (`removed_at`).
CREATE TABLE archives (
  archive_id      INTEGER PRIMARY KEY AUTOINCREMENT,
  kind            TEXT    NOT NULL CHECK (kind = 'attempts' OR kind = 'events' OR kind = 'audit'),
  format          TEXT    NOT NULL CHECK (format = 'ndjson' OR format = 'parquet'),
  place           TEXT    NOT NULL CHECK (place <> ''),
  name            TEXT    NOT NULL CHECK (name <> ''),
  sha256          TEXT    NOT NULL CHECK (length(sha256) = 64),
  bytes           INTEGER NOT NULL CHECK (bytes > 0),
  row_count       INTEGER NOT NULL CHECK (row_count > 0),
  -- Rows are older than this, and these are the first and the last by key and by time.
  older_than      TEXT    NOT NULL CHECK (length(older_than) = 27),
  first_key       TEXT    NOT NULL,
  last_key        TEXT    NOT NULL CHECK (last_key >= first_key),
  first_at        TEXT    NOT NULL CHECK (length(first_at) = 27),
  last_at         TEXT    NOT NULL CHECK (length(last_at) = 27 AND last_at >= first_at AND last_at < older_than),
  -- Of audit entries: their places in the chain, the link before the first and that of the last.
  first_position  INTEGER CHECK ((first_position IS NULL) = (kind <> 'audit')),
  last_position   INTEGER CHECK (last_position - first_position + 1 = row_count AND (last_position IS NULL) = (kind <> 'audit')),
  before_hash     TEXT    CHECK (length(before_hash) = 64 AND (before_hash IS NULL) = (kind <> 'audit')),
  head_hash       TEXT    CHECK (length(head_hash) = 64 AND (head_hash IS NULL) = (kind <> 'audit')),
  actor           TEXT    NOT NULL CHECK (actor <> ''),
  recorded_at     TEXT    NOT NULL CHECK (length(recorded_at) = 27),
  verified_at     TEXT    CHECK (length(verified_at) = 27),
  removed         INTEGER NOT NULL DEFAULT 0 CHECK (removed >= 0 AND removed <= row_count),
  removed_at      TEXT    CHECK (length(removed_at) = 27),
  -- The file was not what was written: no row of it left.
  abandoned_at    TEXT    CHECK (length(abandoned_at) = 27),
  CHECK (verified_at IS NOT NULL OR (removed = 0 AND removed_at IS NULL)),
  CHECK (abandoned_at IS NULL OR (removed = 0 AND removed_at IS NULL))
) STRICT;
-- One archive of a kind is under way at a time.
CREATE UNIQUE INDEX archives_open ON archives (kind) WHERE removed_at IS NULL AND abandoned_at IS NULL;
-- Archives of the audit log follow one another: no entry is in two.
CREATE UNIQUE INDEX archives_of_audit ON archives (first_position) WHERE kind = 'audit' AND abandoned_at IS NULL;

-- Which rows an archive that is under way holds: attempts by unit and number, events by id and 0.
CREATE TABLE archive_rows (
  archive_id  INTEGER NOT NULL REFERENCES archives (archive_id),
  row_id      TEXT    NOT NULL,
  row_number  INTEGER NOT NULL,
  PRIMARY KEY (archive_id, row_id, row_number)
) STRICT, WITHOUT ROWID;

-- Items whose object is no longer there, or shall be no longer: a mark beside them, for their bytes stay.
CREATE TABLE expired_items (
  collection_id  TEXT NOT NULL,
  item_id        TEXT NOT NULL,
  expires_at     TEXT NOT NULL CHECK (length(expires_at) = 27),
  reason         TEXT NOT NULL CHECK (reason = 'policy' OR reason = 'object_gone'),
  actor          TEXT NOT NULL CHECK (actor <> ''),
  marked_at      TEXT NOT NULL CHECK (length(marked_at) = 27),
  PRIMARY KEY (collection_id, item_id),
  FOREIGN KEY (collection_id, item_id) REFERENCES stac_items (collection_id, item_id)
) STRICT, WITHOUT ROWID;

-- An archive is recorded together with the entry of the audit log that tells of it.
CREATE TRIGGER archives_inserted BEFORE INSERT ON archives
BEGIN
  SELECT RAISE(ABORT, 'append_only: archives')
  WHERE NEW.verified_at IS NOT NULL OR NEW.removed <> 0 OR NEW.abandoned_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM archives WHERE archive_id = NEW.archive_id);
  SELECT RAISE(ABORT, 'unaudited: archives')
  WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'archive:' || NEW.sha256
    AND action = 'archive_record' AND actor = NEW.actor);
END;
CREATE TRIGGER archives_updated BEFORE UPDATE ON archives
BEGIN
  SELECT RAISE(ABORT, 'append_only: archives')
  WHERE (NEW.archive_id, NEW.kind, NEW.format, NEW.place, NEW.name, NEW.sha256, NEW.bytes, NEW.row_count, NEW.older_than,
      NEW.first_key, NEW.last_key, NEW.first_at, NEW.last_at, NEW.first_position, NEW.last_position, NEW.before_hash,
      NEW.head_hash, NEW.actor, NEW.recorded_at)
    IS NOT (OLD.archive_id, OLD.kind, OLD.format, OLD.place, OLD.name, OLD.sha256, OLD.bytes, OLD.row_count, OLD.older_than,
      OLD.first_key, OLD.last_key, OLD.first_at, OLD.last_at, OLD.first_position, OLD.last_position, OLD.before_hash,
      OLD.head_hash, OLD.actor, OLD.recorded_at)
    OR OLD.removed_at IS NOT NULL OR OLD.abandoned_at IS NOT NULL OR NEW.removed < OLD.removed
    OR (OLD.verified_at IS NOT NULL AND NEW.verified_at IS NOT OLD.verified_at);
  -- What may leave is what the file holds, neither more nor less.
  SELECT RAISE(ABORT, 'append_only: rows of an archive')
  WHERE OLD.verified_at IS NULL AND NEW.verified_at IS NOT NULL AND NEW.kind <> 'audit'
    AND NEW.row_count <> (SELECT count(*) FROM archive_rows WHERE archive_id = NEW.archive_id);
END;
CREATE TRIGGER archives_not_deleted BEFORE DELETE ON archives BEGIN SELECT RAISE(ABORT, 'append_only: archives'); END;
CREATE TRIGGER archive_rows_inserted BEFORE INSERT ON archive_rows
WHEN NOT EXISTS (SELECT 1 FROM archives WHERE archive_id = NEW.archive_id AND kind <> 'audit'
  AND verified_at IS NULL AND abandoned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'append_only: rows of an archive'); END;
CREATE TRIGGER archive_rows_not_updated BEFORE UPDATE ON archive_rows BEGIN SELECT RAISE(ABORT, 'append_only: archive_rows'); END;

-- An attempt leaves when an archive holds it, it is closed, and nobody needs it any more: it is neither
-- the last of its unit, nor the applied one, nor the maker of the item, nor the last that knows the
-- sequencer of the object.
DROP TRIGGER wal_attempts_kept;
CREATE TRIGGER wal_attempts_kept BEFORE DELETE ON wal_attempts
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: an attempt is never deleted')
  WHERE OLD.status = 'pending'
    OR NOT EXISTS (SELECT 1 FROM archives AS a
      JOIN archive_rows AS x ON x.archive_id = a.archive_id AND x.row_id = OLD.wal_id AND x.row_number = OLD.attempt_no
      WHERE a.kind = 'attempts' AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM wal_records AS r WHERE r.wal_id = OLD.wal_id
      AND (r.attempts = OLD.attempt_no OR r.applied_attempt = OLD.attempt_no))
    OR EXISTS (SELECT 1 FROM stac_items AS i WHERE i.wal_id = OLD.wal_id AND i.attempt_no = OLD.attempt_no)
    OR (OLD.object_sequencer IS NOT NULL AND NOT EXISTS (SELECT 1 FROM wal_attempts AS later
      WHERE later.wal_id = OLD.wal_id AND later.attempt_no > OLD.attempt_no AND later.object_sequencer IS NOT NULL));
END;

-- An event leaves when an archive holds it and it is delivered: its attempts first, itself last.
DROP TRIGGER outbox_not_deleted;
CREATE TRIGGER outbox_not_deleted BEFORE DELETE ON outbox
BEGIN
  SELECT RAISE(ABORT, 'append_only: outbox')
  WHERE EXISTS (SELECT 1 FROM outbox_delivery WHERE outbox_id = OLD.outbox_id)
    OR NOT EXISTS (SELECT 1 FROM archives AS a
      JOIN archive_rows AS x ON x.archive_id = a.archive_id AND x.row_id = OLD.outbox_id AND x.row_number = 0
      WHERE a.kind = 'events' AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL);
END;
DROP TRIGGER outbox_delivery_not_deleted;
CREATE TRIGGER outbox_delivery_not_deleted BEFORE DELETE ON outbox_delivery
BEGIN
  SELECT RAISE(ABORT, 'append_only: outbox_delivery')
  WHERE OLD.status <> 'dispatched' OR NOT EXISTS (SELECT 1 FROM archives AS a
    JOIN archive_rows AS x ON x.archive_id = a.archive_id AND x.row_id = OLD.outbox_id AND x.row_number = 0
    WHERE a.kind = 'events' AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL);
END;
DROP TRIGGER outbox_attempts_not_deleted;
CREATE TRIGGER outbox_attempts_not_deleted BEFORE DELETE ON outbox_attempts
BEGIN
  SELECT RAISE(ABORT, 'append_only: outbox_attempts')
  WHERE EXISTS (SELECT 1 FROM outbox_delivery WHERE outbox_id = OLD.outbox_id AND status <> 'dispatched')
    OR NOT EXISTS (SELECT 1 FROM archives AS a
      JOIN archive_rows AS x ON x.archive_id = a.archive_id AND x.row_id = OLD.outbox_id AND x.row_number = 0
      WHERE a.kind = 'events' AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL);
END;

-- An audit entry leaves when it is sealed and an archive holds its place in the chain, and its seal after
-- it; the last seal never, for the next one is chained to it.
DROP TRIGGER audit_log_not_deleted;
CREATE TRIGGER audit_log_not_deleted BEFORE DELETE ON audit_log
BEGIN
  SELECT RAISE(ABORT, 'append_only: audit_log')
  WHERE NOT EXISTS (SELECT 1 FROM audit_seals AS s
    JOIN archives AS a ON a.kind = 'audit' AND s.position BETWEEN a.first_position AND a.last_position
    WHERE s.entry_id = OLD.entry_id AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL);
END;
DROP TRIGGER audit_seals_not_deleted;
CREATE TRIGGER audit_seals_not_deleted BEFORE DELETE ON audit_seals
BEGIN
  SELECT RAISE(ABORT, 'append_only: audit_seals')
  WHERE EXISTS (SELECT 1 FROM audit_log WHERE entry_id = OLD.entry_id)
    OR NOT EXISTS (SELECT 1 FROM audit_seals WHERE position > OLD.position)
    OR NOT EXISTS (SELECT 1 FROM archives AS a
      WHERE a.kind = 'audit' AND OLD.position BETWEEN a.first_position AND a.last_position
        AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL);
END;

-- A mark stays; the time that it names may be corrected.
CREATE TRIGGER expired_items_kept BEFORE UPDATE ON expired_items
WHEN NEW.collection_id <> OLD.collection_id OR NEW.item_id <> OLD.item_id
BEGIN SELECT RAISE(ABORT, 'append_only: expired_items'); END;
