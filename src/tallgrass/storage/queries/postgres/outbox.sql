-- Delivery of events: claimed, settled, asked for again; counted, listed and told of.

-- part: state
-- Where a delivery stands, as people see it.
CASE WHEN d.status = 'dispatched' THEN 'dispatched'
    WHEN d.claimed_by IS NOT NULL THEN 'in_flight' WHEN d.status = 'pending' THEN 'pending'
    WHEN d.due_at IS NULL THEN 'exhausted' ELSE 'retrying' END

-- name: due_deliveries(now, target, size)
-- Rows that another dispatcher is about to claim are passed over; one that it has just claimed is
-- looked at again as it is now, and then not due. What a switch stops is left where it is.
-- A limit that the planner does not know makes it read in the index's order (else it sorted all that
-- was due); the events come by key, one by one (else it read the whole table).
WITH due AS MATERIALIZED (
  SELECT d.outbox_id, d.attempt, d.budget_from, d.claimed_by, d.ready_at FROM outbox_delivery AS d
  WHERE d.target = :target AND d.ready_at <= :now AND d.due_at <= :now
    AND d.dataset_id NOT IN (SELECT dataset FROM kill_switches WHERE scope = 'dispatch' AND is_on)
    AND NOT EXISTS (SELECT 1 FROM kill_switches
      WHERE scope = 'dispatch' AND is_on AND dataset = '*')
  ORDER BY d.ready_at, d.outbox_id LIMIT (SELECT :size)
  FOR NO KEY UPDATE OF d SKIP LOCKED
)
SELECT due.attempt, due.budget_from, due.claimed_by::text, e.*
FROM due CROSS JOIN LATERAL (
  SELECT outbox_id::text, subject, pipeline_id, event_name, dataset_id, version, idempotency_key,
    target, payload, care_label, governance_ref, created_at
  FROM outbox WHERE outbox_id = due.outbox_id OFFSET 0) AS e
ORDER BY due.ready_at, due.outbox_id;

-- part: of_this_database
NOT EXISTS (SELECT 1 FROM pg_stat_activity AS a
      WHERE a.backend_xid = running.xid::xid AND a.datname <> current_database())
    AND NOT EXISTS (SELECT 1 FROM pg_prepared_xacts AS p
      WHERE p.transaction = running.xid::xid AND p.database <> current_database())

-- name: due_heads(now, target, size)
-- The first open row of each dataset, if it is due: the index is asked once a dataset. A row counts
-- only when no transaction can come any more that wrote before it. Transactions of other databases of
-- the server have numbers of the same row, but cannot come; one that nothing is known of may.
WITH RECURSIVE coming AS (
  SELECT running.xid FROM pg_snapshot_xip(pg_current_snapshot()) AS running (xid)
  WHERE {of_this_database}
), datasets AS (
  (SELECT dataset_id FROM outbox_delivery WHERE target = :target AND status <> 'dispatched'
    ORDER BY dataset_id LIMIT 1)
  UNION ALL
  SELECT (SELECT next.dataset_id FROM outbox_delivery AS next
    WHERE next.target = :target AND next.status <> 'dispatched'
      AND next.dataset_id > datasets.dataset_id
    ORDER BY next.dataset_id LIMIT 1)
  FROM datasets WHERE datasets.dataset_id IS NOT NULL
), heads AS MATERIALIZED (
  SELECT head.outbox_id FROM datasets CROSS JOIN LATERAL (
    SELECT first.outbox_id, first.written FROM outbox_delivery AS first
    WHERE first.target = :target AND first.status <> 'dispatched'
      AND first.dataset_id = datasets.dataset_id
    ORDER BY first.written, first.outbox_id LIMIT 1) AS head
  WHERE (head.written < pg_snapshot_xmin(pg_current_snapshot())
      OR NOT EXISTS (SELECT 1 FROM coming WHERE coming.xid < head.written))
    AND datasets.dataset_id NOT IN (
      SELECT dataset FROM kill_switches WHERE scope = 'dispatch' AND is_on)
    AND NOT EXISTS (SELECT 1 FROM kill_switches
      WHERE scope = 'dispatch' AND is_on AND dataset = '*')
)
SELECT d.attempt, d.budget_from, d.claimed_by::text, e.outbox_id::text, e.subject, e.pipeline_id,
  e.event_name, e.dataset_id, e.version, e.idempotency_key, e.target, e.payload, e.care_label, e.governance_ref,
  e.created_at
FROM heads JOIN outbox_delivery AS d ON d.outbox_id = heads.outbox_id
JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.due_at <= :now AND d.status <> 'dispatched'
ORDER BY d.due_at, d.outbox_id LIMIT :size
FOR NO KEY UPDATE OF d SKIP LOCKED;

-- name: insert_lost_attempts(now; outbox_id, attempt, claimed_by)
INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, error_code, ended_at)
SELECT x.outbox_id, x.attempt, x.claimed_by, 'lost', 'dispatcher_lost', :now
FROM each_row AS x;

-- name: exhaust_deliveries(now, last_error; outbox_id)
-- One that nobody holds failed before, by an error that is still true.
UPDATE outbox_delivery AS d SET status = 'failed', due_at = NULL, ready_at = NULL, claimed_by = NULL,
  error_code = CASE WHEN d.claimed_by IS NULL AND d.error_code IS NOT NULL THEN d.error_code
    ELSE 'dispatcher_lost' END,
  last_error = CASE WHEN d.claimed_by IS NULL AND d.error_code IS NOT NULL THEN d.last_error
    ELSE :last_error END,
  updated_at = CASE WHEN d.status = 'failed' THEN d.updated_at ELSE :now END
FROM each_row AS x WHERE d.outbox_id = x.outbox_id;

-- name: claim_deliveries(leased_until, dispatcher; outbox_id)
-- By an array, here and below: a join alone was planned as a scan of all deliveries.
UPDATE outbox_delivery AS d
SET attempt = d.attempt + 1, due_at = :leased_until, claimed_by = :dispatcher
WHERE d.outbox_id = ANY (ARRAY(SELECT x.outbox_id FROM each_row AS x));

-- name: outbox_events(rows)
SELECT outbox_id, subject, pipeline_id, event_name, dataset_id, version, idempotency_key, target,
  payload, care_label, governance_ref, created_at
FROM outbox WHERE outbox_id IN (SELECT value::uuid FROM json_array_elements_text(:rows::json));

-- name: held_deliveries(dispatcher, rows)
-- Those of the rows that the dispatcher still holds; locked, so that nobody claims them meanwhile.
SELECT d.outbox_id, d.attempt FROM outbox_delivery AS d
WHERE d.outbox_id IN (SELECT value::uuid FROM json_array_elements_text(:rows::json))
  AND d.claimed_by = :dispatcher
ORDER BY d.outbox_id FOR NO KEY UPDATE;

-- name: deliver_rows(now, dispatcher, attempt; outbox_id)
UPDATE outbox_delivery AS d SET status = 'dispatched', due_at = NULL, ready_at = NULL, claimed_by = NULL,
  error_code = NULL, last_error = NULL, updated_at = :now
WHERE d.outbox_id = ANY (ARRAY(SELECT x.outbox_id FROM each_row AS x))
  AND d.attempt = :attempt AND d.claimed_by = :dispatcher;

-- name: fail_rows(now, dispatcher, attempt; outbox_id, due_at, error_code, last_error)
UPDATE outbox_delivery AS d SET status = 'failed', due_at = x.due_at, ready_at = x.due_at, claimed_by = NULL,
  error_code = x.error_code, last_error = x.last_error,
  updated_at = CASE WHEN d.status = 'failed' THEN d.updated_at ELSE :now END
FROM each_row AS x
WHERE d.outbox_id = ANY (ARRAY(SELECT x.outbox_id FROM each_row AS x)) AND d.outbox_id = x.outbox_id
  AND CASE WHEN d.attempt = :attempt AND d.claimed_by = :dispatcher THEN true ELSE false END;

-- name: release_rows(now, dispatcher, attempt; outbox_id)
-- It was not sent, so it costs no try.
UPDATE outbox_delivery AS d SET due_at = :now, ready_at = :now, claimed_by = NULL, budget_from = d.budget_from + 1
WHERE d.outbox_id = ANY (ARRAY(SELECT x.outbox_id FROM each_row AS x))
  AND d.attempt = :attempt AND d.claimed_by = :dispatcher;

-- name: insert_delivery_attempts(now, dispatcher, attempt, outcome, duplicate; outbox_id, error_code, error)
INSERT INTO outbox_attempts (outbox_id, attempt, dispatcher, outcome, duplicate, error_code, error, ended_at)
SELECT x.outbox_id, :attempt, :dispatcher, :outcome, :duplicate, x.error_code, x.error, :now
FROM each_row AS x
ORDER BY x.outbox_id;

-- name: written_attempts(dispatcher, rows)
-- Those that the dispatcher wrote with just this outcome.
SELECT outbox_id FROM outbox_attempts
WHERE dispatcher = :dispatcher
  AND (outbox_id, attempt, outcome) IN (
    SELECT (value ->> 0)::uuid, (value ->> 1)::integer, value ->> 2
    FROM json_array_elements(:rows::json));

-- name: held_by_dispatcher(target, dispatcher)
SELECT d.outbox_id, d.attempt FROM outbox_delivery AS d
WHERE d.target = :target AND d.ready_at IS NOT NULL AND d.claimed_by = :dispatcher
ORDER BY d.outbox_id FOR NO KEY UPDATE;

-- name: exhausted_deliveries(after, size, target, error_code)
SELECT d.outbox_id, d.target, d.dataset_id, d.attempt, d.error_code FROM outbox_delivery AS d
WHERE d.status <> 'dispatched' AND d.status = 'failed' AND d.due_at IS NULL
  AND (:after::uuid IS NULL OR d.outbox_id > :after)
  AND (:target::text IS NULL OR d.target = :target)
  AND (:error_code::text IS NULL OR d.error_code = :error_code)
ORDER BY d.outbox_id LIMIT :size;

-- name: deliveries_by_id(rows)
SELECT d.outbox_id, d.target, d.dataset_id, d.status, {state} AS state, d.attempt, d.due_at, d.error_code,
  d.last_error, d.updated_at, e.event_name, e.pipeline_id, e.created_at
FROM outbox_delivery AS d JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.outbox_id IN (SELECT value::uuid FROM json_array_elements_text(:rows::json))
ORDER BY d.outbox_id;

-- name: requeue_deliveries(now; outbox_id, attempt)
-- As it was read: exhausted, and after that attempt.
UPDATE outbox_delivery AS d
SET status = 'pending', due_at = :now, ready_at = :now, budget_from = d.attempt, updated_at = :now
FROM each_row AS x WHERE d.outbox_id = x.outbox_id
  AND CASE WHEN d.attempt = x.attempt AND d.status = 'failed' AND d.due_at IS NULL
    THEN true ELSE false END;

-- name: count_open_deliveries()
SELECT d.target,
  count(*) FILTER (WHERE {state} = 'pending') AS pending,
  count(*) FILTER (WHERE {state} = 'in_flight') AS in_flight,
  count(*) FILTER (WHERE {state} = 'retrying') AS retrying,
  count(*) FILTER (WHERE {state} = 'exhausted') AS exhausted,
  min(e.created_at) AS oldest_at
FROM outbox_delivery AS d JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.status <> 'dispatched' GROUP BY d.target ORDER BY d.target;

-- name: count_held_back(target)
-- What stands behind an exhausted event of its dataset, on a target that keeps order.
SELECT d.dataset_id, count(*) AS held FROM outbox_delivery AS d
WHERE d.target = :target AND d.status <> 'dispatched' AND EXISTS (
  SELECT 1 FROM outbox_delivery AS x
  WHERE x.target = :target AND x.status <> 'dispatched' AND x.dataset_id = d.dataset_id
    AND x.status = 'failed' AND x.due_at IS NULL AND (x.written, x.outbox_id) < (d.written, d.outbox_id))
GROUP BY d.dataset_id ORDER BY d.dataset_id;

-- name: last_failures(now)
-- Of each target the failure that is tried again last: by it, a target that is down is tried.
SELECT DISTINCT ON (d.target) d.target, d.error_code, d.last_error, d.due_at AS next_try_at,
  (SELECT count(*) FROM outbox_delivery AS w
    WHERE w.target = d.target AND w.ready_at <= :now AND w.claimed_by IS NULL) AS due
FROM outbox_delivery AS d
WHERE d.status <> 'dispatched' AND {state} = 'retrying' AND d.due_at > :now
ORDER BY d.target, d.due_at DESC;

-- name: waits_for_transaction(now, target)
-- Events of an ordered target whose first of a dataset is due, and waits as in due_heads; with the
-- oldest transaction that they wait for, as far as the role may see it.
WITH coming AS (
  SELECT running.xid, coalesce(a.xact_start, p.prepared) AS since, a.pid
  FROM pg_snapshot_xip(pg_current_snapshot()) AS running (xid)
  LEFT JOIN pg_stat_activity AS a ON a.backend_xid = running.xid::xid
  LEFT JOIN pg_prepared_xacts AS p ON p.transaction = running.xid::xid
  WHERE {of_this_database}
), heads AS (
  SELECT DISTINCT ON (dataset_id) dataset_id, written, due_at, claimed_by FROM outbox_delivery
  WHERE target = :target AND status <> 'dispatched' ORDER BY dataset_id, written, outbox_id
), waiting AS (
  SELECT heads.dataset_id, coming.since, coming.pid FROM heads JOIN coming ON coming.xid < heads.written
  WHERE heads.due_at <= :now AND heads.claimed_by IS NULL
)
SELECT since, pid, (SELECT count(*) FROM outbox_delivery
    WHERE target = :target AND status <> 'dispatched'
      AND dataset_id IN (SELECT dataset_id FROM waiting)) AS events
FROM waiting ORDER BY since LIMIT 1;

-- part: listed
SELECT d.outbox_id, d.target, d.dataset_id, d.status, {state} AS state, d.attempt, d.due_at, d.error_code,
  d.last_error, d.updated_at, e.event_name, e.pipeline_id, e.created_at

-- part: between
FROM outbox_delivery AS d JOIN outbox AS e ON e.outbox_id = d.outbox_id
WHERE d.outbox_id > :after AND d.outbox_id <= :until

-- part: wanted
(:target::text IS NULL OR d.target = :target) AND (:dataset::text IS NULL OR d.dataset_id = :dataset)
  AND (:event_name::text IS NULL OR e.event_name = :event_name)
  AND (:error_code::text IS NULL OR d.error_code = :error_code)
  AND (:state::text IS NULL OR :state = {state})

-- name: list_deliveries_open(after, until, size, target, dataset, event_name, error_code, state)
-- Few are open: all are read through their index, which has another order, and sorted. As text, which
-- has the same order, so that nobody thinks of walking through all events by their key instead.
{listed} {between} AND d.status <> 'dispatched' AND {wanted} ORDER BY d.outbox_id::text LIMIT :size;

-- name: delivery_ledger(after_id, after_attempt, size)
SELECT a.outbox_id, a.attempt, a.outcome, a.duplicate, a.error_code, a.error, a.ended_at,
  e.pipeline_id, e.event_name, e.dataset_id, e.target, e.care_label, e.created_at
FROM outbox_attempts AS a JOIN outbox AS e ON e.outbox_id = a.outbox_id
WHERE (a.outbox_id, a.attempt) > (:after_id, :after_attempt)
ORDER BY a.outbox_id, a.attempt LIMIT :size;
