-- Switches, audit log.

-- name: list_switches()
SELECT scope, dataset, is_on, actor, reason, changed_at, by_freeze
FROM kill_switches ORDER BY scope, dataset;

-- name: last_seal()
SELECT position, chain_hash FROM audit_seals ORDER BY position DESC LIMIT 1;

-- name: unsealed_audit(size)
SELECT e.entry_id, e.occurred_at, e.actor, e.action, e.subject, e.reason, e.approval_ref, e.detail
FROM audit_log AS e LEFT JOIN audit_seals AS s ON s.entry_id = e.entry_id
WHERE s.entry_id IS NULL ORDER BY e.entry_id LIMIT :size;

-- name: sealed_audit(after, size)
-- In order of the chain; an entry that was removed leaves its seal with nulls.
SELECT s.position, s.entry_id, s.entry_hash, s.chain_hash, e.entry_id AS found, e.occurred_at,
  e.actor, e.action, e.subject, e.reason, e.approval_ref, e.detail
FROM audit_seals AS s LEFT JOIN audit_log AS e ON e.entry_id = s.entry_id
WHERE s.position > :after ORDER BY s.position LIMIT :size;

-- name: count_unsealed()
SELECT count(*) AS entries FROM audit_log AS e
LEFT JOIN audit_seals AS s ON s.entry_id = e.entry_id WHERE s.entry_id IS NULL;

-- name: list_audit(after, size, actor, action, subject)
-- One statement for each condition that has an index: SQLite makes its plan before it knows which
-- are given.
{entries} WHERE e.entry_id > :after AND {wanted}
ORDER BY e.entry_id LIMIT :size;

-- name: list_audit_of_subject(after, size, actor, action, subject)
{entries} WHERE e.subject = :subject AND e.entry_id > :after AND {wanted}
ORDER BY e.entry_id LIMIT :size;

-- name: list_audit_of_actor(after, size, actor, action, subject)
{entries} WHERE e.actor = :actor AND e.entry_id > :after AND {wanted}
ORDER BY e.entry_id LIMIT :size;

-- name: list_audit_of_action(after, size, actor, action, subject)
{entries} WHERE e.action = :action AND e.entry_id > :after AND {wanted}
ORDER BY e.entry_id LIMIT :size;

-- name: list_audit_back(before, size, actor, action, subject)
-- The same, newest first.
{entries} WHERE e.entry_id < :before AND {wanted}
ORDER BY e.entry_id DESC LIMIT :size;

-- name: list_audit_back_of_subject(before, size, actor, action, subject)
{entries} WHERE e.subject = :subject AND e.entry_id < :before AND {wanted}
ORDER BY e.entry_id DESC LIMIT :size;

-- name: list_audit_back_of_actor(before, size, actor, action, subject)
{entries} WHERE e.actor = :actor AND e.entry_id < :before AND {wanted}
ORDER BY e.entry_id DESC LIMIT :size;

-- name: list_audit_back_of_action(before, size, actor, action, subject)
{entries} WHERE e.action = :action AND e.entry_id < :before AND {wanted}
ORDER BY e.entry_id DESC LIMIT :size;
