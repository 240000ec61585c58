-- The ledger on SQLite. Times are UTC text of fixed width, so text order is time order.
-- Lists of allowed words are spelt with OR: `IN (…)` in a CHECK or trigger builds a b-tree for
-- every row and made the ledger 2.5 times slower.

CREATE TABLE wal_records (
  wal_id              TEXT    NOT NULL PRIMARY KEY CHECK (length(wal_id) = 36),
  dataset             TEXT    NOT NULL CHECK (dataset <> ''),
  object_uri          TEXT    NOT NULL CHECK (object_uri <> ''),
  provider            TEXT    NOT NULL CHECK (provider <> ''),
  queue               TEXT    NOT NULL,
  event_time          TEXT    NOT NULL CHECK (length(event_time) = 27),
  time_range_start    TEXT    NOT NULL CHECK (length(time_range_start) = 27),
  time_range_end      TEXT    NOT NULL CHECK (length(time_range_end) = 27 AND time_range_end >= time_range_start),
  status              TEXT    NOT NULL CHECK (status = 'succeeded' OR status = 'in_progress' OR status = 'pending' OR status = 'failed' OR status = 'quarantined'),
  attempts            INTEGER NOT NULL CHECK (attempts >= 0),
  last_attempt_at     TEXT             CHECK (length(last_attempt_at) = 27),
  last_error_code     TEXT             CHECK (length(last_error_code) <= 64 AND last_error_code NOT GLOB '*[^a-z0-9_]*'),
  last_error_message  TEXT             CHECK (length(last_error_message) <= 500),
  integrity_status    TEXT    NOT NULL CHECK (integrity_status = 'ok' OR integrity_status = 'unknown' OR integrity_status = 'suspect' OR integrity_status = 'failed'),
  metadata_status     TEXT    NOT NULL CHECK (metadata_status = 'ok' OR metadata_status = 'unknown' OR metadata_status = 'suspect' OR metadata_status = 'failed'),
  stac_status         TEXT    NOT NULL CHECK (stac_status = 'created' OR stac_status = 'unknown' OR stac_status = 'updated' OR stac_status = 'no-op' OR stac_status = 'failed'),
  provenance_status   TEXT    NOT NULL CHECK (provenance_status = 'ok' OR provenance_status = 'unknown' OR provenance_status = 'partial' OR provenance_status = 'failed'),
  stac_item_id        TEXT,
  stac_collection_id  TEXT,
  stac_item_href      TEXT,
  ingest_run_id       TEXT    NOT NULL,
  worker_id           TEXT    NOT NULL,
  replay_reason       TEXT    NOT NULL,
  created_at          TEXT    NOT NULL CHECK (length(created_at) = 27),
  updated_at          TEXT    NOT NULL CHECK (length(updated_at) = 27),
  version             INTEGER NOT NULL CHECK (version >= 1),
  recorded_by         TEXT    NOT NULL,
  replay_run_id       TEXT,
  extensions          TEXT,
  due_at              TEXT             CHECK (length(due_at) = 27),
  retry_after         TEXT             CHECK (length(retry_after) = 27),
  rerun_intent        TEXT             CHECK (rerun_intent IS NULL OR rerun_intent = 'reingest' OR rerun_intent = 'repair' OR rerun_intent = 'backfill'),
  next_object         TEXT,
  budget_from         INTEGER NOT NULL CHECK (budget_from >= 0 AND budget_from <= attempts),
  lease_expiries      INTEGER NOT NULL CHECK (lease_expiries >= 0),
  applied_attempt     INTEGER          CHECK (applied_attempt >= 1 AND applied_attempt <= attempts),
  -- A success is what all four operators made of it, and it has its item.
  CONSTRAINT success_tuple CHECK (status <> 'succeeded' OR (
    (integrity_status = 'ok' OR integrity_status = 'suspect')
    AND (metadata_status = 'ok' OR metadata_status = 'suspect')
    AND (stac_status = 'created' OR stac_status = 'updated' OR stac_status = 'no-op')
    AND (provenance_status = 'ok' OR provenance_status = 'partial')
    AND stac_item_id IS NOT NULL AND stac_collection_id IS NOT NULL
    AND applied_attempt IS NOT NULL)),
  CONSTRAINT failure_has_code CHECK (last_error_code IS NOT NULL OR (status <> 'failed' AND status <> 'quarantined')),
  CONSTRAINT only_successes_are_run_again CHECK (rerun_intent IS NULL OR status = 'succeeded')
) STRICT;

CREATE UNIQUE INDEX wal_records_object_uri ON wal_records (object_uri);
CREATE INDEX wal_records_by_dataset ON wal_records (dataset, status, wal_id);
CREATE INDEX wal_records_due ON wal_records (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX wal_records_stale ON wal_records (wal_id) WHERE status = 'succeeded' AND last_error_code IS NOT NULL;

CREATE TABLE wal_attempts (
  wal_id              TEXT    NOT NULL REFERENCES wal_records (wal_id),
  attempt_no          INTEGER NOT NULL CHECK (attempt_no >= 1),
  status              TEXT    NOT NULL CHECK (status = 'applied' OR status = 'pending' OR status = 'failed' OR status = 'rolled_back'),
  intent              TEXT    NOT NULL CHECK (intent = 'ingest' OR intent = 'reingest' OR intent = 'repair' OR intent = 'backfill'),
  queue               TEXT    NOT NULL,
  event_time          TEXT    NOT NULL CHECK (length(event_time) = 27),
  sns_message_id      TEXT,
  sqs_message_id      TEXT,
  object_etag         TEXT,
  object_size         INTEGER          CHECK (object_size >= 0),
  object_sequencer    TEXT,
  object_version_id   TEXT,
  read_etag           TEXT,
  evidence            BLOB             CHECK (length(evidence) <= 8192),
  code_version        TEXT    NOT NULL,
  config_version      TEXT    NOT NULL,
  replay_run_id       TEXT,
  ingest_run_id       TEXT    NOT NULL,
  worker_id           TEXT    NOT NULL,
  worker_incarnation  TEXT    NOT NULL,
  claim_id            TEXT    NOT NULL,
  claimed_at          TEXT    NOT NULL CHECK (length(claimed_at) = 27),
  claimed_from        TEXT    NOT NULL CHECK (claimed_from = 'pending' OR claimed_from = 'succeeded'),
  claimed_version     INTEGER NOT NULL CHECK (claimed_version >= 2),
  commit_id           TEXT,
  closed_at           TEXT             CHECK (length(closed_at) = 27),
  closed_version      INTEGER          CHECK (closed_version > claimed_version),
  error_code          TEXT             CHECK (length(error_code) <= 64 AND error_code NOT GLOB '*[^a-z0-9_]*'),
  error_message       TEXT             CHECK (length(error_message) <= 500),
  integrity_status    TEXT    NOT NULL CHECK (integrity_status = 'ok' OR integrity_status = 'unknown' OR integrity_status = 'suspect' OR integrity_status = 'failed'),
  metadata_status     TEXT    NOT NULL CHECK (metadata_status = 'ok' OR metadata_status = 'unknown' OR metadata_status = 'suspect' OR metadata_status = 'failed'),
  stac_status         TEXT    NOT NULL CHECK (stac_status = 'created' OR stac_status = 'unknown' OR stac_status = 'updated' OR stac_status = 'no-op' OR stac_status = 'failed'),
  provenance_status   TEXT    NOT NULL CHECK (provenance_status = 'ok' OR provenance_status = 'unknown' OR provenance_status = 'partial' OR provenance_status = 'failed'),
  item_sha256         TEXT,
  provenance_sha256   TEXT,
  prov_activity_id    TEXT,
  openlineage_run_id  TEXT,
  PRIMARY KEY (wal_id, attempt_no),
  CONSTRAINT closed_is_complete CHECK ((status = 'pending') = (closed_at IS NULL)
    AND (status = 'pending') = (commit_id IS NULL) AND (status = 'pending') = (closed_version IS NULL)),
  CONSTRAINT failure_has_code CHECK ((error_code IS NULL) = (status = 'pending' OR status = 'applied'))
) STRICT;

-- The lock: a unit has at most one open attempt. The attempt number is the fencing token.
CREATE UNIQUE INDEX wal_attempts_open ON wal_attempts (wal_id) WHERE status = 'pending';

-- A lease is one row a process, not one row a unit.
CREATE TABLE workers (
  incarnation  TEXT NOT NULL PRIMARY KEY,
  worker_id    TEXT NOT NULL,
  started_at   TEXT NOT NULL CHECK (length(started_at) = 27),
  expires_at   TEXT NOT NULL CHECK (length(expires_at) = 27),
  fenced_at    TEXT          CHECK (length(fenced_at) = 27),
  stopped_at   TEXT          CHECK (length(stopped_at) = 27)
) STRICT;
CREATE INDEX workers_leased ON workers (expires_at) WHERE fenced_at IS NULL AND stopped_at IS NULL;

-- Edges that no attempt tells: retries, recoveries, hand-backs, replays, quarantines.
CREATE TABLE wal_transitions (
  transition_id  INTEGER PRIMARY KEY AUTOINCREMENT,
  wal_id         TEXT    NOT NULL REFERENCES wal_records (wal_id),
  occurred_at    TEXT    NOT NULL CHECK (length(occurred_at) = 27),
  kind           TEXT    NOT NULL CHECK (kind = 'retry' OR kind = 'park' OR kind = 'recovery' OR kind = 'hand_back' OR kind = 'not_yet' OR kind = 'replay' OR kind = 'quarantine'),
  from_status    TEXT    NOT NULL,
  to_status      TEXT    NOT NULL,
  from_version   INTEGER NOT NULL,
  to_version     INTEGER NOT NULL CHECK (to_version = from_version + 1),
  actor          TEXT    NOT NULL CHECK (actor <> ''),
  reason         TEXT    NOT NULL CHECK (reason <> ''),
  replay_run_id  TEXT,
  approval_ref   TEXT,
  UNIQUE (wal_id, to_version)
) STRICT;

CREATE TABLE wal_annotations (
  annotation_id  INTEGER PRIMARY KEY AUTOINCREMENT,
  wal_id         TEXT    NOT NULL,
  attempt_no     INTEGER NOT NULL,
  noted_at       TEXT    NOT NULL CHECK (length(noted_at) = 27),
  actor          TEXT    NOT NULL CHECK (actor <> ''),
  kind           TEXT    NOT NULL CHECK (kind <> ''),
  note           TEXT    NOT NULL,
  FOREIGN KEY (wal_id, attempt_no) REFERENCES wal_attempts (wal_id, attempt_no)
) STRICT;
CREATE INDEX wal_annotations_by_attempt ON wal_annotations (wal_id, attempt_no);

-- Custom replay reasons, each with the approval that allows it.
CREATE TABLE replay_reasons (
  code           TEXT NOT NULL PRIMARY KEY,
  description    TEXT NOT NULL,
  approval_ref   TEXT NOT NULL CHECK (trim(approval_ref) <> ''),
  registered_at  TEXT NOT NULL CHECK (length(registered_at) = 27)
) STRICT;

-- An import brings records that are past pending. While it runs it points at a gate that does not
-- exist; the deferred reference lets no transaction commit with an import that is still open.
CREATE TABLE wal_import_gates (
  gate  INTEGER NOT NULL PRIMARY KEY CHECK (gate < 0 AND gate > 0)
) STRICT;
CREATE TABLE wal_imports (
  import_id    TEXT NOT NULL PRIMARY KEY,
  actor        TEXT NOT NULL CHECK (actor <> ''),
  source       TEXT NOT NULL,
  sha256       TEXT NOT NULL,
  started_at   TEXT NOT NULL CHECK (length(started_at) = 27),
  finished_at  TEXT          CHECK (length(finished_at) = 27),
  open_gate    INTEGER REFERENCES wal_import_gates (gate) DEFERRABLE INITIALLY DEFERRED,
  CHECK ((open_gate IS NULL) = (finished_at IS NOT NULL))
) STRICT;

CREATE TABLE kill_switches (
  scope       TEXT    NOT NULL CHECK (scope = 'ingest' OR scope = 'replay' OR scope = 'dispatch' OR scope = 'nodes'),
  dataset     TEXT    NOT NULL CHECK (dataset <> ''),
  is_on       INTEGER NOT NULL CHECK (is_on = 0 OR is_on = 1),
  actor       TEXT    NOT NULL CHECK (actor <> ''),
  reason      TEXT    NOT NULL CHECK (reason <> ''),
  changed_at  TEXT    NOT NULL CHECK (length(changed_at) = 27),
  PRIMARY KEY (scope, dataset)
) STRICT;

-- Who did what. Entries are chained by the sealer once they are committed.
CREATE TABLE audit_log (
  entry_id      INTEGER PRIMARY KEY AUTOINCREMENT,
  occurred_at   TEXT NOT NULL CHECK (length(occurred_at) = 27),
  actor         TEXT NOT NULL CHECK (actor <> ''),
  action        TEXT NOT NULL CHECK (action <> ''),
  subject       TEXT NOT NULL,
  reason        TEXT NOT NULL,
  approval_ref  TEXT,
  detail        TEXT NOT NULL
) STRICT;
CREATE TABLE audit_seals (
  position     INTEGER NOT NULL PRIMARY KEY CHECK (position >= 1),
  entry_id     INTEGER NOT NULL UNIQUE,
  entry_hash   TEXT    NOT NULL CHECK (length(entry_hash) = 64),
  chain_hash   TEXT    NOT NULL CHECK (length(chain_hash) = 64),
  sealed_at    TEXT    NOT NULL CHECK (length(sealed_at) = 27)
) STRICT;

-- Messages that no unit could be made of, kept before they leave the queue.
CREATE TABLE poison_messages (
  poison_id      INTEGER PRIMARY KEY AUTOINCREMENT,
  queue          TEXT    NOT NULL,
  body_sha256    TEXT    NOT NULL CHECK (length(body_sha256) = 64),
  body           BLOB    NOT NULL CHECK (length(body) <= 262144),
  body_bytes     INTEGER NOT NULL CHECK (body_bytes >= 0),
  message_id     TEXT,
  error_code     TEXT    NOT NULL,
  error_message  TEXT    NOT NULL CHECK (length(error_message) <= 500),
  times_seen     INTEGER NOT NULL CHECK (times_seen >= 1),
  first_seen_at  TEXT    NOT NULL CHECK (length(first_seen_at) = 27),
  last_seen_at   TEXT    NOT NULL CHECK (length(last_seen_at) = 27),
  UNIQUE (queue, body_sha256)
) STRICT;

-- What happened to a unit, one row an edge, in order of version.
CREATE VIEW wal_history AS
  SELECT wal_id, 1 AS version, created_at AS occurred_at, 'recorded' AS kind, NULL AS from_status,
    'pending' AS to_status, NULL AS attempt_no, recorded_by AS actor, NULL AS reason,
    NULL AS replay_run_id, NULL AS approval_ref
  FROM wal_records
  UNION ALL
  SELECT wal_id, claimed_version, claimed_at, 'claimed', claimed_from,
    CASE claimed_from WHEN 'pending' THEN 'in_progress' ELSE claimed_from END, attempt_no,
    worker_id, intent, replay_run_id, NULL
  FROM wal_attempts
  UNION ALL
  SELECT wal_id, closed_version, closed_at, status,
    CASE claimed_from WHEN 'pending' THEN 'in_progress' ELSE claimed_from END,
    CASE WHEN claimed_from = 'succeeded' OR status = 'applied' THEN 'succeeded' ELSE 'failed' END,
    attempt_no, worker_id, error_code, replay_run_id, NULL
  FROM wal_attempts WHERE closed_version IS NOT NULL
  UNION ALL
  SELECT wal_id, to_version, occurred_at, kind, from_status, to_status, NULL, actor, reason,
    replay_run_id, approval_ref
  FROM wal_transitions;

-- Guards. They hold against raw SQL too. One trigger a table and verb: each further one costs every
-- row a microsecond, whether its condition holds or not. INSERT OR REPLACE would go round UPDATE and
-- DELETE triggers, so inserts look for the row that they would replace, by every unique key it has
-- (rowid is one: -1 in NEW where none is given).

CREATE TRIGGER wal_records_inserted BEFORE INSERT ON wal_records
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: a record is created pending, version 1, without attempts')
  WHERE (NEW.status <> 'pending' OR NEW.version <> 1 OR NEW.attempts <> 0 OR NEW.created_at <> NEW.updated_at)
    AND NOT EXISTS (SELECT 1 FROM wal_imports WHERE open_gate IS NOT NULL);
  SELECT RAISE(ABORT, 'illegal_transition: a record is never replaced')
  WHERE EXISTS (SELECT 1 FROM wal_records WHERE wal_id = NEW.wal_id)
    OR EXISTS (SELECT 1 FROM wal_records WHERE object_uri = NEW.object_uri)
    OR EXISTS (SELECT 1 FROM wal_records WHERE rowid = NEW.rowid);
END;

CREATE TRIGGER wal_records_updated BEFORE UPDATE ON wal_records
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: not one of the seven edges')
  WHERE OLD.status <> NEW.status AND NOT (
    (OLD.status = 'pending' AND NEW.status = 'in_progress' AND NEW.attempts = OLD.attempts + 1)
    OR (OLD.status = 'in_progress' AND NEW.status = 'succeeded')
    OR (OLD.status = 'in_progress' AND NEW.status = 'failed')
    OR (OLD.status = 'failed' AND NEW.status = 'pending')
    OR (OLD.status = 'pending' AND NEW.status = 'quarantined')
    OR (OLD.status = 'failed' AND NEW.status = 'quarantined'));
  SELECT RAISE(ABORT, 'version_conflict: each write adds one to version and leaves identity as it is')
  WHERE NEW.version <> OLD.version + 1 OR NEW.wal_id <> OLD.wal_id OR NEW.object_uri <> OLD.object_uri
    OR NEW.time_range_start <> OLD.time_range_start OR NEW.created_at <> OLD.created_at
    OR NEW.attempts < OLD.attempts OR NEW.attempts > OLD.attempts + 1;
  SELECT RAISE(ABORT, 'unknown_replay_reason: neither listed nor registered')
  WHERE NEW.replay_reason <> OLD.replay_reason AND NEW.replay_reason <> 'none' AND NEW.replay_reason <> 'dlq-drain'
    AND NEW.replay_reason <> 'incident' AND NEW.replay_reason <> 'backfill' AND NEW.replay_reason <> 'test'
    AND NOT EXISTS (SELECT 1 FROM replay_reasons WHERE code = NEW.replay_reason);
END;

CREATE TRIGGER wal_records_kept BEFORE DELETE ON wal_records
BEGIN SELECT RAISE(ABORT, 'illegal_transition: a record is never deleted'); END;

CREATE TRIGGER wal_attempts_inserted BEFORE INSERT ON wal_attempts
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: an attempt is opened pending')
  WHERE NEW.status <> 'pending' AND NOT EXISTS (SELECT 1 FROM wal_imports WHERE open_gate IS NOT NULL);
  SELECT RAISE(ABORT, 'illegal_transition: an attempt is never replaced')
  WHERE EXISTS (SELECT 1 FROM wal_attempts WHERE wal_id = NEW.wal_id AND attempt_no = NEW.attempt_no)
    OR (NEW.status = 'pending'
      AND EXISTS (SELECT 1 FROM wal_attempts WHERE wal_id = NEW.wal_id AND status = 'pending'))
    OR EXISTS (SELECT 1 FROM wal_attempts WHERE rowid = NEW.rowid);
END;

CREATE TRIGGER wal_attempts_updated BEFORE UPDATE ON wal_attempts
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: an open attempt becomes applied or failed')
  WHERE OLD.status = 'pending'
    AND (NEW.status = 'rolled_back' OR NEW.wal_id <> OLD.wal_id OR NEW.attempt_no <> OLD.attempt_no);
  SELECT RAISE(ABORT, 'illegal_transition: a closed attempt is never changed')
  WHERE OLD.status <> 'pending' AND NOT (OLD.status = 'failed' AND NEW.status = 'rolled_back' AND
    (NEW.wal_id, NEW.attempt_no, NEW.intent, NEW.queue, NEW.event_time, NEW.sns_message_id,
     NEW.sqs_message_id, NEW.object_etag, NEW.object_size, NEW.object_sequencer, NEW.object_version_id, NEW.read_etag,
     NEW.evidence, NEW.code_version, NEW.config_version, NEW.replay_run_id, NEW.ingest_run_id, NEW.worker_id,
     NEW.worker_incarnation, NEW.claim_id, NEW.claimed_at, NEW.claimed_from, NEW.claimed_version, NEW.commit_id,
     NEW.closed_at, NEW.closed_version, NEW.error_code, NEW.error_message, NEW.integrity_status, NEW.metadata_status,
     NEW.stac_status, NEW.provenance_status, NEW.item_sha256, NEW.provenance_sha256, NEW.prov_activity_id, NEW.openlineage_run_id)
    IS
    (OLD.wal_id, OLD.attempt_no, OLD.intent, OLD.queue, OLD.event_time, OLD.sns_message_id,
     OLD.sqs_message_id, OLD.object_etag, OLD.object_size, OLD.object_sequencer, OLD.object_version_id, OLD.read_etag,
     OLD.evidence, OLD.code_version, OLD.config_version, OLD.replay_run_id, OLD.ingest_run_id, OLD.worker_id,
     OLD.worker_incarnation, OLD.claim_id, OLD.claimed_at, OLD.claimed_from, OLD.claimed_version, OLD.commit_id,
     OLD.closed_at, OLD.closed_version, OLD.error_code, OLD.error_message, OLD.integrity_status, OLD.metadata_status,
     OLD.stac_status, OLD.provenance_status, OLD.item_sha256, OLD.provenance_sha256, OLD.prov_activity_id, OLD.openlineage_run_id));
END;

CREATE TRIGGER wal_attempts_kept BEFORE DELETE ON wal_attempts
BEGIN SELECT RAISE(ABORT, 'illegal_transition: an attempt is never deleted'); END;

CREATE TRIGGER workers_not_replaced BEFORE INSERT ON workers WHEN EXISTS (SELECT 1 FROM workers WHERE incarnation = NEW.incarnation)
BEGIN SELECT RAISE(ABORT, 'worker_fenced: a worker is never replaced'); END;
CREATE TRIGGER workers_not_deleted BEFORE DELETE ON workers
BEGIN SELECT RAISE(ABORT, 'worker_fenced: a worker is never forgotten'); END;

CREATE TRIGGER workers_fenced BEFORE UPDATE ON workers
WHEN (OLD.fenced_at IS NOT NULL AND NEW.fenced_at IS NOT OLD.fenced_at)
  OR (OLD.stopped_at IS NOT NULL AND NEW.stopped_at IS NOT OLD.stopped_at)
  OR ((OLD.fenced_at IS NOT NULL OR OLD.stopped_at IS NOT NULL) AND NEW.expires_at <> OLD.expires_at)
BEGIN SELECT RAISE(ABORT, 'worker_fenced: a fenced worker stays fenced'); END;

-- Append-only tables: INSERT OR REPLACE is refused as well.
CREATE TRIGGER wal_transitions_not_replaced BEFORE INSERT ON wal_transitions WHEN EXISTS (SELECT 1 FROM wal_transitions WHERE transition_id = NEW.transition_id)
  OR EXISTS (SELECT 1 FROM wal_transitions WHERE wal_id = NEW.wal_id AND to_version = NEW.to_version)
BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;
CREATE TRIGGER wal_transitions_not_updated BEFORE UPDATE ON wal_transitions BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;
CREATE TRIGGER wal_transitions_not_deleted BEFORE DELETE ON wal_transitions BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;

CREATE TRIGGER wal_annotations_not_replaced BEFORE INSERT ON wal_annotations WHEN EXISTS (SELECT 1 FROM wal_annotations WHERE annotation_id = NEW.annotation_id)
BEGIN SELECT RAISE(ABORT, 'append_only: wal_annotations'); END;
CREATE TRIGGER wal_annotations_not_updated BEFORE UPDATE ON wal_annotations BEGIN SELECT RAISE(ABORT, 'append_only: wal_annotations'); END;
CREATE TRIGGER wal_annotations_not_deleted BEFORE DELETE ON wal_annotations BEGIN SELECT RAISE(ABORT, 'append_only: wal_annotations'); END;

CREATE TRIGGER audit_log_not_replaced BEFORE INSERT ON audit_log WHEN EXISTS (SELECT 1 FROM audit_log WHERE entry_id = NEW.entry_id)
BEGIN SELECT RAISE(ABORT, 'append_only: audit_log'); END;
CREATE TRIGGER audit_log_not_updated BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'append_only: audit_log'); END;
CREATE TRIGGER audit_log_not_deleted BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'append_only: audit_log'); END;

CREATE TRIGGER audit_seals_not_replaced BEFORE INSERT ON audit_seals WHEN EXISTS (SELECT 1 FROM audit_seals WHERE position = NEW.position OR entry_id = NEW.entry_id)
BEGIN SELECT RAISE(ABORT, 'append_only: audit_seals'); END;
CREATE TRIGGER audit_seals_not_updated BEFORE UPDATE ON audit_seals BEGIN SELECT RAISE(ABORT, 'append_only: audit_seals'); END;
CREATE TRIGGER audit_seals_not_deleted BEFORE DELETE ON audit_seals BEGIN SELECT RAISE(ABORT, 'append_only: audit_seals'); END;
