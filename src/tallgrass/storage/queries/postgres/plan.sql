-- What a replay plan reads: records and attempts alone, by pages of keys, never a catalog or a queue.

-- part: candidates
SELECT r.wal_id, r.dataset, r.status, r.version, r.attempts, r.budget_from, r.last_error_code,
  CASE WHEN r.due_at IS NOT NULL THEN r.rerun_intent END AS rerun_intent, r.next_object IS NOT NULL AS newer_object,
  r.status = 'succeeded' AND EXISTS (
    SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending') AS held,
  a.code_version AS applied_code_version, a.config_version AS applied_config_version

-- part: applied
-- OFFSET 0 keeps the join a lookup: merged, each page read all attempts before it.
LEFT JOIN LATERAL (
  SELECT code_version, config_version FROM wal_attempts
  WHERE wal_id = r.wal_id AND attempt_no = r.applied_attempt OFFSET 0) AS a ON true

-- part: wanted
AND (:since::timestamptz IS NULL OR r.time_range_start >= :since)
AND (:until::timestamptz IS NULL OR r.time_range_start < :until)
AND (:overlap_start::timestamptz IS NULL OR r.time_range_end >= :overlap_start)
AND (:overlap_end::timestamptz IS NULL OR r.time_range_start < :overlap_end)
AND (:event_start::timestamptz IS NULL OR r.event_time >= :event_start)
AND (:event_end::timestamptz IS NULL OR r.event_time < :event_end)
AND (:created_start::timestamptz IS NULL OR r.created_at >= :created_start)
AND (:created_end::timestamptz IS NULL OR r.created_at < :created_end)
AND (:prefix::text IS NULL OR starts_with(r.object_uri, :prefix))
AND (:error_codes::text IS NULL OR r.last_error_code IN (SELECT json_array_elements_text(:error_codes::json)))
AND (:attempts_min::integer IS NULL OR r.attempts >= :attempts_min)
AND (:attempts_max::integer IS NULL OR r.attempts <= :attempts_max)

-- name: candidate_page(dataset, status, start, stop, since, until, overlap_start, overlap_end, event_start, event_end, created_start, created_end, prefix, error_codes, attempts_min, attempts_max, size)
-- One range of the index by dataset, status and id; `start` belongs to it, `stop` does not.
-- Compared as rows, which only that index answers: with single columns the planner walked the primary
-- key and threw most away.
{candidates}
FROM wal_records AS r
{applied}
WHERE (r.dataset, r.status, r.wal_id) >= (:dataset, :status, :start::uuid)
  AND (r.dataset, r.status, r.wal_id) < (:dataset, :status, :stop::uuid)
  {wanted}
ORDER BY r.dataset, r.status, r.wal_id LIMIT :size;

-- name: candidates_named(rows, datasets, datasets_exclude, statuses, start, stop, since, until, overlap_start, overlap_end, event_start, event_end, created_start, created_end, prefix, error_codes, attempts_min, attempts_max)
{candidates}
FROM json_array_elements_text(:rows::json) AS named (value) JOIN wal_records AS r ON r.wal_id = named.value::uuid
{applied}
WHERE r.wal_id >= :start AND r.wal_id < :stop
  AND r.status IN (SELECT json_array_elements_text(:statuses::json))
  AND (:datasets::text IS NULL OR r.dataset IN (SELECT json_array_elements_text(:datasets::json)))
  AND r.dataset NOT IN (SELECT json_array_elements_text(:datasets_exclude::json))
  {wanted}
ORDER BY r.wal_id;

-- name: datasets_of_units(rows)
SELECT r.wal_id, r.dataset FROM json_array_elements_text(:rows::json) AS named (value)
JOIN wal_records AS r ON r.wal_id = named.value::uuid;

-- name: units_of_messages(start, stop, rows)
-- Without an index: one on random ids would slow every claim, and this is asked now and then.
SELECT a.wal_id, a.sns_message_id, a.sqs_message_id FROM wal_attempts AS a
WHERE a.wal_id >= :start AND a.wal_id < :stop
  AND (a.sqs_message_id IN (SELECT json_array_elements_text(:rows::json)) OR a.sns_message_id IN (SELECT json_array_elements_text(:rows::json)));
