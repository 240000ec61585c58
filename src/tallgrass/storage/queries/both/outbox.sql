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

-- name: deliveries_end(after, skipped)
-- Where a range of so many deliveries and one ends.
SELECT outbox_id FROM outbox_delivery WHERE outbox_id > :after
ORDER BY outbox_id LIMIT 1 OFFSET :skipped;

-- name: deliveries_end_failed(after, skipped)
SELECT outbox_id FROM outbox_delivery WHERE outbox_id > :after AND status = 'failed'
ORDER BY outbox_id LIMIT 1 OFFSET :skipped;

-- name: deliveries_end_coded(after, skipped, error_code)
SELECT outbox_id FROM outbox_delivery WHERE outbox_id > :after AND error_code = :error_code AND error_code IS NOT NULL
ORDER BY outbox_id LIMIT 1 OFFSET :skipped;

-- name: deliveries_of_subject(subject, size)
{listed}
FROM outbox AS e JOIN outbox_delivery AS d ON d.outbox_id = e.outbox_id
WHERE e.subject = :subject ORDER BY d.outbox_id DESC LIMIT :size;

-- name: list_deliveries(after, until, size, target, dataset, event_name, error_code, state)
-- One statement for each index; what no index tells is looked for as far as `until`.
{listed} {between} AND {wanted} ORDER BY d.outbox_id LIMIT :size;

-- name: list_deliveries_failed(after, until, size, target, dataset, event_name, error_code, state)
{listed} {between} AND d.status = 'failed' AND {wanted} ORDER BY d.outbox_id LIMIT :size;

-- name: list_deliveries_coded(after, until, size, target, dataset, event_name, error_code, state)
{listed} {between} AND d.error_code = :error_code AND d.error_code IS NOT NULL AND {wanted}
ORDER BY d.outbox_id LIMIT :size;
