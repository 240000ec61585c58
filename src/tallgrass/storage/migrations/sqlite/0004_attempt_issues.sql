-- What the operators of an attempt found, of a success too: why a unit is `suspect`.

ALTER TABLE wal_attempts ADD COLUMN issues TEXT
  CHECK (issues IS NULL OR (status <> 'pending' AND issues LIKE '["%"]'));

-- A closed attempt keeps its issues as it keeps all else.
DROP TRIGGER wal_attempts_updated;
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
     NEW.stac_status, NEW.provenance_status, NEW.item_sha256, NEW.provenance_sha256, NEW.prov_activity_id, NEW.openlineage_run_id, NEW.issues)
    IS
    (OLD.wal_id, OLD.attempt_no, OLD.intent, OLD.queue, OLD.event_time, OLD.sns_message_id,
     OLD.sqs_message_id, OLD.object_etag, OLD.object_size, OLD.object_sequencer, OLD.object_version_id, OLD.read_etag,
     OLD.evidence, OLD.code_version, OLD.config_version, OLD.replay_run_id, OLD.ingest_run_id, OLD.worker_id,
     OLD.worker_incarnation, OLD.claim_id, OLD.claimed_at, OLD.claimed_from, OLD.claimed_version, OLD.commit_id,
     OLD.closed_at, OLD.closed_version, OLD.error_code, OLD.error_message, OLD.integrity_status, OLD.metadata_status,
     OLD.stac_status, OLD.provenance_status, OLD.item_sha256, OLD.provenance_sha256, OLD.prov_activity_id, OLD.openlineage_run_id, OLD.issues));
END;

-- The edge that closes an attempt tells them.
DROP VIEW wal_history;
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
