-- Requests, decisions, and the one use of each.

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
