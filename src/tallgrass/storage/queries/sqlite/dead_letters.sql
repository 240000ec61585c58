-- What a drain keeps of its letters.

-- name: letters_of_run(replay_run_id, rows)
SELECT l.message_id, l.state, l.action FROM json_each(:rows) AS wanted
CROSS JOIN drained_letters AS l ON l.message_id = wanted.value AND l.replay_run_id = :replay_run_id;

-- name: record_letters(now, replay_run_id; message_id, body_sha256, action, reason, state, sends, units)
-- Letters that were left, or recorded and not known to be sent, are taken up again.
INSERT INTO drained_letters (replay_run_id, message_id, body_sha256, action, reason, state, sends, units, changed_at)
VALUES (:replay_run_id, :message_id, :body_sha256, :action, :reason, :state, :sends, :units, :now)
ON CONFLICT (replay_run_id, message_id) DO UPDATE SET action = excluded.action,
  reason = excluded.reason, state = excluded.state, sends = drained_letters.sends + excluded.sends,
  units = excluded.units, changed_at = excluded.changed_at;

-- name: leave_letters(now, replay_run_id; message_id, body_sha256, action, reason)
-- One that was taken up before stays so: it is on its way.
INSERT INTO drained_letters (replay_run_id, message_id, body_sha256, action, reason, state, sends, changed_at)
VALUES (:replay_run_id, :message_id, :body_sha256, :action, :reason, 'left', 0, :now)
ON CONFLICT (replay_run_id, message_id) DO UPDATE SET reason = excluded.reason,
  changed_at = excluded.changed_at
WHERE drained_letters.state = 'left';

-- name: letters_sent(now, replay_run_id; message_id, sent_as)
UPDATE drained_letters SET state = 'sent', sent_as = :sent_as, changed_at = :now
WHERE replay_run_id = :replay_run_id AND message_id = :message_id AND state = 'recorded';

-- name: letters_removed(now, replay_run_id; message_id)
-- One that may have been sent, and is settled now, is done: a worker was faster than the confirmation.
UPDATE drained_letters SET state = 'removed', changed_at = :now
WHERE replay_run_id = :replay_run_id AND message_id = :message_id
  AND (state = 'sent' OR (state = 'recorded' AND action <> 'replay' AND action <> 'send'));

-- name: awaited_units(replay_run_id)
-- Units whose message was or may have been sent, and which no worker has brought to an end since.
SELECT count(DISTINCT json_extract(u.value, '$[0]')) AS units
FROM drained_letters AS l JOIN json_each(l.units) AS u LEFT JOIN wal_records AS r ON r.wal_id = json_extract(u.value, '$[0]')
WHERE l.replay_run_id = :replay_run_id AND l.state <> 'left' AND (l.action = 'replay' OR l.action = 'send')
  AND (r.wal_id IS NULL OR r.version <= json_extract(u.value, '$[1]') OR r.status = 'in_progress'
    OR (r.status = 'pending' AND r.due_at IS NULL));

-- name: taken_over_run_records(replay_run_id)
-- Records of a drain whose units are no longer its own, and which nobody works on.
SELECT p.wal_id, r.status, r.last_error_code FROM replay_run_records AS p
JOIN wal_records AS r ON r.wal_id = p.wal_id
WHERE p.replay_run_id = :replay_run_id AND p.outcome = 'due'
  AND r.replay_run_id IS NOT :replay_run_id
  AND NOT EXISTS (SELECT 1 FROM wal_attempts AS o WHERE o.wal_id = r.wal_id AND o.status = 'pending')
ORDER BY p.wal_id;

-- name: reprocessed_letters(rows)
-- Letters that lead to one of these units, and of whose units each has succeeded. A unit's letters
-- are of the last run that an attempt was made for: the unit may have failed since and left it.
-- Letters that lead to the same units are one.
WITH given AS (
  SELECT value AS wal_id, (SELECT a.replay_run_id FROM wal_attempts AS a
    WHERE a.wal_id = value AND a.replay_run_id IS NOT NULL
    ORDER BY a.attempt_no DESC LIMIT 1) AS replay_run_id
  FROM json_each(:rows)
)
SELECT min(r.dataset) AS dataset
FROM drained_letters AS l JOIN json_each(l.units) AS u
LEFT JOIN wal_records AS r ON r.wal_id = json_extract(u.value, '$[0]')
LEFT JOIN given AS g ON g.wal_id = r.wal_id AND g.replay_run_id = l.replay_run_id
WHERE l.replay_run_id IN (SELECT replay_run_id FROM given)
  AND l.state <> 'left' AND (l.action = 'replay' OR l.action = 'send')
GROUP BY l.replay_run_id, l.units
HAVING count(*) = sum(CASE WHEN r.status = 'succeeded' THEN 1 ELSE 0 END)
  AND count(g.wal_id) > 0;
