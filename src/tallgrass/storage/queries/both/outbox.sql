-- Delivery of events: claimed, settled, asked for again; counted, listed and told of.

-- name: is_due(now, target)
SELECT 1 AS found FROM outbox_delivery
WHERE target = :target AND ready_at <= :now AND due_at <= :now LIMIT 1;

-- name: count_dispatched()
SELECT target, count(*) AS dispatched FROM outbox_delivery WHERE status = 'dispatched'
GROUP BY target ORDER BY target;

-- name: attempts_of_event(outbox_id)
SELECT attempt, dispatcher, outcome, duplicate, error_code, error, ended_at FROM outbox_attempts
WHERE outbox_id = :outbox_id ORDER BY attempt;
