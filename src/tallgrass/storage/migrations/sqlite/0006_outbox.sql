-- Delivery of events. The event stays as it was written; how far it came stands beside it.

-- What allows an event of restricted data, which has none without.
ALTER TABLE outbox ADD COLUMN governance_ref TEXT
  CONSTRAINT restricted_is_allowed CHECK (governance_ref <> '' AND (governance_ref IS NOT NULL OR care_label <> 'restricted'));

-- `failed` with a due time is tried again, without one it is exhausted. Who claims a row moves its due
-- time to the end of the lease: a dispatcher that dies leaves it due. The attempt is the fencing token.
CREATE TABLE outbox_delivery (
  -- The order in which events were written: ids are given before that, so they tell none.
  written     INTEGER NOT NULL PRIMARY KEY,
  outbox_id   TEXT    NOT NULL UNIQUE REFERENCES outbox (outbox_id),
  target      TEXT    NOT NULL,
  dataset_id  TEXT    NOT NULL,
  status      TEXT    NOT NULL DEFAULT 'pending'
    CHECK (status = 'pending' OR status = 'dispatched' OR status = 'failed'),
  attempt     INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  -- Attempts before these do not count against the limit: a requeue gives a new budget.
  budget_from INTEGER NOT NULL DEFAULT 0 CHECK (budget_from >= 0 AND budget_from <= attempt),
  due_at      TEXT    CHECK (length(due_at) = 27),
  -- The due time as long as nobody holds the row; a claim leaves it, so that no index changes.
  ready_at    TEXT    CHECK (length(ready_at) = 27),
  claimed_by  TEXT,
  error_code  TEXT,
  last_error  TEXT    CHECK (length(last_error) <= 500),
  -- Of the last change of status.
  updated_at  TEXT    NOT NULL CHECK (length(updated_at) = 27),
  CHECK (status <> 'dispatched' OR (due_at IS NULL AND claimed_by IS NULL)),
  CHECK (status <> 'pending' OR due_at IS NOT NULL)
) STRICT;

CREATE INDEX outbox_delivery_due ON outbox_delivery (target, ready_at, outbox_id) WHERE ready_at IS NOT NULL;
CREATE INDEX outbox_delivery_open ON outbox_delivery (target, dataset_id, written, outbox_id)
  WHERE status <> 'dispatched';

-- One row each attempt that ended: the ledger and the telemetry of deliveries.
CREATE TABLE outbox_attempts (
  outbox_id   TEXT    NOT NULL REFERENCES outbox (outbox_id),
  attempt     INTEGER NOT NULL CHECK (attempt >= 1),
  dispatcher  TEXT    NOT NULL,
  -- `lost`: its dispatcher was not heard of again; `released`: given back unsent.
  outcome     TEXT    NOT NULL
    CHECK (outcome = 'dispatched' OR outcome = 'failed' OR outcome = 'lost' OR outcome = 'released'),
  -- Whether the receiver said that it had the event already.
  duplicate   INTEGER NOT NULL DEFAULT 0 CHECK (duplicate = 0 OR duplicate = 1),
  error_code  TEXT,
  error       TEXT    CHECK (length(error) <= 500),
  ended_at    TEXT    NOT NULL CHECK (length(ended_at) = 27),
  PRIMARY KEY (outbox_id, attempt)
) STRICT, WITHOUT ROWID;

-- Keys of events that callers published, for good: also when their rows are archived.
CREATE TABLE idempotency_keys (
  idempotency_key    TEXT NOT NULL PRIMARY KEY CHECK (trim(idempotency_key) <> ''),
  subject            TEXT NOT NULL,
  pipeline_id        TEXT NOT NULL,
  event_name         TEXT NOT NULL,
  dataset_id         TEXT NOT NULL,
  version            TEXT NOT NULL,
  payload_sha256     TEXT NOT NULL CHECK (length(payload_sha256) = 64),
  artifact_uri       TEXT,
  artifact_checksum  TEXT,
  care_label         TEXT NOT NULL,
  governance_ref     TEXT,
  created_at         TEXT NOT NULL CHECK (length(created_at) = 27)
) STRICT, WITHOUT ROWID;

-- What was published: an artifact in one version, with the key of the event that tells of it.
CREATE TABLE artifact_versions (
  artifact_uri       TEXT NOT NULL CHECK (artifact_uri <> ''),
  version            TEXT NOT NULL CHECK (version <> ''),
  dataset_id         TEXT NOT NULL,
  artifact_checksum  TEXT NOT NULL CHECK (artifact_checksum <> ''),
  idempotency_key    TEXT NOT NULL REFERENCES idempotency_keys (idempotency_key),
  created_at         TEXT NOT NULL CHECK (length(created_at) = 27),
  PRIMARY KEY (artifact_uri, version)
) STRICT, WITHOUT ROWID;

-- Publications that met their own key: one row each, so that duplicates can be counted.
CREATE TABLE outbox_duplicates (
  duplicate_id     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  idempotency_key  TEXT NOT NULL,
  pipeline_id      TEXT NOT NULL,
  event_name       TEXT NOT NULL,
  seen_at          TEXT NOT NULL CHECK (length(seen_at) = 27)
) STRICT;

-- Events that a consumer in this database has handled.
CREATE TABLE inbox (
  consumer    TEXT NOT NULL CHECK (consumer <> ''),
  event_key   TEXT NOT NULL CHECK (trim(event_key) <> ''),
  handled_at  TEXT NOT NULL CHECK (length(handled_at) = 27),
  PRIMARY KEY (consumer, event_key)
) STRICT, WITHOUT ROWID;

-- Whoever moves the due time of a row that nobody holds moves both.
CREATE TRIGGER outbox_delivery_ready AFTER UPDATE ON outbox_delivery
WHEN NEW.claimed_by IS NULL AND NEW.status <> 'dispatched' AND NEW.ready_at IS NOT NEW.due_at BEGIN
  UPDATE outbox_delivery SET ready_at = due_at WHERE written = NEW.written;
END;

INSERT INTO outbox_delivery (outbox_id, target, dataset_id, due_at, ready_at, updated_at)
SELECT outbox_id, target, dataset_id, created_at, created_at, created_at FROM outbox ORDER BY created_at, outbox_id;

-- An event is due from the moment that it is written, whoever writes it.
CREATE TRIGGER outbox_to_deliver AFTER INSERT ON outbox BEGIN
  INSERT INTO outbox_delivery (outbox_id, target, dataset_id, due_at, ready_at, updated_at)
  VALUES (NEW.outbox_id, NEW.target, NEW.dataset_id, NEW.created_at, NEW.created_at, NEW.created_at);
END;

-- INSERT OR REPLACE goes round the triggers below: inserts look for the row that they would replace.
-- Of `outbox` by its id alone: who finds a subject's key again may pass over it.
CREATE TRIGGER outbox_not_replaced BEFORE INSERT ON outbox WHEN EXISTS (SELECT 1 FROM outbox WHERE outbox_id = NEW.outbox_id)
BEGIN SELECT RAISE(ABORT, 'append_only: outbox'); END;
CREATE TRIGGER outbox_delivery_not_replaced BEFORE INSERT ON outbox_delivery WHEN EXISTS (SELECT 1 FROM outbox_delivery WHERE outbox_id = NEW.outbox_id)
BEGIN SELECT RAISE(ABORT, 'append_only: outbox_delivery'); END;
CREATE TRIGGER outbox_attempts_not_replaced BEFORE INSERT ON outbox_attempts WHEN EXISTS (SELECT 1 FROM outbox_attempts WHERE outbox_id = NEW.outbox_id AND attempt = NEW.attempt)
BEGIN SELECT RAISE(ABORT, 'append_only: outbox_attempts'); END;
CREATE TRIGGER idempotency_keys_not_replaced BEFORE INSERT ON idempotency_keys WHEN EXISTS (SELECT 1 FROM idempotency_keys WHERE idempotency_key = NEW.idempotency_key)
BEGIN SELECT RAISE(ABORT, 'append_only: idempotency_keys'); END;
CREATE TRIGGER artifact_versions_not_replaced BEFORE INSERT ON artifact_versions WHEN EXISTS (SELECT 1 FROM artifact_versions WHERE artifact_uri = NEW.artifact_uri AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'append_only: artifact_versions'); END;
CREATE TRIGGER outbox_duplicates_not_replaced BEFORE INSERT ON outbox_duplicates WHEN EXISTS (SELECT 1 FROM outbox_duplicates WHERE duplicate_id = NEW.duplicate_id)
BEGIN SELECT RAISE(ABORT, 'append_only: outbox_duplicates'); END;

CREATE TRIGGER outbox_delivery_whose BEFORE UPDATE ON outbox_delivery
WHEN NEW.outbox_id <> OLD.outbox_id OR NEW.target <> OLD.target OR NEW.dataset_id <> OLD.dataset_id
BEGIN SELECT RAISE(ABORT, 'append_only: the event of an outbox_delivery row'); END;
CREATE TRIGGER outbox_delivery_done BEFORE UPDATE ON outbox_delivery WHEN OLD.status = 'dispatched'
BEGIN SELECT RAISE(ABORT, 'append_only: a dispatched outbox_delivery row'); END;
CREATE TRIGGER outbox_delivery_counts BEFORE UPDATE ON outbox_delivery WHEN NEW.attempt < OLD.attempt
BEGIN SELECT RAISE(ABORT, 'append_only: the attempts of an outbox_delivery row'); END;
CREATE TRIGGER outbox_delivery_not_deleted BEFORE DELETE ON outbox_delivery BEGIN SELECT RAISE(ABORT, 'append_only: outbox_delivery'); END;
CREATE TRIGGER outbox_attempts_not_updated BEFORE UPDATE ON outbox_attempts BEGIN SELECT RAISE(ABORT, 'append_only: outbox_attempts'); END;
CREATE TRIGGER outbox_attempts_not_deleted BEFORE DELETE ON outbox_attempts BEGIN SELECT RAISE(ABORT, 'append_only: outbox_attempts'); END;
CREATE TRIGGER idempotency_keys_not_updated BEFORE UPDATE ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'append_only: idempotency_keys'); END;
CREATE TRIGGER idempotency_keys_not_deleted BEFORE DELETE ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'append_only: idempotency_keys'); END;
CREATE TRIGGER artifact_versions_not_updated BEFORE UPDATE ON artifact_versions BEGIN SELECT RAISE(ABORT, 'append_only: artifact_versions'); END;
CREATE TRIGGER artifact_versions_not_deleted BEFORE DELETE ON artifact_versions BEGIN SELECT RAISE(ABORT, 'append_only: artifact_versions'); END;
CREATE TRIGGER outbox_duplicates_not_updated BEFORE UPDATE ON outbox_duplicates BEGIN SELECT RAISE(ABORT, 'append_only: outbox_duplicates'); END;
CREATE TRIGGER outbox_duplicates_not_deleted BEFORE DELETE ON outbox_duplicates BEGIN SELECT RAISE(ABORT, 'append_only: outbox_duplicates'); END;
