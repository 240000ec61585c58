-- Switches, audit log.

-- name: upsert_switch(now, scope, dataset, is_on, actor, reason)
INSERT INTO kill_switches (scope, dataset, is_on, actor, reason, changed_at)
VALUES (:scope, :dataset, :is_on, :actor, :reason, :now)
ON CONFLICT (scope, dataset) DO UPDATE SET is_on = excluded.is_on, actor = excluded.actor,
  reason = excluded.reason, changed_at = excluded.changed_at, by_freeze = 0;

-- name: freeze_scope(now, scope, actor, reason)
-- A switch that is on already stays what it is: the end of the freeze must not clear it.
INSERT INTO kill_switches (scope, dataset, is_on, actor, reason, changed_at, by_freeze)
VALUES (:scope, '*', 1, :actor, :reason, :now, 1)
ON CONFLICT (scope, dataset) DO UPDATE SET is_on = 1, actor = excluded.actor,
  reason = excluded.reason, changed_at = excluded.changed_at, by_freeze = 1
WHERE kill_switches.is_on = 0;

-- name: frozen_scopes()
SELECT scope FROM kill_switches WHERE is_on = 1 AND by_freeze = 1 ORDER BY scope;

-- name: thaw(now, actor, reason)
UPDATE kill_switches SET is_on = 0, by_freeze = 0, actor = :actor, reason = :reason,
  changed_at = :now
WHERE is_on = 1 AND by_freeze = 1;

-- name: insert_audit(now; actor, action, subject, reason, approval_ref, detail)
INSERT INTO audit_log (occurred_at, actor, action, subject, reason, approval_ref, detail)
VALUES (:now, :actor, :action, :subject, :reason, :approval_ref, :detail);

-- part: entries
SELECT e.entry_id, e.occurred_at, e.actor, e.action, e.subject, e.reason, e.approval_ref, e.detail,
  s.position
FROM audit_log AS e LEFT JOIN audit_seals AS s ON s.entry_id = e.entry_id

-- part: wanted
(:actor IS NULL OR e.actor = :actor) AND (:action IS NULL OR e.action = :action)
  AND (:subject IS NULL OR e.subject = :subject)

-- name: insert_seals(now; position, entry_id, entry_hash, chain_hash)
INSERT INTO audit_seals (position, entry_id, entry_hash, chain_hash, sealed_at)
VALUES (:position, :entry_id, :entry_hash, :chain_hash, :now);
