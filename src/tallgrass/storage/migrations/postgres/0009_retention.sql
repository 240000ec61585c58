-- Retention: what leaves the database for an archive, and guards that let nothing else leave.

-- A file that holds rows. It is recorded when it is whole, then read back (`verified_at`), and only
-- then do its rows leave, in batches, until all are gone (`removed_at`).
CREATE TABLE archives (
  archive_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind            text    NOT NULL CHECK (kind = 'attempts' OR kind = 'events' OR kind = 'audit'),
  format          text    NOT NULL CHECK (format = 'ndjson' OR format = 'parquet'),
  place           text    NOT NULL CHECK (place <> ''),
  name            text    NOT NULL CHECK (name <> ''),
  sha256          text    NOT NULL CHECK (length(sha256) = 64),
  bytes           bigint  NOT NULL CHECK (bytes > 0),
  row_count       bigint  NOT NULL CHECK (row_count > 0),
  -- Rows are older than this, and these are the first and the last by key and by time.
  older_than      timestamptz NOT NULL,
  first_key       text COLLATE "C" NOT NULL,
  last_key        text COLLATE "C" NOT NULL CHECK (last_key >= first_key),
  first_at        timestamptz NOT NULL,
  last_at         timestamptz NOT NULL CHECK (last_at >= first_at AND last_at < older_than),
  -- Of audit entries: their places in the chain, the link before the first and that of the last.
  first_position  bigint CHECK ((first_position IS NULL) = (kind <> 'audit')),
  last_position   bigint CHECK (last_position - first_position + 1 = row_count AND (last_position IS NULL) = (kind <> 'audit')),
  before_hash     text   CHECK (length(before_hash) = 64 AND (before_hash IS NULL) = (kind <> 'audit')),
  head_hash       text   CHECK (length(head_hash) = 64 AND (head_hash IS NULL) = (kind <> 'audit')),
  actor           text   NOT NULL CHECK (actor <> ''),
  recorded_at     timestamptz NOT NULL,
  verified_at     timestamptz,
  removed         bigint NOT NULL DEFAULT 0 CHECK (removed >= 0 AND removed <= row_count),
  removed_at      timestamptz,
  -- The file was not what was written: no row of it left.
  abandoned_at    timestamptz,
  CHECK (verified_at IS NOT NULL OR (removed = 0 AND removed_at IS NULL)),
  CHECK (abandoned_at IS NULL OR (removed = 0 AND removed_at IS NULL))
);
-- One archive of a kind is under way at a time.
CREATE UNIQUE INDEX archives_open ON archives (kind) WHERE removed_at IS NULL AND abandoned_at IS NULL;
-- Archives of the audit log follow one another: no entry is in two.
CREATE UNIQUE INDEX archives_of_audit ON archives (first_position) WHERE kind = 'audit' AND abandoned_at IS NULL;

-- Which rows an archive that is under way holds: attempts by unit and number, events by id and 0.
CREATE TABLE archive_rows (
  archive_id  bigint NOT NULL REFERENCES archives (archive_id),
  row_id      uuid NOT NULL,
  row_number  integer NOT NULL,
  PRIMARY KEY (archive_id, row_id, row_number)
);

-- Items whose object is no longer there, or shall be no longer: a mark beside them, for their bytes stay.
CREATE TABLE expired_items (
  collection_id  text NOT NULL,
  item_id        text NOT NULL,
  expires_at     timestamptz NOT NULL,
  reason         text NOT NULL CHECK (reason = 'policy' OR reason = 'object_gone'),
  actor          text NOT NULL CHECK (actor <> ''),
  marked_at      timestamptz NOT NULL,
  PRIMARY KEY (collection_id, item_id),
  FOREIGN KEY (collection_id, item_id) REFERENCES stac_items (collection_id, item_id)
);

-- An archive is recorded together with the entry of the audit log that tells of it.
CREATE FUNCTION tallgrass_require_audited_archive() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.verified_at IS NOT NULL OR NEW.removed <> 0 OR NEW.abandoned_at IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: archives';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'archive:' || NEW.sha256
      AND action = 'archive_record' AND actor = NEW.actor) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: archives';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER archives_inserted BEFORE INSERT ON archives FOR EACH ROW
EXECUTE FUNCTION tallgrass_require_audited_archive();
CREATE TRIGGER archives_updated BEFORE UPDATE ON archives FOR EACH ROW
WHEN ((NEW.archive_id, NEW.kind, NEW.format, NEW.place, NEW.name, NEW.sha256, NEW.bytes, NEW.row_count, NEW.older_than,
    NEW.first_key, NEW.last_key, NEW.first_at, NEW.last_at, NEW.first_position, NEW.last_position, NEW.before_hash,
    NEW.head_hash, NEW.actor, NEW.recorded_at)
  IS DISTINCT FROM (OLD.archive_id, OLD.kind, OLD.format, OLD.place, OLD.name, OLD.sha256, OLD.bytes, OLD.row_count, OLD.older_than,
    OLD.first_key, OLD.last_key, OLD.first_at, OLD.last_at, OLD.first_position, OLD.last_position, OLD.before_hash,
    OLD.head_hash, OLD.actor, OLD.recorded_at)
  OR OLD.removed_at IS NOT NULL OR OLD.abandoned_at IS NOT NULL OR NEW.removed < OLD.removed
  OR (OLD.verified_at IS NOT NULL AND NEW.verified_at IS DISTINCT FROM OLD.verified_at))
EXECUTE FUNCTION tallgrass_refuse('append_only: archives');
-- What may leave is what the file holds, neither more nor less.
CREATE FUNCTION tallgrass_require_listed_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.row_count <> (SELECT count(*) FROM archive_rows WHERE archive_id = NEW.archive_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: rows of an archive';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER archives_verified BEFORE UPDATE ON archives FOR EACH ROW
WHEN (OLD.verified_at IS NULL AND NEW.verified_at IS NOT NULL AND NEW.kind <> 'audit')
EXECUTE FUNCTION tallgrass_require_listed_rows();
CREATE TRIGGER archives_not_deleted BEFORE DELETE ON archives FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: archives');
CREATE TRIGGER archives_not_truncated BEFORE TRUNCATE ON archives
EXECUTE FUNCTION tallgrass_refuse('append_only: archives');
CREATE FUNCTION tallgrass_require_open_archive() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM listed AS x LEFT JOIN archives AS a ON a.archive_id = x.archive_id AND a.kind <> 'audit'
      AND a.verified_at IS NULL AND a.abandoned_at IS NULL WHERE a.archive_id IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: rows of an archive';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER archive_rows_inserted AFTER INSERT ON archive_rows REFERENCING NEW TABLE AS listed
FOR EACH STATEMENT EXECUTE FUNCTION tallgrass_require_open_archive();
CREATE TRIGGER archive_rows_not_updated BEFORE UPDATE ON archive_rows FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: archive_rows');

-- Whether an archive that was read back holds the row. Plans of the guards below are kept: sessions plan
-- each statement anew, and for every row that leaves that was most of the time.
CREATE FUNCTION tallgrass_is_archived(wanted text, wanted_id uuid, wanted_number integer) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM archives AS a JOIN archive_rows AS x
      ON x.archive_id = a.archive_id AND x.row_id = wanted_id AND x.row_number = wanted_number
    WHERE a.kind = wanted AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL)
$$;

-- An attempt leaves when an archive holds it, it is closed, and nobody needs it any more: it is neither
-- the last of its unit, nor the applied one, nor the maker of the item, nor the last that knows the
-- sequencer of the object.
CREATE FUNCTION tallgrass_let_attempt_leave() RETURNS trigger LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF OLD.status = 'pending' OR NOT tallgrass_is_archived('attempts', OLD.wal_id, OLD.attempt_no)
    OR EXISTS (SELECT 1 FROM wal_records AS r WHERE r.wal_id = OLD.wal_id
      AND (r.attempts = OLD.attempt_no OR r.applied_attempt = OLD.attempt_no))
    OR EXISTS (SELECT 1 FROM stac_items AS i WHERE i.wal_id = OLD.wal_id AND i.attempt_no = OLD.attempt_no)
    OR (OLD.object_sequencer IS NOT NULL AND NOT EXISTS (SELECT 1 FROM wal_attempts AS later
      WHERE later.wal_id = OLD.wal_id AND later.attempt_no > OLD.attempt_no AND later.object_sequencer IS NOT NULL)) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'illegal_transition: an attempt is never deleted';
  END IF;
  RETURN OLD;
END $$;
DROP TRIGGER wal_attempts_kept ON wal_attempts;
CREATE TRIGGER wal_attempts_kept BEFORE DELETE ON wal_attempts FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_attempt_leave();

-- An event leaves when an archive holds it and it is delivered: its attempts first, itself last.
CREATE FUNCTION tallgrass_let_event_leave() RETURNS trigger LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM outbox_delivery WHERE outbox_id = OLD.outbox_id
      AND (TG_TABLE_NAME = 'outbox' OR status <> 'dispatched'))
    OR NOT tallgrass_is_archived('events', OLD.outbox_id, 0) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0];
  END IF;
  RETURN OLD;
END $$;
DROP TRIGGER outbox_kept ON outbox;
CREATE TRIGGER outbox_kept BEFORE UPDATE ON outbox FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox');
CREATE TRIGGER outbox_not_deleted BEFORE DELETE ON outbox FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_event_leave('append_only: outbox');
DROP TRIGGER outbox_delivery_kept ON outbox_delivery;
CREATE TRIGGER outbox_delivery_kept BEFORE DELETE ON outbox_delivery FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_event_leave('append_only: outbox_delivery');
DROP TRIGGER outbox_attempts_kept ON outbox_attempts;
CREATE TRIGGER outbox_attempts_kept BEFORE UPDATE ON outbox_attempts FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_attempts');
CREATE TRIGGER outbox_attempts_not_deleted BEFORE DELETE ON outbox_attempts FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_event_leave('append_only: outbox_attempts');

-- Months of delivery attempts. Deleted rows leave holes; a partition that is empty leaves as a whole.
-- Whoever is in the way of these locks goes first: the next call tries again.
CREATE FUNCTION tallgrass_first_outbox_id(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
CREATE FUNCTION tallgrass_keep_partitions(today timestamptz) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
  first timestamptz;
  last timestamptz;
  part text;
  is_empty boolean;
  dropped integer := 0;
BEGIN
  FOR ahead IN 1..2 LOOP
    first := date_trunc('month', today) + make_interval(months => ahead);
    last := first + interval '1 month';
    part := 'outbox_attempts_' || to_char(first, 'YYYY_MM');
    IF to_regclass(part) IS NULL AND NOT EXISTS (SELECT 1 FROM outbox_attempts_default
        WHERE outbox_id >= tallgrass_first_outbox_id(first) AND outbox_id < tallgrass_first_outbox_id(last)) THEN
      EXECUTE format('CREATE TABLE %I PARTITION OF outbox_attempts FOR VALUES FROM (%L) TO (%L)',
        part, tallgrass_first_outbox_id(first), tallgrass_first_outbox_id(last));
      EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I EXECUTE FUNCTION tallgrass_refuse(%L)',
        part || '_not_truncated', part, 'append_only: outbox_attempts');
    END IF;
  END LOOP;
  FOR part IN SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'outbox_attempts'::regclass AND c.relname ~ '^outbox_attempts_[0-9]{4}_[0-9]{2}$'
      AND c.relname < 'outbox_attempts_' || to_char(today, 'YYYY_MM') ORDER BY c.relname
  LOOP
    EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I)', part) INTO is_empty;
    IF is_empty THEN
      -- In the order of those who write: the whole table, then its part.
      LOCK TABLE ONLY outbox_attempts IN ACCESS EXCLUSIVE MODE;
      EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
      EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I)', part) INTO is_empty;
    END IF;
    IF is_empty THEN
      EXECUTE format('ALTER TABLE outbox_attempts DETACH PARTITION %I', part);
      EXECUTE format('DROP TABLE %I', part);
      dropped := dropped + 1;
    END IF;
  END LOOP;
  RETURN dropped;
END $$;

-- An audit entry leaves when it is sealed and an archive holds its place in the chain, and its seal after
-- it; the last seal never, for the next one is chained to it.
CREATE FUNCTION tallgrass_let_entry_leave() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM audit_seals AS s
      JOIN archives AS a ON a.kind = 'audit' AND s.position BETWEEN a.first_position AND a.last_position
      WHERE s.entry_id = OLD.entry_id AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: audit_log';
  END IF;
  RETURN OLD;
END $$;
DROP TRIGGER audit_log_kept ON audit_log;
CREATE TRIGGER audit_log_kept BEFORE UPDATE ON audit_log FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_log');
CREATE TRIGGER audit_log_not_deleted BEFORE DELETE ON audit_log FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_entry_leave();
CREATE FUNCTION tallgrass_let_seal_leave() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM audit_log WHERE entry_id = OLD.entry_id)
    OR NOT EXISTS (SELECT 1 FROM audit_seals WHERE position > OLD.position)
    OR NOT EXISTS (SELECT 1 FROM archives AS a
      WHERE a.kind = 'audit' AND OLD.position BETWEEN a.first_position AND a.last_position
        AND a.removed_at IS NULL AND a.abandoned_at IS NULL AND a.verified_at IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'append_only: audit_seals';
  END IF;
  RETURN OLD;
END $$;
DROP TRIGGER audit_seals_kept ON audit_seals;
CREATE TRIGGER audit_seals_kept BEFORE UPDATE ON audit_seals FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_seals');
CREATE TRIGGER audit_seals_not_deleted BEFORE DELETE ON audit_seals FOR EACH ROW
EXECUTE FUNCTION tallgrass_let_seal_leave();

-- A mark stays; the time that it names may be corrected.
CREATE TRIGGER expired_items_kept BEFORE UPDATE ON expired_items FOR EACH ROW
WHEN (NEW.collection_id <> OLD.collection_id OR NEW.item_id <> OLD.item_id)
EXECUTE FUNCTION tallgrass_refuse('append_only: expired_items');
