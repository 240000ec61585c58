-- Who may act, what was approved, and what replays made of their records.

-- The token itself is shown once and kept nowhere.
CREATE TABLE actors (
  name          TEXT NOT NULL PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z0-9._@-]*'),
  role          TEXT NOT NULL CHECK (role = 'viewer' OR role = 'operator' OR role = 'approver'),
  token_sha256  TEXT NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
  created_by    TEXT NOT NULL CHECK (created_by <> ''),
  created_at    TEXT NOT NULL CHECK (length(created_at) = 27),
  rotated_at    TEXT CHECK (length(rotated_at) = 27),
  revoked_at    TEXT CHECK (length(revoked_at) = 27)
) STRICT, WITHOUT ROWID;

-- A request that is bound to what was looked at: the hash of a plan, or of a selection.
CREATE TABLE approvals (
  approval_id     TEXT    NOT NULL PRIMARY KEY CHECK (length(approval_id) = 36),
  purpose         TEXT    NOT NULL CHECK (purpose <> ''),
  subject_sha256  TEXT    NOT NULL CHECK (length(subject_sha256) = 64),
  -- What the approver is shown: canonical JSON.
  summary         TEXT    NOT NULL,
  reason          TEXT    NOT NULL CHECK (trim(reason) <> ''),
  needed          INTEGER NOT NULL CHECK (needed >= 1),
  requested_by    TEXT    NOT NULL REFERENCES actors (name),
  requested_at    TEXT    NOT NULL CHECK (length(requested_at) = 27),
  expires_at      TEXT    NOT NULL CHECK (length(expires_at) = 27 AND expires_at > requested_at),
  used_at         TEXT    CHECK (length(used_at) = 27),
  used_for        TEXT    CHECK ((used_for IS NULL) = (used_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_subject ON approvals (subject_sha256, purpose);

CREATE TABLE approval_decisions (
  approval_id  TEXT NOT NULL REFERENCES approvals (approval_id),
  actor        TEXT NOT NULL REFERENCES actors (name),
  decision     TEXT NOT NULL CHECK (decision = 'approve' OR decision = 'reject'),
  note         TEXT NOT NULL,
  decided_at   TEXT NOT NULL CHECK (length(decided_at) = 27),
  PRIMARY KEY (approval_id, actor)
) STRICT, WITHOUT ROWID;

-- What a replay or a drain refers to.
CREATE TABLE change_records (
  change_ref   TEXT NOT NULL PRIMARY KEY CHECK (trim(change_ref) <> ''),
  title        TEXT NOT NULL CHECK (trim(title) <> ''),
  description  TEXT NOT NULL,
  opened_by    TEXT NOT NULL CHECK (opened_by <> ''),
  opened_at    TEXT NOT NULL CHECK (length(opened_at) = 27),
  closed_by    TEXT,
  closed_at    TEXT CHECK (length(closed_at) = 27 AND closed_by <> ''),
  resolution   TEXT CHECK ((resolution IS NULL) = (closed_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE incidents (
  incident_ref  TEXT NOT NULL PRIMARY KEY CHECK (trim(incident_ref) <> ''),
  title         TEXT NOT NULL CHECK (trim(title) <> ''),
  description   TEXT NOT NULL,
  opened_by     TEXT NOT NULL CHECK (opened_by <> ''),
  opened_at     TEXT NOT NULL CHECK (length(opened_at) = 27),
  closed_by     TEXT,
  closed_at     TEXT CHECK (length(closed_at) = 27 AND closed_by <> ''),
  resolution    TEXT CHECK ((resolution IS NULL) = (closed_at IS NULL))
) STRICT, WITHOUT ROWID;

-- Set by a freeze, and cleared when that ends; a switch that somebody turns by hand is theirs.
ALTER TABLE kill_switches ADD COLUMN by_freeze INTEGER NOT NULL DEFAULT 0 CHECK (by_freeze = 0 OR by_freeze = 1);

-- Guards below ask what the log says of an actor or an approval.
CREATE INDEX audit_log_by_subject ON audit_log (subject, entry_id);

-- Configurations by hash: what an attempt's config_version meant.
CREATE TABLE config_versions (
  config_version  TEXT NOT NULL PRIMARY KEY CHECK (config_version <> ''),
  body            BLOB NOT NULL,
  first_seen_at   TEXT NOT NULL CHECK (length(first_seen_at) = 27)
) STRICT, WITHOUT ROWID;

CREATE TABLE replay_runs (
  replay_run_id   TEXT    NOT NULL PRIMARY KEY CHECK (replay_run_id <> ''),
  mode            TEXT    NOT NULL CHECK (mode = 'single' OR mode = 'range' OR mode = 'dlq'),
  intent          TEXT    NOT NULL CHECK (intent = 'ingest' OR intent = 'reingest' OR intent = 'repair' OR intent = 'backfill'),
  reason          TEXT    NOT NULL CHECK (reason <> '' AND reason <> 'none'),
  actor           TEXT    NOT NULL CHECK (actor <> ''),
  -- Canonical JSON of what was selected, and the hash of the plan.
  selection       TEXT    NOT NULL,
  plan_sha256     TEXT    NOT NULL CHECK (length(plan_sha256) = 64),
  approval_id     TEXT REFERENCES approvals (approval_id),
  change_ref      TEXT REFERENCES change_records (change_ref),
  incident_ref    TEXT REFERENCES incidents (incident_ref),
  policy_ref      TEXT,
  -- JSON Pointers of fields that the run says it will change.
  expected        TEXT    NOT NULL,
  code_version    TEXT    NOT NULL,
  config_version  TEXT    NOT NULL,
  planned         INTEGER NOT NULL CHECK (planned >= 0),
  started_at      TEXT    NOT NULL CHECK (length(started_at) = 27),
  finished_at     TEXT    CHECK (length(finished_at) = 27)
) STRICT, WITHOUT ROWID;

-- What came of each record of a run. `due` is under way; all others are final.
CREATE TABLE replay_run_records (
  replay_run_id  TEXT    NOT NULL REFERENCES replay_runs (replay_run_id),
  wal_id         TEXT    NOT NULL REFERENCES wal_records (wal_id),
  version        INTEGER NOT NULL,
  action         TEXT    NOT NULL CHECK (action = 'replay' OR action = 'rerun' OR action = 'hit' OR action = 'skip'),
  outcome        TEXT    NOT NULL CHECK (outcome = 'due' OR outcome = 'done' OR outcome = 'hit' OR outcome = 'skipped' OR outcome = 'failed'),
  -- Why it was skipped or failed.
  reason         TEXT,
  -- The attempt that the run led to, and how its item differs from the one before.
  attempt_no     INTEGER,
  mismatch       INTEGER NOT NULL DEFAULT 0 CHECK (mismatch = 0 OR mismatch = 1),
  changes        TEXT,
  PRIMARY KEY (replay_run_id, wal_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX replay_run_records_due ON replay_run_records (replay_run_id, wal_id) WHERE outcome = 'due';

-- One more kind of edge: an approved way out of quarantine.
DROP VIEW wal_history;
ALTER TABLE wal_transitions RENAME TO wal_transitions_before;
CREATE TABLE wal_transitions (
  transition_id  INTEGER PRIMARY KEY AUTOINCREMENT,
  wal_id         TEXT    NOT NULL REFERENCES wal_records (wal_id),
  occurred_at    TEXT    NOT NULL CHECK (length(occurred_at) = 27),
  kind           TEXT    NOT NULL CHECK (kind = 'retry' OR kind = 'park' OR kind = 'recovery' OR kind = 'hand_back' OR kind = 'not_yet' OR kind = 'replay' OR kind = 'quarantine' OR kind = 'override'),
  from_status    TEXT    NOT NULL,
  to_status      TEXT    NOT NULL,
  from_version   INTEGER NOT NULL,
  to_version     INTEGER NOT NULL CHECK (to_version = from_version + 1),
  actor          TEXT    NOT NULL CHECK (actor <> ''),
  reason         TEXT    NOT NULL CHECK (reason <> ''),
  replay_run_id  TEXT,
  approval_ref   TEXT,
  UNIQUE (wal_id, to_version),
  CONSTRAINT override_is_approved CHECK ((kind = 'override') = (from_status = 'quarantined' AND to_status <> 'quarantined') AND (kind <> 'override' OR approval_ref IS NOT NULL))
) STRICT;
INSERT INTO wal_transitions SELECT * FROM wal_transitions_before;
DROP TABLE wal_transitions_before;
CREATE TRIGGER wal_transitions_not_replaced BEFORE INSERT ON wal_transitions WHEN EXISTS (SELECT 1 FROM wal_transitions WHERE transition_id = NEW.transition_id)
  OR EXISTS (SELECT 1 FROM wal_transitions WHERE wal_id = NEW.wal_id AND to_version = NEW.to_version)
BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;
CREATE TRIGGER wal_transitions_not_updated BEFORE UPDATE ON wal_transitions BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;
CREATE TRIGGER wal_transitions_not_deleted BEFORE DELETE ON wal_transitions BEGIN SELECT RAISE(ABORT, 'append_only: wal_transitions'); END;
CREATE VIEW wal_history AS
  SELECT wal_id, 1 AS version, created_at AS occurred_at, 'recorded' AS kind, NULL AS from_status,
    'pending' AS to_status, NULL AS attempt_no, recorded_by AS actor, NULL AS reason,
    NULL AS replay_run_id, NULL AS approval_ref, NULL AS issues
  FROM wal_records
  UNION ALL
  SELECT wal_id, claimed_version, claimed_at, 'claimed', claimed_from,
    CASE claimed_from WHEN 'pending' THEN 'in_progress' ELSE claimed_from END, attempt_no,
    worker_id, intent, replay_run_id, NULL, NULL
  FROM wal_attempts
  UNION ALL
  SELECT wal_id, closed_version, closed_at, status,
    CASE claimed_from WHEN 'pending' THEN 'in_progress' ELSE claimed_from END,
    CASE WHEN claimed_from = 'succeeded' OR status = 'applied' THEN 'succeeded' ELSE 'failed' END,
    attempt_no, worker_id, error_code, replay_run_id, NULL, issues
  FROM wal_attempts WHERE closed_version IS NOT NULL
  UNION ALL
  SELECT wal_id, to_version, occurred_at, kind, from_status, to_status, NULL, actor, reason,
    replay_run_id, approval_ref, NULL
  FROM wal_transitions;

-- Out of quarantine leads only an edge that is journaled with an approval which was used for it:
-- one whose summary names the unit at the version that was looked at.
DROP TRIGGER wal_records_updated;
CREATE TRIGGER wal_records_updated BEFORE UPDATE ON wal_records
BEGIN
  SELECT RAISE(ABORT, 'illegal_transition: not one of the seven edges')
  WHERE OLD.status <> NEW.status AND NOT (
    (OLD.status = 'pending' AND NEW.status = 'in_progress' AND NEW.attempts = OLD.attempts + 1)
    OR (OLD.status = 'in_progress' AND NEW.status = 'succeeded')
    OR (OLD.status = 'in_progress' AND NEW.status = 'failed')
    OR (OLD.status = 'failed' AND NEW.status = 'pending')
    OR (OLD.status = 'pending' AND NEW.status = 'quarantined')
    OR (OLD.status = 'failed' AND NEW.status = 'quarantined')
    OR (OLD.status = 'quarantined' AND NEW.status = 'pending' AND EXISTS (
      SELECT 1 FROM wal_transitions AS t JOIN approvals AS a ON a.approval_id = t.approval_ref
      WHERE t.wal_id = NEW.wal_id AND t.to_version = NEW.version AND t.kind = 'override' AND a.used_at IS NOT NULL
        AND a.purpose = 'release' AND instr(a.summary, '["' || OLD.wal_id || '",' || OLD.version || ']') > 0)));
  SELECT RAISE(ABORT, 'version_conflict: each write adds one to version and leaves identity as it is')
  WHERE NEW.version <> OLD.version + 1 OR NEW.wal_id <> OLD.wal_id OR NEW.object_uri <> OLD.object_uri
    OR NEW.time_range_start <> OLD.time_range_start OR NEW.created_at <> OLD.created_at
    OR NEW.attempts < OLD.attempts OR NEW.attempts > OLD.attempts + 1;
  SELECT RAISE(ABORT, 'unknown_replay_reason: neither listed nor registered')
  WHERE NEW.replay_reason <> OLD.replay_reason AND NEW.replay_reason <> 'none' AND NEW.replay_reason <> 'dlq-drain'
    AND NEW.replay_reason <> 'incident' AND NEW.replay_reason <> 'backfill' AND NEW.replay_reason <> 'test'
    AND NOT EXISTS (SELECT 1 FROM replay_reasons WHERE code = NEW.replay_reason);
END;

-- An approval is used once, in time, by as many approvers as it needs, none of them its requester.
CREATE TRIGGER approvals_inserted BEFORE INSERT ON approvals
BEGIN
  SELECT RAISE(ABORT, 'append_only: approvals')
  WHERE NEW.used_at IS NOT NULL OR EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id);
  SELECT RAISE(ABORT, 'approval_invalid: only an operator or an approver requests')
  WHERE NOT EXISTS (SELECT 1 FROM actors WHERE name = NEW.requested_by AND role <> 'viewer' AND revoked_at IS NULL);
  SELECT RAISE(ABORT, 'unaudited: approvals')
  WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'approval:' || NEW.approval_id
    AND action = 'approval_request' AND actor = NEW.requested_by);
END;
CREATE TRIGGER approvals_updated BEFORE UPDATE ON approvals
BEGIN
  SELECT RAISE(ABORT, 'append_only: approvals')
  WHERE OLD.used_at IS NOT NULL OR (NEW.approval_id, NEW.purpose, NEW.subject_sha256, NEW.summary, NEW.reason,
    NEW.needed, NEW.requested_by, NEW.requested_at, NEW.expires_at)
    IS NOT (OLD.approval_id, OLD.purpose, OLD.subject_sha256, OLD.summary, OLD.reason,
    OLD.needed, OLD.requested_by, OLD.requested_at, OLD.expires_at);
  SELECT RAISE(ABORT, 'approval_invalid: not approved, rejected or expired')
  WHERE NEW.used_at IS NOT NULL AND (NEW.used_at > NEW.expires_at
    OR EXISTS (SELECT 1 FROM approval_decisions
      WHERE approval_id = NEW.approval_id AND (decision = 'reject' OR decided_at > NEW.used_at))
    -- Of those who may still approve.
    OR NEW.needed > (SELECT count(*) FROM approval_decisions AS d JOIN actors AS a ON a.name = d.actor
      WHERE d.approval_id = NEW.approval_id AND d.decision = 'approve' AND a.revoked_at IS NULL));
  SELECT RAISE(ABORT, 'unaudited: approvals')
  WHERE NEW.used_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audit_log
    WHERE subject = 'approval:' || NEW.approval_id AND action = 'approval_use');
END;
CREATE TRIGGER approval_decisions_inserted BEFORE INSERT ON approval_decisions
BEGIN
  SELECT RAISE(ABORT, 'approval_invalid: nobody approves their own request')
  WHERE EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id AND requested_by = NEW.actor);
  SELECT RAISE(ABORT, 'approval_invalid: only an approver decides')
  WHERE NOT EXISTS (SELECT 1 FROM actors WHERE name = NEW.actor AND role = 'approver' AND revoked_at IS NULL);
  SELECT RAISE(ABORT, 'approval_invalid: used or expired')
  WHERE NOT EXISTS (SELECT 1 FROM approvals WHERE approval_id = NEW.approval_id AND used_at IS NULL
    AND NEW.decided_at BETWEEN requested_at AND expires_at);
  SELECT RAISE(ABORT, 'append_only: approval_decisions')
  WHERE EXISTS (SELECT 1 FROM approval_decisions WHERE approval_id = NEW.approval_id AND actor = NEW.actor);
  SELECT RAISE(ABORT, 'unaudited: approval_decisions')
  WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'approval:' || NEW.approval_id
    AND action = 'approval_' || NEW.decision AND actor = NEW.actor);
END;
CREATE TRIGGER approvals_not_deleted BEFORE DELETE ON approvals BEGIN SELECT RAISE(ABORT, 'append_only: approvals'); END;
CREATE TRIGGER approval_decisions_not_updated BEFORE UPDATE ON approval_decisions BEGIN SELECT RAISE(ABORT, 'append_only: approval_decisions'); END;
CREATE TRIGGER approval_decisions_not_deleted BEFORE DELETE ON approval_decisions BEGIN SELECT RAISE(ABORT, 'append_only: approval_decisions'); END;
CREATE TRIGGER actors_not_deleted BEFORE DELETE ON actors BEGIN SELECT RAISE(ABORT, 'append_only: actors'); END;
-- Nobody becomes an actor, or gets another token, unless the log says who made it so.
CREATE TRIGGER actors_inserted BEFORE INSERT ON actors
BEGIN
  SELECT RAISE(ABORT, 'append_only: actors')
  WHERE NEW.rotated_at IS NOT NULL OR NEW.revoked_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM actors WHERE name = NEW.name OR token_sha256 = NEW.token_sha256);
  SELECT RAISE(ABORT, 'unaudited: actors')
  WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE subject = 'actor:' || NEW.name AND action = 'actor_add'
    AND actor = NEW.created_by AND json_extract(detail, '$.token_sha256') = NEW.token_sha256);
END;
CREATE TRIGGER actors_changed BEFORE UPDATE ON actors
BEGIN
  SELECT RAISE(ABORT, 'append_only: name and role of an actor, and one that is revoked')
  WHERE OLD.revoked_at IS NOT NULL OR (NEW.name, NEW.role, NEW.created_by, NEW.created_at)
    IS NOT (OLD.name, OLD.role, OLD.created_by, OLD.created_at)
    OR EXISTS (SELECT 1 FROM actors WHERE name <> OLD.name AND token_sha256 = NEW.token_sha256);
  SELECT RAISE(ABORT, 'unaudited: actors')
  WHERE (NEW.token_sha256 <> OLD.token_sha256 AND NOT EXISTS (SELECT 1 FROM audit_log
      WHERE subject = 'actor:' || NEW.name AND action = 'actor_rotate'
        AND json_extract(detail, '$.token_sha256') = NEW.token_sha256))
    OR (NEW.revoked_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audit_log
      WHERE subject = 'actor:' || NEW.name AND action = 'actor_revoke'));
  SELECT RAISE(ABORT, 'last_approver: nobody could approve or add actors any more')
  WHERE NEW.revoked_at IS NOT NULL AND NEW.role = 'approver' AND NOT EXISTS (SELECT 1 FROM actors
    WHERE name <> OLD.name AND role = 'approver' AND revoked_at IS NULL);
END;
CREATE TRIGGER change_records_not_replaced BEFORE INSERT ON change_records
WHEN NEW.closed_at IS NOT NULL OR EXISTS (SELECT 1 FROM change_records WHERE change_ref = NEW.change_ref)
BEGIN SELECT RAISE(ABORT, 'append_only: change_records'); END;
CREATE TRIGGER change_records_closed BEFORE UPDATE ON change_records
WHEN OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
  OR (NEW.change_ref, NEW.title, NEW.description, NEW.opened_by, NEW.opened_at)
    IS NOT (OLD.change_ref, OLD.title, OLD.description, OLD.opened_by, OLD.opened_at)
BEGIN SELECT RAISE(ABORT, 'append_only: change_records'); END;
CREATE TRIGGER change_records_not_deleted BEFORE DELETE ON change_records BEGIN SELECT RAISE(ABORT, 'append_only: change_records'); END;
CREATE TRIGGER incidents_not_replaced BEFORE INSERT ON incidents
WHEN NEW.closed_at IS NOT NULL OR EXISTS (SELECT 1 FROM incidents WHERE incident_ref = NEW.incident_ref)
BEGIN SELECT RAISE(ABORT, 'append_only: incidents'); END;
CREATE TRIGGER incidents_closed BEFORE UPDATE ON incidents
WHEN OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
  OR (NEW.incident_ref, NEW.title, NEW.description, NEW.opened_by, NEW.opened_at)
    IS NOT (OLD.incident_ref, OLD.title, OLD.description, OLD.opened_by, OLD.opened_at)
BEGIN SELECT RAISE(ABORT, 'append_only: incidents'); END;
CREATE TRIGGER incidents_not_deleted BEFORE DELETE ON incidents BEGIN SELECT RAISE(ABORT, 'append_only: incidents'); END;
CREATE TRIGGER config_versions_not_updated BEFORE UPDATE ON config_versions BEGIN SELECT RAISE(ABORT, 'append_only: config_versions'); END;
CREATE TRIGGER config_versions_not_deleted BEFORE DELETE ON config_versions BEGIN SELECT RAISE(ABORT, 'append_only: config_versions'); END;
CREATE TRIGGER replay_runs_finished BEFORE UPDATE ON replay_runs
WHEN NEW.replay_run_id <> OLD.replay_run_id OR NEW.plan_sha256 <> OLD.plan_sha256 OR NEW.actor <> OLD.actor OR NEW.reason <> OLD.reason
BEGIN SELECT RAISE(ABORT, 'append_only: replay_runs'); END;
CREATE TRIGGER replay_runs_not_deleted BEFORE DELETE ON replay_runs BEGIN SELECT RAISE(ABORT, 'append_only: replay_runs'); END;
CREATE TRIGGER replay_run_records_final BEFORE UPDATE ON replay_run_records WHEN OLD.outcome <> 'due'
BEGIN SELECT RAISE(ABORT, 'append_only: replay_run_records'); END;
CREATE TRIGGER replay_run_records_not_deleted BEFORE DELETE ON replay_run_records BEGIN SELECT RAISE(ABORT, 'append_only: replay_run_records'); END;
