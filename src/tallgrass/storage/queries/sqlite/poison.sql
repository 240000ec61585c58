-- Poison messages: kept, listed, fed to the queue again.

-- name: upsert_poison(now; queue, body_sha256, body, body_bytes, message_id, error_code, error_message)
-- One that comes again is open again, whatever was begun or done for it before, and whole if it was
-- cut when less was kept.
INSERT INTO poison_messages (queue, body_sha256, body, body_bytes, message_id, error_code,
  error_message, times_seen, first_seen_at, last_seen_at)
VALUES (:queue, :body_sha256, unhex(:body), :body_bytes, :message_id, :error_code,
  :error_message, 1, :now, :now)
ON CONFLICT (queue, body_sha256) DO UPDATE SET times_seen = times_seen + 1,
  body = CASE WHEN length(body) < length(excluded.body) THEN excluded.body ELSE body END,
  last_seen_at = excluded.last_seen_at, error_code = excluded.error_code,
  error_message = excluded.error_message, feed_id = NULL, fed_at = NULL, fed_message_id = NULL;

-- name: list_poison(after, size, queue, error_code, since, state)
-- The inner query reads the index alone: a row's columns lie behind its body.
SELECT poison_id, queue, body_sha256, body_bytes, length(body) AS kept_bytes, message_id, error_code, error_message,
  times_seen, first_seen_at, last_seen_at, feed_id, fed_at, fed_message_id
FROM poison_messages WHERE poison_id IN (
  SELECT poison_id FROM poison_messages INDEXED BY poison_messages_listed
  WHERE poison_id > :after AND (:queue IS NULL OR queue = :queue)
    AND (:error_code IS NULL OR error_code = :error_code)
    AND (:since IS NULL OR last_seen_at >= :since)
    AND (:state IS NULL OR :state = CASE WHEN fed_at IS NOT NULL THEN 'fed'
      WHEN feed_id IS NOT NULL THEN 'begun' ELSE 'open' END)
  ORDER BY poison_id LIMIT :size)
ORDER BY poison_id;

-- name: poison(rows)
SELECT poison_id, queue, body_sha256, body_bytes, length(body) AS kept_bytes, message_id, error_code, error_message,
  times_seen, first_seen_at, last_seen_at, feed_id, fed_at, fed_message_id
FROM poison_messages WHERE poison_id IN (SELECT value FROM json_each(:rows)) ORDER BY poison_id;

-- name: poison_bodies(rows)
SELECT poison_id, body FROM poison_messages
WHERE poison_id IN (SELECT value FROM json_each(:rows)) ORDER BY poison_id;

-- name: begin_feeding(feed_id; poison_id)
UPDATE poison_messages SET feed_id = :feed_id, fed_at = NULL, fed_message_id = NULL
WHERE poison_id = :poison_id;

-- name: confirm_feeding(now, feed_id; poison_id, message_id)
-- By its feeding: one that came back meanwhile stays open.
UPDATE poison_messages SET fed_at = :now, fed_message_id = :message_id
WHERE poison_id = :poison_id AND feed_id = :feed_id;
