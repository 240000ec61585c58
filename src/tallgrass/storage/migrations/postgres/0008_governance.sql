-- Who may act, what was approved, and what replays made of their records.

-- The token itself is shown once and kept nowhere.
CREATE TABLE actors (
  name          text NOT NULL PRIMARY KEY CHECK (name ~ '^[a-z0-9._@-]{1,64}$'),
  role          text NOT NULL CHECK (role = 'viewer' OR role = 'operator' OR role = 'approver'),
  token_sha256  text NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
  created_by    text NOT NULL CHECK (created_by <> ''),
  created_at    timestamptz NOT NULL,
  rotated_at    timestamptz,
  revoked_at    timestamptz
);

-- A request that is bound to what was looked at: the hash of a plan, or of a selection.
CREATE TABLE approvals (
  approval_id     text    NOT NULL PRIMARY KEY CHECK (length(approval_id) = 36),
  purpose         text    NOT NULL CHECK (purpose <> ''),
  subject_sha256  text    NOT NULL CHECK (length(subject_sha256) = 64),
  -- What the approver is shown: canonical JSON.
  summary         text    NOT NULL,
  reason          text    NOT NULL CHECK (trim(reason) <> ''),
  needed          integer NOT NULL CHECK (needed >= 1),
  requested_by    text    NOT NULL REFERENCES actors (name),
  requested_at    timestamptz NOT NULL,
  expires_at      timestamptz NOT NULL CHECK (expires_at > requested_at),
  used_at         timestamptz,
  used_for        text    CHECK ((used_for IS NULL) = (used_at IS NULL))
);
CREATE INDEX approvals_by_subject ON approvals (subject_sha256, purpose);

CREATE TABLE approval_decisions (
  approval_id  text NOT NULL REFERENCES approvals (approval_id),
  actor        text NOT NULL REFERENCES actors (name),
  decision     text NOT NULL CHECK (decision = 'approve' OR decision = 'reject'),
  note         text NOT NULL,
  decided_at   timestamptz NOT NULL,
  PRIMARY KEY (approval_id, actor)
);

-- What a replay or a drain refers to.
CREATE TABLE change_records (
  change_ref   text NOT NULL PRIMARY KEY CHECK (trim(change_ref) <> ''),
  title        text NOT NULL CHECK (trim(title) <> ''),
  description  text NOT NULL,
  opened_by    text NOT NULL CHECK (opened_by <> ''),
  opened_at    timestamptz NOT NULL,
  closed_by    text,
  closed_at    timestamptz CHECK (closed_by <> ''),
  resolution   text CHECK ((resolution IS NULL) = (closed_at IS NULL))
);
CREATE TABLE incidents (
  incident_ref  text NOT NULL PRIMARY KEY CHECK (trim(incident_ref) <> ''),
  title         text NOT NULL CHECK (trim(title) <> ''),
  description   text NOT NULL,
  opened_by     text NOT NULL CHECK (opened_by <> ''),
  opened_at     timestamptz NOT NULL,
  closed_by     text,
  closed_at     timestamptz CHECK (closed_by <> ''),
  resolution    text CHECK ((resolution IS NULL) = (closed_at IS NULL))
);

-- Set by a freeze, and cleared when that ends; a switch that somebody turns by hand is theirs.
ALTER TABLE kill_switches ADD COLUMN by_freeze boolean NOT NULL DEFAULT false;

-- Guards below ask what the log says of an actor or an approval.
CREATE INDEX audit_log_by_subject ON audit_log (subject, entry_id);

-- Configurations by hash: what an attempt's config_version meant.
CREATE TABLE config_versions (
  config_version  text NOT NULL PRIMARY KEY CHECK (config_version <> ''),
  body            bytea NOT NULL,
  first_seen_at   timestamptz NOT NULL
);

CREATE TABLE replay_runs (
  replay_run_id   text    NOT NULL PRIMARY KEY CHECK (replay_run_id <> ''),
  mode            text    NOT NULL CHECK (mode = 'single' OR mode = 'range' OR mode = 'dlq'),
  intent          text    NOT NULL CHECK (intent = 'ingest' OR intent = 'reingest' OR intent = 'repair' OR intent = 'backfill'),
  reason          text    NOT NULL CHECK (reason <> '' AND reason <> 'none'),
  actor           text    NOT NULL CHECK (actor <> ''),
  -- Canonical JSON of what was selected, and the hash of the plan.
  selection       text    NOT NULL,
  plan_sha256     text    NOT NULL CHECK (length(plan_sha256) = 64),
  approval_id     text REFERENCES approvals (approval_id),
  change_ref      text REFERENCES change_records (change_ref),
  incident_ref    text REFERENCES incidents (incident_ref),
  policy_ref      text,
  -- JSON Pointers of fields that the run says it will change.
  expected        text    NOT NULL,
  code_version    text    NOT NULL,
  config_version  text    NOT NULL,
  planned         integer NOT NULL CHECK (planned >= 0),
  started_at      timestamptz NOT NULL,
  finished_at     timestamptz
);

-- What came of each record of a run. `due` is under way; all others are final.
CREATE TABLE replay_run_records (
  replay_run_id  text    NOT NULL REFERENCES replay_runs (replay_run_id),
  wal_id         uuid    NOT NULL REFERENCES wal_records (wal_id),
  version        integer NOT NULL,
  action         text    NOT NULL CHECK (action = 'replay' OR action = 'rerun' OR action = 'hit' OR action = 'skip'),
  outcome        text    NOT NULL CHECK (outcome = 'due' OR outcome = 'done' OR outcome = 'hit' OR outcome = 'skipped' OR outcome = 'failed'),
  -- Why it was skipped or failed.
  reason         text,
  -- The attempt that the run led to, and how its item differs from the one before.
  attempt_no     integer,
  mismatch       boolean NOT NULL DEFAULT false,
  changes        text,
  PRIMARY KEY (replay_run_id, wal_id)
);
CREATE INDEX replay_run_records_due ON replay_run_records (replay_run_id, wal_id) WHERE outcome = 'due';

-- One more kind of edge: an approved way out of quarantine.
ALTER TABLE wal_transitions DROP CONSTRAINT wal_transitions_kind_check;
ALTER TABLE wal_transitions ADD CONSTRAINT wal_transitions_kind_check
  CHECK (kind IN ('retry', 'park', 'recovery', 'hand_back', 'not_yet', 'replay', 'quarantine', 'override'));
ALTER TABLE wal_transitions ADD CONSTRAINT override_is_approved
  CHECK ((kind = 'override') = (from_status = 'quarantined' AND to_status <> 'quarantined') AND (kind <> 'override' OR approval_ref IS NOT NULL));

-- Out of quarantine leads only an edge that is journaled with an approval which was used for it:
-- one whose summary names the unit at the version that was looked at.
CREATE FUNCTION tallgrass_require_approved_release() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM wal_transitions AS t JOIN approvals AS a ON a.approval_id = t.approval_ref
      WHERE t.wal_id = NEW.wal_id AND t.to_version = NEW.version AND t.kind = 'override' AND a.used_at IS NOT NULL
        AND a.purpose = 'release' AND position('["' || OLD.wal_id || '",' || OLD.version || ']' IN a.summary) > 0) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'illegal_transition: not one of the seven edges';
END $$;
DROP TRIGGER wal_records_edge ON wal_records;
CREATE TRIGGER wal_records_edge BEFORE UPDATE ON wal_records FOR EACH ROW
WHEN (OLD.status <> NEW.status AND NOT (
  (OLD.status = 'pending' AND NEW.status = 'in_progress' AND NEW.attempts = OLD.attempts + 1)
  OR (OLD.status = 'in_progress' AND NEW.status = 'succeeded')
  OR (OLD.status = 'in_progress' AND NEW.status = 'failed')
  OR (OLD.status = 'failed' AND NEW.status = 'pending')
  OR (OLD.status = 'pending' AND NEW.status = 'quarantined')
  OR (OLD.status = 'failed' AND NEW.status = 'quarantined')
  OR (OLD.status = 'quarantined' AND NEW.status = 'pending')))
EXECUTE FUNCTION tallgrass_refuse('illegal_transition: not one of the seven edges');
CREATE TRIGGER wal_records_released BEFORE UPDATE ON wal_records FOR EACH ROW
WHEN (OLD.status = 'quarantined' AND NEW.status = 'pending')
EXECUTE FUNCTION tallgrass_require_approved_release();

-- An approval is used once, in time, by as many approvers as it needs, none of them its requester.
CREATE FUNCTION tallgrass_require_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.used_at > NEW.expires_at
    OR EXISTS (SELECT 1 FROM approval_decisions
      WHERE approval_id = NEW.approval_id AND (decision = 'reject' OR decided_at > NEW.used_at))
    -- Of those who may still approve.
    OR NEW.needed > (SELECT count(*) FROM approval_decisions AS d JOIN actors AS a ON a.name = d.actor
      WHERE d.approval_id = NEW.approval_id AND d.decision = 'approve' AND a.revoked_at IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'approval_invalid: not approved, rejected or expired';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM audit_log
      WHERE subject = 'approval:' || NEW.approval_id AND action = 'approval_use') THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: approvals';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_inserted BEFORE INSERT ON approvals FOR EACH ROW WHEN (NEW.used_at IS NOT NULL)
EXECUTE FUNCTION tallgrass_refuse('append_only: approvals');
CREATE FUNCTION tallgrass_require_requester() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM actors WHERE name = NEW.requested_by AND role <> 'viewer' AND revoked_at IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'approval_invalid: only an operator or an approver requests';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'approval:' || NEW.approval_id
      AND action = 'approval_request' AND actor = NEW.requested_by) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: approvals';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_requested BEFORE INSERT ON approvals FOR EACH ROW
EXECUTE FUNCTION tallgrass_require_requester();
CREATE TRIGGER approvals_kept BEFORE UPDATE ON approvals FOR EACH ROW
WHEN (OLD.used_at IS NOT NULL OR (NEW.approval_id, NEW.purpose, NEW.subject_sha256, NEW.summary, NEW.reason,
    NEW.needed, NEW.requested_by, NEW.requested_at, NEW.expires_at)
  IS DISTINCT FROM (OLD.approval_id, OLD.purpose, OLD.subject_sha256, OLD.summary, OLD.reason,
    OLD.needed, OLD.requested_by, OLD.requested_at, OLD.expires_at))
EXECUTE FUNCTION tallgrass_refuse('append_only: approvals');
CREATE TRIGGER approvals_used BEFORE UPDATE ON approvals FOR EACH ROW WHEN (NEW.used_at IS NOT NULL)
EXECUTE FUNCTION tallgrass_require_approved();

CREATE FUNCTION tallgrass_require_approver() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id AND requested_by = NEW.actor) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'approval_invalid: nobody approves their own request';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM actors WHERE name = NEW.actor AND role = 'approver' AND revoked_at IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'approval_invalid: only an approver decides';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id AND used_at IS NULL
      AND NEW.decided_at BETWEEN requested_at AND expires_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'approval_invalid: used or expired';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'approval:' || NEW.approval_id
      AND action = 'approval_' || NEW.decision AND actor = NEW.actor) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: approval_decisions';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approval_decisions_inserted BEFORE INSERT ON approval_decisions FOR EACH ROW
EXECUTE FUNCTION tallgrass_require_approver();
-- Nobody becomes an actor, or gets another token, unless the log says who made it so.
CREATE FUNCTION tallgrass_require_audited_actor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'actor:' || NEW.name AND action = 'actor_add'
      AND actor = NEW.created_by AND detail::json ->> 'token_sha256' = NEW.token_sha256) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: actors';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION tallgrass_require_audited_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.token_sha256 <> OLD.token_sha256 AND NOT EXISTS (SELECT 1 FROM audit_log
      WHERE subject = 'actor:' || NEW.name AND action = 'actor_rotate'
        AND detail::json ->> 'token_sha256' = NEW.token_sha256)
    OR NEW.revoked_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audit_log
      WHERE subject = 'actor:' || NEW.name AND action = 'actor_revoke') THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'unaudited: actors';
  END IF;
  IF NEW.revoked_at IS NOT NULL AND NEW.role = 'approver' AND NOT EXISTS (SELECT 1 FROM actors
      WHERE name <> OLD.name AND role = 'approver' AND revoked_at IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation',
      MESSAGE = 'last_approver: nobody could approve or add actors any more';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER actors_inserted BEFORE INSERT ON actors FOR EACH ROW
WHEN (NEW.rotated_at IS NOT NULL OR NEW.revoked_at IS NOT NULL)
EXECUTE FUNCTION tallgrass_refuse('append_only: actors');
CREATE TRIGGER actors_told BEFORE INSERT ON actors FOR EACH ROW
EXECUTE FUNCTION tallgrass_require_audited_actor();
CREATE TRIGGER actors_changed BEFORE UPDATE ON actors FOR EACH ROW
WHEN (OLD.revoked_at IS NOT NULL OR (NEW.name, NEW.role, NEW.created_by, NEW.created_at)
  IS DISTINCT FROM (OLD.name, OLD.role, OLD.created_by, OLD.created_at))
EXECUTE FUNCTION tallgrass_refuse('append_only: name and role of an actor, and one that is revoked');
CREATE TRIGGER actors_change_told BEFORE UPDATE ON actors FOR EACH ROW
EXECUTE FUNCTION tallgrass_require_audited_change();
CREATE TRIGGER change_records_opened BEFORE INSERT ON change_records FOR EACH ROW WHEN (NEW.closed_at IS NOT NULL)
EXECUTE FUNCTION tallgrass_refuse('append_only: change_records');
CREATE TRIGGER change_records_closed BEFORE UPDATE ON change_records FOR EACH ROW
WHEN (OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
  OR (NEW.change_ref, NEW.title, NEW.description, NEW.opened_by, NEW.opened_at)
    IS DISTINCT FROM (OLD.change_ref, OLD.title, OLD.description, OLD.opened_by, OLD.opened_at))
EXECUTE FUNCTION tallgrass_refuse('append_only: change_records');
CREATE TRIGGER incidents_opened BEFORE INSERT ON incidents FOR EACH ROW WHEN (NEW.closed_at IS NOT NULL)
EXECUTE FUNCTION tallgrass_refuse('append_only: incidents');
CREATE TRIGGER incidents_closed BEFORE UPDATE ON incidents FOR EACH ROW
WHEN (OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
  OR (NEW.incident_ref, NEW.title, NEW.description, NEW.opened_by, NEW.opened_at)
    IS DISTINCT FROM (OLD.incident_ref, OLD.title, OLD.description, OLD.opened_by, OLD.opened_at))
EXECUTE FUNCTION tallgrass_refuse('append_only: incidents');
CREATE TRIGGER replay_runs_finished BEFORE UPDATE ON replay_runs FOR EACH ROW
WHEN (NEW.replay_run_id <> OLD.replay_run_id OR NEW.plan_sha256 <> OLD.plan_sha256 OR NEW.actor <> OLD.actor OR NEW.reason <> OLD.reason)
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_runs');
CREATE TRIGGER replay_run_records_final BEFORE UPDATE ON replay_run_records FOR EACH ROW WHEN (OLD.outcome <> 'due')
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_run_records');
CREATE TRIGGER approval_decisions_not_updated BEFORE UPDATE ON approval_decisions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: approval_decisions');
CREATE TRIGGER config_versions_not_updated BEFORE UPDATE ON config_versions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: config_versions');
CREATE TRIGGER actors_not_deleted BEFORE DELETE ON actors FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: actors');
CREATE TRIGGER actors_not_truncated BEFORE TRUNCATE ON actors
EXECUTE FUNCTION tallgrass_refuse('append_only: actors');
CREATE TRIGGER approvals_not_deleted BEFORE DELETE ON approvals FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: approvals');
CREATE TRIGGER approvals_not_truncated BEFORE TRUNCATE ON approvals
EXECUTE FUNCTION tallgrass_refuse('append_only: approvals');
CREATE TRIGGER approval_decisions_not_deleted BEFORE DELETE ON approval_decisions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: approval_decisions');
CREATE TRIGGER approval_decisions_not_truncated BEFORE TRUNCATE ON approval_decisions
EXECUTE FUNCTION tallgrass_refuse('append_only: approval_decisions');
CREATE TRIGGER change_records_not_deleted BEFORE DELETE ON change_records FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: change_records');
CREATE TRIGGER change_records_not_truncated BEFORE TRUNCATE ON change_records
EXECUTE FUNCTION tallgrass_refuse('append_only: change_records');
CREATE TRIGGER incidents_not_deleted BEFORE DELETE ON incidents FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: incidents');
CREATE TRIGGER incidents_not_truncated BEFORE TRUNCATE ON incidents
EXECUTE FUNCTION tallgrass_refuse('append_only: incidents');
CREATE TRIGGER config_versions_not_deleted BEFORE DELETE ON config_versions FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: config_versions');
CREATE TRIGGER config_versions_not_truncated BEFORE TRUNCATE ON config_versions
EXECUTE FUNCTION tallgrass_refuse('append_only: config_versions');
CREATE TRIGGER replay_runs_not_deleted BEFORE DELETE ON replay_runs FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_runs');
CREATE TRIGGER replay_runs_not_truncated BEFORE TRUNCATE ON replay_runs
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_runs');
CREATE TRIGGER replay_run_records_not_deleted BEFORE DELETE ON replay_run_records FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_run_records');
CREATE TRIGGER replay_run_records_not_truncated BEFORE TRUNCATE ON replay_run_records
EXECUTE FUNCTION tallgrass_refuse('append_only: replay_run_records');
