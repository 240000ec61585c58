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

-- name: page_approvals(after, size)
-- Newest first.
SELECT approval_id, purpose, subject_sha256, summary, reason, needed, requested_by, requested_at,
  expires_at, used_at, used_for
FROM approvals
WHERE :after::text IS NULL OR (requested_at, approval_id) < (
  SELECT requested_at, approval_id FROM approvals WHERE approval_id = :after)
ORDER BY requested_at DESC, approval_id DESC LIMIT :size;

-- name: decisions(rows)
SELECT d.approval_id, d.actor, d.decision, d.note, d.decided_at, a.revoked_at
FROM approval_decisions AS d JOIN actors AS a ON a.name = d.actor
WHERE d.approval_id IN (SELECT value FROM json_array_elements_text(:rows::json))
ORDER BY d.decided_at, d.actor;

-- name: insert_decision(now, approval_id, actor, decision, note)
INSERT INTO approval_decisions (approval_id, actor, decision, note, decided_at)
VALUES (:approval_id, :actor, :decision, :note, :now);

-- name: use_approval(now, approval_id, used_for)
UPDATE approvals SET used_at = :now, used_for = :used_for
WHERE approval_id = :approval_id AND used_at IS NULL;
