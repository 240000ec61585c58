-- Who may act.

-- name: lock_governance(rows)
-- One at a time: who may act, and what is approved, must not change under a decision.
SELECT pg_advisory_xact_lock(72319085, 2) WHERE :rows::json IS NOT NULL;
