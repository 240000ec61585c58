-- Switches, audit log.

-- name: upsert_switch(now, scope, dataset, is_on, actor, reason)
INSERT INTO kill_switches (scope, dataset, is_on, actor, reason, changed_at)
VALUES (:scope, :dataset, :is_on, :actor, :reason, :now)
ON CONFLICT (scope, dataset) DO UPDATE SET is_on = excluded.is_on, actor = excluded.actor,
  reason = excluded.reason, changed_at = excluded.changed_at, by_freeze = false;

-- name: freeze_scope(now, scope, actor, reason)
-- A switch that is on already stays what it is: the end of the freeze must not clear it.
INSERT INTO kill_switches (scope, dataset, is_on, actor, reason, changed_at, by_freeze)
VALUES (:scope, '*', true, :actor, :reason, :now, true)
ON CONFLICT (scope, dataset) DO UPDATE SET is_on = true, actor = excluded.actor,
  reason = excluded.reason, changed_at = excluded.changed_at, by_freeze = true
WHERE NOT kill_switches.is_on;

-- name: frozen_scopes()
SELECT scope FROM kill_switches WHERE is_on AND by_freeze ORDER BY scope;

-- name: thaw(now, actor, reason)
UPDATE kill_switches SET is_on = false, by_freeze = false, actor = :actor, reason = :reason,
  changed_at = :now
WHERE is_on AND by_freeze;

-- name: insert_audit(now; actor, action, subject, reason, approval_ref, detail)
INSERT INTO audit_log (occurred_at, actor, action, subject, reason, approval_ref, detail)
SELECT :now, x.actor, x.action, x.subject, x.reason, x.approval_ref, x.detail
FROM each_row AS x;

-- part: entries
SELECT e.entry_id, e.occurred_at, e.actor, e.action, e.subject, e.reason, e.approval_ref, e.detail,
  s.position
FROM audit_log AS e LEFT JOIN audit_seals AS s ON s.entry_id = e.entry_id

-- part: wanted
(:actor::text IS NULL OR e.actor = :actor) AND (:action::text IS NULL OR e.action = :action)
  AND (:subject::text IS NULL OR e.subject = :subject)

-- name: lock_sealer(rows)
SELECT pg_advisory_xact_lock(72319085, 1) WHERE :rows::json IS NOT NULL;

-- name: insert_seals(now; position, entry_id, entry_hash, chain_hash)
INSERT INTO audit_seals (position, entry_id, entry_hash, chain_hash, sealed_at)
SELECT x.position, x.entry_id, x.entry_hash, x.chain_hash, :now
FROM each_row AS x
ORDER BY x.position;
