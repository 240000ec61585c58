-- Replay runs, what becomes of their records, and what a commit tells them.

-- name: insert_replay_run(now, replay_run_id, mode, intent, reason, actor, selection, plan_sha256, approval_id, change_ref, incident_ref, policy_ref, expected, code_version, config_version, planned)
INSERT INTO replay_runs (replay_run_id, mode, intent, reason, actor, selection, plan_sha256,
  approval_id, change_ref, incident_ref, policy_ref, expected, code_version, config_version,
  planned, started_at)
VALUES (:replay_run_id, :mode, :intent, :reason, :actor, :selection, :plan_sha256,
  :approval_id, :change_ref, :incident_ref, :policy_ref, :expected, :code_version, :config_version,
  :planned, :now)
ON CONFLICT DO NOTHING;

-- name: recount_replay_run(replay_run_id, selection, planned)
UPDATE replay_runs SET selection = :selection, planned = :planned, finished_at = NULL
WHERE replay_run_id = :replay_run_id;

-- name: finish_replay_run(now, replay_run_id)
UPDATE replay_runs SET finished_at = :now
WHERE replay_run_id = :replay_run_id AND finished_at IS NULL;

-- name: newest_in_hand()
-- When the newest message was announced whose unit somebody works on now. What a replay's own queue
-- brings tells nothing of ingest.
SELECT max(event_time) AS newest FROM wal_attempts
WHERE status = 'pending' AND sqs_message_id IS NOT NULL AND replay_run_id IS NULL;
