-- Delivery of events. The event stays as it was written; how far it came stands beside it.

-- What allows an event of restricted data, which has none without.
ALTER TABLE outbox ADD COLUMN governance_ref text
  CONSTRAINT restricted_is_allowed CHECK (governance_ref <> '' AND (governance_ref IS NOT NULL OR care_label <> 'restricted'));

-- `failed` with a due time is tried again, without one it is exhausted. Who claims a row moves its due
-- time to the end of the lease: a dispatcher that dies leaves it due. The attempt is the fencing token.
CREATE TABLE outbox_delivery (
  -- The transaction that wrote the event: ids are given before it commits, so they tell no order.
  written     xid8 NOT NULL DEFAULT pg_current_xact_id(),
  outbox_id   uuid NOT NULL PRIMARY KEY,
  target      text COLLATE "C" NOT NULL,
  dataset_id  text COLLATE "C" NOT NULL,
  status      text NOT NULL DEFAULT 'pending'
    CHECK (status = 'pending' OR status = 'dispatched' OR status = 'failed'),
  attempt     integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  -- Attempts before these do not count against the limit: a requeue gives a new budget.
  budget_from integer NOT NULL DEFAULT 0 CHECK (budget_from >= 0 AND budget_from <= attempt),
  due_at      timestamptz,
  -- The due time as long as nobody holds the row; a claim leaves it, so that no index changes.
  ready_at    timestamptz,
  claimed_by  uuid,
  error_code  text,
  last_error  text CHECK (length(last_error) <= 500),
  -- Of the last change of status.
  updated_at  timestamptz NOT NULL,
  CHECK (status <> 'dispatched' OR (due_at IS NULL AND claimed_by IS NULL)),
  CHECK (status <> 'pending' OR due_at IS NOT NULL)
-- Room for the claim beside each row: with it, and no index to change, a claim took two thirds.
) WITH (fillfactor = 45);

-- No two entries are equal: looking for equal ones took time.
CREATE INDEX outbox_delivery_due ON outbox_delivery (target, ready_at, outbox_id)
  WITH (deduplicate_items = off) WHERE ready_at IS NOT NULL;
CREATE INDEX outbox_delivery_open ON outbox_delivery (target, dataset_id, written, outbox_id)
  WITH (deduplicate_items = off) WHERE status <> 'dispatched';

-- Whoever moves the due time of a row that nobody holds moves both.
CREATE FUNCTION tallgrass_outbox_ready() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.ready_at := NEW.due_at;
  RETURN NEW;
END $$;
CREATE TRIGGER outbox_delivery_ready BEFORE INSERT OR UPDATE ON outbox_delivery FOR EACH ROW
WHEN (NEW.claimed_by IS NULL AND NEW.ready_at IS DISTINCT FROM NEW.due_at)
EXECUTE FUNCTION tallgrass_outbox_ready();

-- One row each attempt that ended: the ledger and the telemetry of deliveries. Ids begin with the time:
-- retention makes a partition for each month ahead, and drops one when the last of its rows has left.
CREATE TABLE outbox_attempts (
  outbox_id   uuid NOT NULL,
  attempt     integer NOT NULL CHECK (attempt >= 1),
  dispatcher  uuid NOT NULL,
  -- `lost`: its dispatcher was not heard of again; `released`: given back unsent.
  outcome     text NOT NULL
    CHECK (outcome = 'dispatched' OR outcome = 'failed' OR outcome = 'lost' OR outcome = 'released'),
  -- Whether the receiver said that it had the event already.
  duplicate   boolean NOT NULL DEFAULT false,
  error_code  text,
  error       text CHECK (length(error) <= 500),
  ended_at    timestamptz NOT NULL,
  PRIMARY KEY (outbox_id, attempt)
) PARTITION BY RANGE (outbox_id);
CREATE TABLE outbox_attempts_default PARTITION OF outbox_attempts DEFAULT;

-- Keys of events that callers published, for good: also when their rows are archived.
CREATE TABLE idempotency_keys (
  idempotency_key    text COLLATE "C" NOT NULL PRIMARY KEY CHECK (trim(idempotency_key) <> ''),
  subject            text NOT NULL,
  pipeline_id        text NOT NULL,
  event_name         text NOT NULL,
  dataset_id         text NOT NULL,
  version            text NOT NULL,
  payload_sha256     text NOT NULL CHECK (length(payload_sha256) = 64),
  artifact_uri       text,
  artifact_checksum  text,
  care_label         text NOT NULL,
  governance_ref     text,
  created_at         timestamptz NOT NULL
);

-- What was published: an artifact in one version, with the key of the event that tells of it.
CREATE TABLE artifact_versions (
  artifact_uri       text NOT NULL CHECK (artifact_uri <> ''),
  version            text NOT NULL CHECK (version <> ''),
  dataset_id         text NOT NULL,
  artifact_checksum  text NOT NULL CHECK (artifact_checksum <> ''),
  idempotency_key    text NOT NULL REFERENCES idempotency_keys (idempotency_key),
  created_at         timestamptz NOT NULL,
  PRIMARY KEY (artifact_uri, version)
);

-- Publications that met their own key: one row each, so that duplicates can be counted.
CREATE TABLE outbox_duplicates (
  duplicate_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  idempotency_key  text NOT NULL,
  pipeline_id      text NOT NULL,
  event_name       text NOT NULL,
  seen_at          timestamptz NOT NULL
);

-- Events that a consumer in this database has handled.
CREATE TABLE inbox (
  consumer    text COLLATE "C" NOT NULL CHECK (consumer <> ''),
  event_key   text COLLATE "C" NOT NULL CHECK (trim(event_key) <> ''),
  handled_at  timestamptz NOT NULL,
  PRIMARY KEY (consumer, event_key)
);

INSERT INTO outbox_delivery (outbox_id, target, dataset_id, due_at, ready_at, updated_at)
SELECT outbox_id, target, dataset_id, created_at, created_at, created_at FROM outbox;

-- An event is due from the moment that it is written, whoever writes it; one statement for all rows of
-- one insert, and one notification for all of a transaction.
CREATE FUNCTION tallgrass_outbox_to_deliver() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO outbox_delivery (outbox_id, target, dataset_id, due_at, ready_at, updated_at)
  SELECT outbox_id, target, dataset_id, created_at, created_at, created_at FROM written;
  IF FOUND THEN
    PERFORM pg_notify('tallgrass_outbox', '');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER outbox_to_deliver AFTER INSERT ON outbox REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION tallgrass_outbox_to_deliver();

CREATE TRIGGER outbox_delivery_whose BEFORE UPDATE ON outbox_delivery FOR EACH ROW
WHEN (NEW.outbox_id <> OLD.outbox_id OR NEW.target <> OLD.target OR NEW.dataset_id <> OLD.dataset_id)
EXECUTE FUNCTION tallgrass_refuse('append_only: the event of an outbox_delivery row');
CREATE TRIGGER outbox_delivery_done BEFORE UPDATE ON outbox_delivery FOR EACH ROW
WHEN (OLD.status = 'dispatched')
EXECUTE FUNCTION tallgrass_refuse('append_only: a dispatched outbox_delivery row');
CREATE TRIGGER outbox_delivery_counts BEFORE UPDATE ON outbox_delivery FOR EACH ROW
WHEN (NEW.attempt < OLD.attempt)
EXECUTE FUNCTION tallgrass_refuse('append_only: the attempts of an outbox_delivery row');
CREATE TRIGGER outbox_delivery_kept BEFORE DELETE ON outbox_delivery FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_delivery');
CREATE TRIGGER outbox_attempts_kept BEFORE UPDATE OR DELETE ON outbox_attempts FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_attempts');
CREATE TRIGGER idempotency_keys_kept BEFORE UPDATE OR DELETE ON idempotency_keys FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: idempotency_keys');
CREATE TRIGGER artifact_versions_kept BEFORE UPDATE OR DELETE ON artifact_versions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: artifact_versions');
CREATE TRIGGER outbox_duplicates_kept BEFORE UPDATE OR DELETE ON outbox_duplicates FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_duplicates');
CREATE TRIGGER outbox_delivery_not_truncated BEFORE TRUNCATE ON outbox_delivery
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_delivery');
CREATE TRIGGER outbox_attempts_not_truncated BEFORE TRUNCATE ON outbox_attempts
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_attempts');
CREATE TRIGGER outbox_attempts_default_not_truncated BEFORE TRUNCATE ON outbox_attempts_default
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_attempts');
CREATE TRIGGER idempotency_keys_not_truncated BEFORE TRUNCATE ON idempotency_keys
EXECUTE FUNCTION tallgrass_refuse('append_only: idempotency_keys');
CREATE TRIGGER artifact_versions_not_truncated BEFORE TRUNCATE ON artifact_versions
EXECUTE FUNCTION tallgrass_refuse('append_only: artifact_versions');
CREATE TRIGGER outbox_duplicates_not_truncated BEFORE TRUNCATE ON outbox_duplicates
EXECUTE FUNCTION tallgrass_refuse('append_only: outbox_duplicates');
