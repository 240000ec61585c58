-- Delivery of events: claimed, settled, asked for again; counted, listed and told of.

-- part: state
-- Where a delivery stands, as people see it.
CASE WHEN d.status = 'dispatched' THEN 'dispatched'
    WHEN d.claimed_by IS NOT NULL THEN 'in_flight' WHEN d.status = 'pending' THEN 'pending'
    WHEN d.due_at IS NULL THEN 'exhausted' ELSE 'retrying' END

-- name: due_deliveries(now, target, size)
-- What a switch stops is left where it is.
SELECT d.attempt, d.budget_from, d.claimed_by, e.outbox_id, e.subject, e.pipeline_id, e.event_name,
  e.dataset_id, e.version, e.idempotency_key, e.target, e.payload, e.care_label, e.governance_ref,
  e.created_at
FROM outbox_delivery AS d CROSS JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.target = :target AND d.ready_at <= :now AND d.due_at <= :now
  AND d.dataset_id NOT IN (SELECT dataset FROM kill_switches WHERE scope = 'dispatch' AND is_on)
  AND NOT EXISTS (SELECT 1 FROM kill_switches
    WHERE scope = 'dispatch' AND is_on AND dataset = '*')
ORDER BY d.ready_at, d.outbox_id LIMIT :size;

-- name: due_heads(now, target, size)
-- The first open row of each dataset, if it is due: the index is asked once a dataset.
WITH RECURSIVE datasets (dataset_id) AS (
  SELECT * FROM (SELECT dataset_id FROM outbox_delivery
    WHERE target = :target AND status <> 'dispatched' ORDER BY dataset_id LIMIT 1)
  UNION ALL
  SELECT (SELECT next.dataset_id FROM outbox_delivery AS next
    WHERE next.target = :target AND next.status <> 'dispatched'
      AND next.dataset_id > datasets.dataset_id
    ORDER BY next.dataset_id LIMIT 1)
  FROM datasets WHERE datasets.dataset_id IS NOT NULL
), heads (written) AS (
  SELECT (SELECT first.written FROM outbox_delivery AS first
    WHERE first.target = :target AND first.status <> 'dispatched'
      AND first.dataset_id = datasets.dataset_id
    ORDER BY first.written LIMIT 1)
  FROM datasets
  WHERE datasets.dataset_id NOT IN (
      SELECT dataset FROM kill_switches WHERE scope = 'dispatch' AND is_on)
    AND NOT EXISTS (SELECT 1 FROM kill_switches
      WHERE scope = 'dispatch' AND is_on AND dataset = '*')
)
SELECT d.attempt, d.budget_from, d.claimed_by, e.outbox_id, e.subject, e.pipeline_id, e.event_name,
  e.dataset_id, e.version, e.idempotency_key, e.target, e.payload, e.care_label, e.governance_ref,
  e.created_at
FROM heads CROSS JOIN outbox_delivery AS d ON d.written = heads.written
CROSS JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.due_at <= :now
ORDER BY d.due_at, d.outbox_id LIMIT :size;

-- name: insert_lost_attempts(now; outbox_id, attempt, claimed_by)
INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, error_code, ended_at)
VALUES (:outbox_id, :attempt, :claimed_by, 'lost', 'dispatcher_lost', :now);

-- name: exhaust_deliveries(now, last_error; outbox_id)
-- One that nobody holds failed before, by an error that is still true.
UPDATE outbox_delivery SET status = 'failed', due_at = NULL, ready_at = NULL, claimed_by = NULL,
  error_code = CASE WHEN claimed_by IS NULL AND error_code IS NOT NULL THEN error_code
    ELSE 'dispatcher_lost' END,
  last_error = CASE WHEN claimed_by IS NULL AND error_code IS NOT NULL THEN last_error
    ELSE :last_error END,
  updated_at = CASE WHEN status = 'failed' THEN updated_at ELSE :now END
WHERE outbox_id = :outbox_id;

-- name: claim_deliveries(leased_until, dispatcher; outbox_id)
UPDATE outbox_delivery
SET attempt = attempt + 1, due_at = :leased_until, claimed_by = :dispatcher
WHERE outbox_id = :outbox_id;

-- name: outbox_events(rows)
SELECT e.outbox_id, e.subject, e.pipeline_id, e.event_name, e.dataset_id, e.version,
  e.idempotency_key, e.target, e.payload, e.care_label, e.governance_ref, e.created_at
FROM json_each(:rows) AS wanted CROSS JOIN outbox AS e ON e.outbox_id = wanted.value;

-- name: held_deliveries(dispatcher, rows)
-- Those of the rows that the dispatcher still holds.
SELECT d.outbox_id, d.attempt FROM json_each(:rows) AS wanted
CROSS JOIN outbox_delivery AS d ON d.outbox_id = wanted.value
WHERE d.claimed_by = :dispatcher ORDER BY d.outbox_id;

-- name: deliver_rows(now, dispatcher, attempt; outbox_id)
UPDATE outbox_delivery SET status = 'dispatched', due_at = NULL, ready_at = NULL, claimed_by = NULL,
  error_code = NULL, last_error = NULL, updated_at = :now
WHERE outbox_id = :outbox_id AND attempt = :attempt AND claimed_by = :dispatcher;

-- name: fail_rows(now, dispatcher, attempt; outbox_id, due_at, error_code, last_error)
UPDATE outbox_delivery SET status = 'failed', due_at = :due_at, ready_at = :due_at, claimed_by = NULL,
  error_code = :error_code, last_error = :last_error,
  updated_at = CASE WHEN status = 'failed' THEN updated_at ELSE :now END
WHERE outbox_id = :outbox_id AND attempt = :attempt AND claimed_by = :dispatcher;

-- name: release_rows(now, dispatcher, attempt; outbox_id)
-- It was not sent, so it costs no try.
UPDATE outbox_delivery SET due_at = :now, ready_at = :now, claimed_by = NULL, budget_from = budget_from + 1
WHERE outbox_id = :outbox_id AND attempt = :attempt AND claimed_by = :dispatcher;

-- name: insert_delivery_attempts(now, dispatcher, attempt, outcome, duplicate; outbox_id, error_code, error)
INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, duplicate, error_code, error, ended_at)
VALUES (:outbox_id, :attempt, :dispatcher, :outcome, :duplicate, :error_code, :error, :now);

-- name: written_attempts(dispatcher, rows)
-- Those that the dispatcher wrote with just this outcome.
SELECT a.outbox_id FROM json_each(:rows) AS wanted
CROSS JOIN outbox_attempts AS a
  ON a.outbox_id = wanted.value ->> 0 AND a.attempt = wanted.value ->> 1
WHERE a.dispatcher = :dispatcher AND a.outcome = wanted.value ->> 2;

-- name: held_by_dispatcher(target, dispatcher)
SELECT outbox_id, attempt FROM outbox_delivery
WHERE target = :target AND ready_at IS NOT NULL AND claimed_by = :dispatcher ORDER BY outbox_id;

-- name: exhausted_deliveries(after, size, target, error_code)
SELECT outbox_id, target, dataset_id, attempt, error_code FROM outbox_delivery
WHERE status <> 'dispatched' AND status = 'failed' AND due_at IS NULL
  AND (:after IS NULL OR outbox_id > :after)
  AND (:target IS NULL OR target = :target) AND (:error_code IS NULL OR error_code = :error_code)
ORDER BY outbox_id LIMIT :size;

-- name: deliveries_by_id(rows)
SELECT d.outbox_id, d.target, d.dataset_id, d.status, {state} AS state, d.attempt, d.due_at, d.error_code,
  d.last_error, d.updated_at, e.event_name, e.pipeline_id, e.created_at
FROM outbox_delivery AS d JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.outbox_id IN (SELECT value FROM json_each(:rows)) ORDER BY d.outbox_id;

-- name: requeue_deliveries(now; outbox_id, attempt)
-- As it was read: exhausted, and after that attempt.
UPDATE outbox_delivery SET status = 'pending', due_at = :now, ready_at = :now, budget_from = attempt, updated_at = :now
WHERE outbox_id = :outbox_id AND attempt = :attempt AND status = 'failed' AND due_at IS NULL;

-- name: count_open_deliveries()
SELECT d.target,
  count(*) FILTER (WHERE {state} = 'pending') AS pending,
  count(*) FILTER (WHERE {state} = 'in_flight') AS in_flight,
  count(*) FILTER (WHERE {state} = 'retrying') AS retrying,
  count(*) FILTER (WHERE {state} = 'exhausted') AS exhausted,
  min(e.created_at) AS oldest_at
FROM outbox_delivery AS d INDEXED BY outbox_delivery_open CROSS JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.status <> 'dispatched' GROUP BY d.target ORDER BY d.target;

-- name: count_held_back(target)
-- What stands behind an exhausted event of its dataset, on a target that keeps order.
SELECT d.dataset_id, count(*) AS held FROM outbox_delivery AS d
WHERE d.target = :target AND d.status <> 'dispatched' AND EXISTS (
  SELECT 1 FROM outbox_delivery AS x
  WHERE x.target = :target AND x.status <> 'dispatched' AND x.dataset_id = d.dataset_id
    AND x.status = 'failed' AND x.due_at IS NULL AND x.written < d.written)
GROUP BY d.dataset_id ORDER BY d.dataset_id;

-- name: last_failures(now)
-- Of each target the failure that is tried again last: by it, a target that is down is tried.
-- Of the row with the maximum are the columns beside it.
SELECT d.target, d.error_code, d.last_error, max(d.due_at) AS next_try_at,
  (SELECT count(*) FROM outbox_delivery AS w
    WHERE w.target = d.target AND w.ready_at <= :now AND w.claimed_by IS NULL) AS due
FROM outbox_delivery AS d
WHERE d.status <> 'dispatched' AND {state} = 'retrying' AND d.due_at > :now
GROUP BY d.target ORDER BY d.target;

-- name: waits_for_transaction(now, target)
-- None ever does: there is one writer at a time.
SELECT NULL AS since, NULL AS pid, 0 AS events WHERE :now = '' AND :target = '';

-- part: listed
SELECT d.outbox_id, d.target, d.dataset_id, d.status, {state} AS state, d.attempt, d.due_at, d.error_code,
  d.last_error, d.updated_at, e.event_name, e.pipeline_id, e.created_at

-- part: between
FROM outbox_delivery AS d CROSS JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.outbox_id > :after AND d.outbox_id <= :until

-- part: wanted
(:target IS NULL OR d.target = :target) AND (:dataset IS NULL OR d.dataset_id = :dataset)
  AND (:event_name IS NULL OR e.event_name = :event_name)
  AND (:error_code IS NULL OR d.error_code = :error_code)
  AND (:state IS NULL OR :state = {state})

-- name: list_deliveries_open(after, until, size, target, dataset, event_name, error_code, state)
-- Few are open: all are read through their index, which has another order, and sorted.
{listed}
FROM outbox_delivery AS d INDEXED BY outbox_delivery_open
CROSS JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.status <> 'dispatched' AND d.outbox_id > :after AND d.outbox_id <= :until AND {wanted}
ORDER BY d.outbox_id LIMIT :size;

-- name: delivery_ledger(after_id, after_attempt, size)
SELECT a.outbox_id, a.attempt, a.outcome, a.duplicate, a.error_code, a.error, a.ended_at,
  e.pipeline_id, e.event_name, e.dataset_id, e.target, e.care_label, e.created_at
FROM outbox_attempts AS a CROSS JOIN outbox AS e ON e.outbox_id = a.outbox_id
WHERE (a.outbox_id, a.attempt) > (:after_id, :after_attempt)
ORDER BY a.outbox_id, a.attempt LIMIT :size;
