-- The ledger on PostgreSQL: the tables of SQLite's migration with native types.
-- Triggers carry their condition in WHEN, so that an ordinary row calls no function.

CREATE TABLE wal_records (
  wal_id              uuid NOT NULL PRIMARY KEY,
  dataset             text NOT NULL CHECK (dataset <> ''),
  object_uri          text NOT NULL CHECK (object_uri <> ''),
  provider            text NOT NULL CHECK (provider <> ''),
  queue               text NOT NULL,
  event_time          timestamptz NOT NULL,
  time_range_start    timestamptz NOT NULL,
  time_range_end      timestamptz NOT NULL CHECK (time_range_end >= time_range_start),
  status              text NOT NULL CHECK (status IN ('succeeded', 'in_progress', 'pending', 'failed', 'quarantined')),
  attempts            integer NOT NULL CHECK (attempts >= 0),
  last_attempt_at     timestamptz,
  last_error_code     text CHECK (last_error_code ~ '^[a-z0-9_]{1,64}$'),
  last_error_message  text CHECK (length(last_error_message) <= 500),
  integrity_status    text NOT NULL CHECK (integrity_status IN ('ok', 'unknown', 'suspect', 'failed')),
  metadata_status     text NOT NULL CHECK (metadata_status IN ('ok', 'unknown', 'suspect', 'failed')),
  stac_status         text NOT NULL CHECK (stac_status IN ('created', 'unknown', 'updated', 'no-op', 'failed')),
  provenance_status   text NOT NULL CHECK (provenance_status IN ('ok', 'unknown', 'partial', 'failed')),
  stac_item_id        text,
  stac_collection_id  text,
  stac_item_href      text,
  ingest_run_id       text NOT NULL,
  worker_id           text NOT NULL,
  replay_reason       text NOT NULL,
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  version             integer NOT NULL CHECK (version >= 1),
  recorded_by         text NOT NULL,
  replay_run_id       text,
  extensions          text,
  due_at              timestamptz,
  retry_after         timestamptz,
  rerun_intent        text CHECK (rerun_intent IN ('reingest', 'repair', 'backfill')),
  next_object         text,
  budget_from         integer NOT NULL CHECK (budget_from >= 0 AND budget_from <= attempts),
  lease_expiries      integer NOT NULL CHECK (lease_expiries >= 0),
  applied_attempt     integer CHECK (applied_attempt >= 1 AND applied_attempt <= attempts),
  -- A success is what all four operators made of it, and it has its item.
  CONSTRAINT success_tuple CHECK (status <> 'succeeded' OR (
    (integrity_status IN ('ok', 'suspect'))
    AND (metadata_status IN ('ok', 'suspect'))
    AND (stac_status IN ('created', 'updated', 'no-op'))
    AND (provenance_status IN ('ok', 'partial'))
    AND stac_item_id IS NOT NULL AND stac_collection_id IS NOT NULL
    AND applied_attempt IS NOT NULL)),
  CONSTRAINT failure_has_code CHECK (last_error_code IS NOT NULL OR (status <> 'failed' AND status <> 'quarantined')),
  CONSTRAINT only_successes_are_run_again CHECK (rerun_intent IS NULL OR status = 'succeeded')
);

CREATE UNIQUE INDEX wal_records_object_uri ON wal_records (object_uri);
CREATE INDEX wal_records_by_dataset ON wal_records (dataset, status, wal_id);
CREATE INDEX wal_records_due ON wal_records (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX wal_records_stale ON wal_records (wal_id) WHERE status = 'succeeded' AND last_error_code IS NOT NULL;

CREATE TABLE wal_attempts (
  wal_id              uuid NOT NULL REFERENCES wal_records (wal_id),
  attempt_no          integer NOT NULL CHECK (attempt_no >= 1),
  status              text NOT NULL CHECK (status IN ('applied', 'pending', 'failed', 'rolled_back')),
  intent              text NOT NULL CHECK (intent IN ('ingest', 'reingest', 'repair', 'backfill')),
  queue               text NOT NULL,
  event_time          timestamptz NOT NULL,
  sns_message_id      text,
  sqs_message_id      text,
  object_etag         text,
  object_size         bigint CHECK (object_size >= 0),
  object_sequencer    text,
  object_version_id   text,
  read_etag           text,
  evidence            bytea CHECK (length(evidence) <= 8192),
  code_version        text NOT NULL,
  config_version      text NOT NULL,
  replay_run_id       text,
  ingest_run_id       text NOT NULL,
  worker_id           text NOT NULL,
  worker_incarnation  uuid NOT NULL,
  claim_id            uuid NOT NULL,
  claimed_at          timestamptz NOT NULL,
  claimed_from        text NOT NULL CHECK (claimed_from IN ('pending', 'succeeded')),
  claimed_version     integer NOT NULL CHECK (claimed_version >= 2),
  commit_id           uuid,
  closed_at           timestamptz,
  closed_version      integer CHECK (closed_version > claimed_version),
  error_code          text CHECK (error_code ~ '^[a-z0-9_]{1,64}$'),
  error_message       text CHECK (length(error_message) <= 500),
  integrity_status    text NOT NULL CHECK (integrity_status IN ('ok', 'unknown', 'suspect', 'failed')),
  metadata_status     text NOT NULL CHECK (metadata_status IN ('ok', 'unknown', 'suspect', 'failed')),
  stac_status         text NOT NULL CHECK (stac_status IN ('created', 'unknown', 'updated', 'no-op', 'failed')),
  provenance_status   text NOT NULL CHECK (provenance_status IN ('ok', 'unknown', 'partial', 'failed')),
  item_sha256         text,
  provenance_sha256   text,
  prov_activity_id    text,
  openlineage_run_id  text,
  PRIMARY KEY (wal_id, attempt_no),
  CONSTRAINT closed_is_complete CHECK ((status = 'pending') = (closed_at IS NULL)
    AND (status = 'pending') = (commit_id IS NULL) AND (status = 'pending') = (closed_version IS NULL)),
  CONSTRAINT failure_has_code CHECK ((error_code IS NULL) = (status IN ('pending', 'applied')))
);

-- The lock: a unit has at most one open attempt. The attempt number is the fencing token.
CREATE UNIQUE INDEX wal_attempts_open ON wal_attempts (wal_id) WHERE status = 'pending';

-- A lease is one row a process, not one row a unit.
CREATE TABLE workers (
  incarnation  uuid NOT NULL PRIMARY KEY,
  worker_id    text NOT NULL,
  started_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  fenced_at    timestamptz,
  stopped_at   timestamptz
);
CREATE INDEX workers_leased ON workers (expires_at) WHERE fenced_at IS NULL AND stopped_at IS NULL;

-- Edges that no attempt tells: retries, recoveries, hand-backs, replays, quarantines.
CREATE TABLE wal_transitions (
  transition_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  wal_id         uuid NOT NULL REFERENCES wal_records (wal_id),
  occurred_at    timestamptz NOT NULL,
  kind           text NOT NULL CHECK (kind IN ('retry', 'park', 'recovery', 'hand_back', 'not_yet', 'replay', 'quarantine')),
  from_status    text NOT NULL,
  to_status      text NOT NULL,
  from_version   integer NOT NULL,
  to_version     integer NOT NULL CHECK (to_version = from_version + 1),
  actor          text NOT NULL CHECK (actor <> ''),
  reason         text NOT NULL CHECK (reason <> ''),
  replay_run_id  text,
  approval_ref   text,
  UNIQUE (wal_id, to_version)
);

CREATE TABLE wal_annotations (
  annotation_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  wal_id         uuid NOT NULL,
  attempt_no     integer NOT NULL,
  noted_at       timestamptz NOT NULL,
  actor          text NOT NULL CHECK (actor <> ''),
  kind           text NOT NULL CHECK (kind <> ''),
  note           text NOT NULL,
  FOREIGN KEY (wal_id, attempt_no) REFERENCES wal_attempts (wal_id, attempt_no)
);
CREATE INDEX wal_annotations_by_attempt ON wal_annotations (wal_id, attempt_no);

-- Custom replay reasons, each with the approval that allows it.
CREATE TABLE replay_reasons (
  code           text NOT NULL PRIMARY KEY,
  description    text NOT NULL,
  approval_ref   text NOT NULL CHECK (trim(approval_ref) <> ''),
  registered_at  timestamptz NOT NULL
);

-- An import brings records that are past pending. While it runs it points at a gate that does not
-- exist; the deferred reference lets no transaction commit with an import that is still open.
CREATE TABLE wal_import_gates (
  gate  integer PRIMARY KEY CHECK (gate < 0 AND gate > 0)
);
CREATE TABLE wal_imports (
  import_id    uuid NOT NULL PRIMARY KEY,
  actor        text NOT NULL CHECK (actor <> ''),
  source       text NOT NULL,
  sha256       text NOT NULL,
  started_at   timestamptz NOT NULL,
  finished_at  timestamptz,
  open_gate    integer REFERENCES wal_import_gates (gate) DEFERRABLE INITIALLY DEFERRED,
  CHECK ((open_gate IS NULL) = (finished_at IS NOT NULL))
);

CREATE TABLE kill_switches (
  scope       text NOT NULL CHECK (scope IN ('ingest', 'replay', 'dispatch', 'nodes')),
  dataset     text NOT NULL CHECK (dataset <> ''),
  is_on       boolean NOT NULL,
  actor       text NOT NULL CHECK (actor <> ''),
  reason      text NOT NULL CHECK (reason <> ''),
  changed_at  timestamptz NOT NULL,
  PRIMARY KEY (scope, dataset)
);

-- Who did what. Entries are chained by the sealer once they are committed.
CREATE TABLE audit_log (
  entry_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  occurred_at   timestamptz NOT NULL,
  actor         text NOT NULL CHECK (actor <> ''),
  action        text NOT NULL CHECK (action <> ''),
  subject       text NOT NULL,
  reason        text NOT NULL,
  approval_ref  text,
  detail        text NOT NULL
);
CREATE TABLE audit_seals (
  position     bigint NOT NULL PRIMARY KEY CHECK (position >= 1),
  entry_id     bigint NOT NULL UNIQUE,
  entry_hash   text NOT NULL CHECK (length(entry_hash) = 64),
  chain_hash   text NOT NULL CHECK (length(chain_hash) = 64),
  sealed_at    timestamptz NOT NULL
);

-- Messages that no unit could be made of, kept before they leave the queue.
CREATE TABLE poison_messages (
  poison_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue          text NOT NULL,
  body_sha256    text NOT NULL CHECK (length(body_sha256) = 64),
  body           bytea NOT NULL CHECK (length(body) <= 262144),
  body_bytes     bigint NOT NULL CHECK (body_bytes >= 0),
  message_id     text,
  error_code     text NOT NULL,
  error_message  text NOT NULL CHECK (length(error_message) <= 500),
  times_seen     integer NOT NULL CHECK (times_seen >= 1),
  first_seen_at  timestamptz NOT NULL,
  last_seen_at   timestamptz NOT NULL,
  UNIQUE (queue, body_sha256)
);

-- What happened to a unit, one row an edge, in order of version.
CREATE VIEW wal_history AS
  SELECT wal_id, 1 AS version, created_at AS occurred_at, 'recorded' AS kind, NULL::text AS from_status,
    'pending' AS to_status, NULL::integer AS attempt_no, recorded_by AS actor, NULL::text AS reason,
    NULL::text AS replay_run_id, NULL::text AS approval_ref
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

-- Guards. They hold against raw SQL too.

CREATE FUNCTION tallgrass_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0];
END $$;

CREATE FUNCTION tallgrass_refuse_unless_importing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM wal_imports WHERE open_gate IS NOT NULL) THEN RETURN NEW; END IF;
  RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0];
END $$;

CREATE FUNCTION tallgrass_require_replay_reason() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM replay_reasons WHERE code = NEW.replay_reason) THEN RETURN NEW; END IF;
  RAISE EXCEPTION USING ERRCODE = 'check_violation',
    MESSAGE = 'unknown_replay_reason: neither listed nor registered';
END $$;

CREATE TRIGGER wal_records_created BEFORE INSERT ON wal_records FOR EACH ROW
WHEN (NEW.status <> 'pending' OR NEW.version <> 1 OR NEW.attempts <> 0 OR NEW.created_at <> NEW.updated_at)
EXECUTE FUNCTION tallgrass_refuse_unless_importing('illegal_transition: a record is created pending, version 1, without attempts');

CREATE TRIGGER wal_records_edge BEFORE UPDATE ON wal_records FOR EACH ROW
WHEN (OLD.status <> NEW.status AND NOT (
  (OLD.status = 'pending' AND NEW.status = 'in_progress' AND NEW.attempts = OLD.attempts + 1)
  OR (OLD.status = 'in_progress' AND NEW.status = 'succeeded')
  OR (OLD.status = 'in_progress' AND NEW.status = 'failed')
  OR (OLD.status = 'failed' AND NEW.status = 'pending')
  OR (OLD.status = 'pending' AND NEW.status = 'quarantined')
  OR (OLD.status = 'failed' AND NEW.status = 'quarantined')))
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: not one of the seven edges');

CREATE TRIGGER wal_records_guard BEFORE UPDATE ON wal_records FOR EACH ROW
WHEN (NEW.version <> OLD.version + 1 OR NEW.wal_id <> OLD.wal_id OR NEW.object_uri <> OLD.object_uri
  OR NEW.time_range_start <> OLD.time_range_start OR NEW.created_at <> OLD.created_at
  OR NEW.attempts < OLD.attempts OR NEW.attempts > OLD.attempts + 1)
EXECUTE FUNCTION tallgrass_refuse('version_conflict: each write adds one to version and leaves identity as it is');

CREATE TRIGGER wal_records_reason BEFORE UPDATE ON wal_records FOR EACH ROW
WHEN (NEW.replay_reason <> OLD.replay_reason
  AND NEW.replay_reason NOT IN ('none', 'dlq-drain', 'incident', 'backfill', 'test'))
EXECUTE FUNCTION tallgrass_require_replay_reason();

CREATE TRIGGER wal_records_kept BEFORE DELETE ON wal_records FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: a record is never deleted');

CREATE TRIGGER wal_attempts_opened BEFORE INSERT ON wal_attempts FOR EACH ROW
WHEN (NEW.status <> 'pending')
EXECUTE FUNCTION tallgrass_refuse_unless_importing('illegal_transition: an attempt is opened pending');

CREATE TRIGGER wal_attempts_closed BEFORE UPDATE ON wal_attempts FOR EACH ROW
WHEN (OLD.status <> 'pending' AND NOT (OLD.status = 'failed' AND NEW.status = 'rolled_back' AND
    (NEW.wal_id, NEW.attempt_no, NEW.intent, NEW.queue, NEW.event_time, NEW.sns_message_id,
     NEW.sqs_message_id, NEW.object_etag, NEW.object_size, NEW.object_sequencer, NEW.object_version_id, NEW.read_etag,
     NEW.evidence, NEW.code_version, NEW.config_version, NEW.replay_run_id, NEW.ingest_run_id, NEW.worker_id,
     NEW.worker_incarnation, NEW.claim_id, NEW.claimed_at, NEW.claimed_from, NEW.claimed_version, NEW.commit_id,
     NEW.closed_at, NEW.closed_version, NEW.error_code, NEW.error_message, NEW.integrity_status, NEW.metadata_status,
     NEW.stac_status, NEW.provenance_status, NEW.item_sha256, NEW.provenance_sha256, NEW.prov_activity_id, NEW.openlineage_run_id)
    IS NOT DISTINCT FROM
    (OLD.wal_id, OLD.attempt_no, OLD.intent, OLD.queue, OLD.event_time, OLD.sns_message_id,
     OLD.sqs_message_id, OLD.object_etag, OLD.object_size, OLD.object_sequencer, OLD.object_version_id, OLD.read_etag,
     OLD.evidence, OLD.code_version, OLD.config_version, OLD.replay_run_id, OLD.ingest_run_id, OLD.worker_id,
     OLD.worker_incarnation, OLD.claim_id, OLD.claimed_at, OLD.claimed_from, OLD.claimed_version, OLD.commit_id,
     OLD.closed_at, OLD.closed_version, OLD.error_code, OLD.error_message, OLD.integrity_status, OLD.metadata_status,
     OLD.stac_status, OLD.provenance_status, OLD.item_sha256, OLD.provenance_sha256, OLD.prov_activity_id, OLD.openlineage_run_id)))
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: a closed attempt is never changed');

CREATE TRIGGER wal_attempts_edge BEFORE UPDATE ON wal_attempts FOR EACH ROW
WHEN (OLD.status = 'pending' AND (NEW.status = 'rolled_back' OR NEW.wal_id <> OLD.wal_id OR NEW.attempt_no <> OLD.attempt_no))
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: an open attempt becomes applied or failed');

CREATE TRIGGER wal_attempts_kept BEFORE DELETE ON wal_attempts FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: an attempt is never deleted');

CREATE TRIGGER workers_kept BEFORE DELETE ON workers FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('worker_fenced: a worker is never forgotten');

CREATE TRIGGER workers_fenced BEFORE UPDATE ON workers FOR EACH ROW
WHEN ((OLD.fenced_at IS NOT NULL AND NEW.fenced_at IS DISTINCT FROM OLD.fenced_at)
  OR (OLD.stopped_at IS NOT NULL AND NEW.stopped_at IS DISTINCT FROM OLD.stopped_at)
  OR ((OLD.fenced_at IS NOT NULL OR OLD.stopped_at IS NOT NULL) AND NEW.expires_at <> OLD.expires_at))
EXECUTE FUNCTION tallgrass_refuse('worker_fenced: a fenced worker stays fenced');

CREATE TRIGGER wal_transitions_kept BEFORE UPDATE OR DELETE ON wal_transitions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_transitions');
CREATE TRIGGER wal_annotations_kept BEFORE UPDATE OR DELETE ON wal_annotations FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_annotations');
CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_log');
CREATE TRIGGER audit_seals_kept BEFORE UPDATE OR DELETE ON audit_seals FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_seals');

CREATE TRIGGER wal_records_not_truncated BEFORE TRUNCATE ON wal_records
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_records');
CREATE TRIGGER wal_attempts_not_truncated BEFORE TRUNCATE ON wal_attempts
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_attempts');
CREATE TRIGGER wal_transitions_not_truncated BEFORE TRUNCATE ON wal_transitions
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_transitions');
CREATE TRIGGER wal_annotations_not_truncated BEFORE TRUNCATE ON wal_annotations
EXECUTE FUNCTION tallgrass_refuse('append_only: wal_annotations');
CREATE TRIGGER audit_log_not_truncated BEFORE TRUNCATE ON audit_log
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_log');
CREATE TRIGGER audit_seals_not_truncated BEFORE TRUNCATE ON audit_seals
EXECUTE FUNCTION tallgrass_refuse('append_only: audit_seals');
