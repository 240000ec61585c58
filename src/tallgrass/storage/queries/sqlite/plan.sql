-- What a replay plan reads: records and attempts alone, by pages of keys, never a catalog or a queue.

-- part: candidates
SELECT r.wal_id, r.dataset, r.status, r.version, r.attempts, r.budget_from, r.last_error_code,
  CASE WHEN r.due_at IS NOT NULL THEN r.rerun_intent END AS rerun_intent, r.next_object IS NOT NULL AS newer_object,
  r.status = 'succeeded' AND EXISTS (
    SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending') AS held,
  a.code_version AS applied_code_version, a.config_version AS applied_config_version

-- part: wanted
AND (:since IS NULL OR r.time_range_start >= :since)
AND (:until IS NULL OR r.time_range_start < :until)
AND (:overlap_start IS NULL OR r.time_range_end >= :overlap_start)
AND (:overlap_end IS NULL OR r.time_range_start < :overlap_end)
AND (:event_start IS NULL OR r.event_time >= :event_start)
AND (:event_end IS NULL OR r.event_time < :event_end)
AND (:created_start IS NULL OR r.created_at >= :created_start)
AND (:created_end IS NULL OR r.created_at < :created_end)
AND (:prefix IS NULL OR substr(r.object_uri, 1, length(:prefix)) = :prefix)
AND (:error_codes IS NULL OR r.last_error_code IN (SELECT value FROM json_each(:error_codes)))
AND (:attempts_min IS NULL OR r.attempts >= :attempts_min)
AND (:attempts_max IS NULL OR r.attempts <= :attempts_max)

-- name: candidate_page(dataset, status, start, stop, since, until, overlap_start, overlap_end, event_start, event_end, created_start, created_end, prefix, error_codes, attempts_min, attempts_max, size)
-- One range of the index by dataset, status and id; `start` belongs to it, `stop` does not.
{candidates}
FROM wal_records AS r
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
WHERE r.dataset = :dataset AND r.status = :status AND r.wal_id >= :start AND r.wal_id < :stop
  {wanted}
ORDER BY r.wal_id LIMIT :size;

-- name: candidates_named(rows, datasets, datasets_exclude, statuses, start, stop, since, until, overlap_start, overlap_end, event_start, event_end, created_start, created_end, prefix, error_codes, attempts_min, attempts_max)
{candidates}
FROM json_each(:rows) AS named JOIN wal_records AS r ON r.wal_id = named.value
LEFT JOIN wal_attempts AS a ON a.wal_id = r.wal_id AND a.attempt_no = r.applied_attempt
WHERE r.wal_id >= :start AND r.wal_id < :stop
  AND r.status IN (SELECT value FROM json_each(:statuses))
  AND (:datasets IS NULL OR r.dataset IN (SELECT value FROM json_each(:datasets)))
  AND r.dataset NOT IN (SELECT value FROM json_each(:datasets_exclude))
  {wanted}
ORDER BY r.wal_id;

-- name: datasets_of_units(rows)
SELECT r.wal_id, r.dataset FROM json_each(:rows) AS named
JOIN wal_records AS r ON r.wal_id = named.value;

-- name: units_of_messages(start, stop, rows)
-- Without an index: one on random ids would slow every claim, and this is asked now and then.
SELECT a.wal_id, a.sns_message_id, a.sqs_message_id FROM wal_attempts AS a
WHERE a.wal_id >= :start AND a.wal_id < :stop
  AND (a.sqs_message_id IN (SELECT value FROM json_each(:rows)) OR a.sns_message_id IN (SELECT value FROM json_each(:rows)));
