-- Requests, decisions, and the one use of each.

-- name: insert_approval(now, approval_id, purpose, subject_sha256, summary, reason, needed, requested_by, expires_at)
INSERT INTO approvals (approval_id, purpose, subject_sha256, summary, reason, needed, requested_by,
  requested_at, expires_at)
VALUES (:approval_id, :purpose, :subject_sha256, :summary, :reason, :needed, :requested_by, :now,
  :expires_at);

-- name: approval(approval_id)
SELECT approval_id, purpose, subject_sha256, summary, reason, needed, requested_by, requested_at,
  expires_at, used_at, used_for
FROM approvals WHERE approval_id = :approval_id;

-- name: approvals_of_subject(subject_sha256, purpose)
SELECT approval_id, purpose, subject_sha256, summary, reason, needed, requested_by, requested_at,
  expires_at, used_at, used_for
FROM approvals WHERE subject_sha256 = :subject_sha256 AND purpose = :purpose
ORDER BY requested_at DESC, approval_id DESC LIMIT 100;

-- name: insert_decision(now, approval_id, actor, decision, note)
INSERT INTO approval_decisions (approval_id, actor, decision, note, decided_at)
VALUES (:approval_id, :actor, :decision, :note, :now);

-- name: use_approval(now, approval_id, used_for)
UPDATE approvals SET used_at = :now, used_for = :used_for
WHERE approval_id = :approval_id AND used_at IS NULL;
