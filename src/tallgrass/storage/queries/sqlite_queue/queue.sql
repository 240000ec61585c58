-- The embedded queue. Every verb holds the writer's lock, so what it reads stays as it is.

-- name: applied_migrations()
SELECT number, name, sha256 FROM schema_migrations ORDER BY number;

-- name: last_position()
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) AS position;

-- name: insert_messages(now; position, message_id, body)
INSERT INTO messages (position, message_id, sent_at, body)
VALUES (:position, :message_id, :now, :body);

-- name: insert_deliveries(now; position)
INSERT INTO deliveries (position, visible_at, receive_count) VALUES (:position, :now, 0);

-- name: visible_messages(now, size)
SELECT d.position, d.receive_count, m.message_id, m.sent_at, m.body
FROM deliveries AS d JOIN messages AS m ON m.position = d.position
WHERE d.visible_at <= :now ORDER BY d.visible_at, d.position LIMIT :size;

-- name: deliver_messages(visible_at, delivery_id; position)
UPDATE deliveries SET visible_at = :visible_at, delivery_id = :delivery_id,
  receive_count = receive_count + 1
WHERE position = :position;

-- name: insert_dead_letters(now; position)
INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)
SELECT m.message_id, m.sent_at, :now, d.receive_count, m.body
FROM messages AS m JOIN deliveries AS d ON d.position = m.position WHERE m.position = :position;

-- name: delete_messages(; position)
-- Its delivery goes with it.
DELETE FROM messages WHERE position = :position;

-- name: deliveries_in_flight(now, rows)
SELECT position, delivery_id FROM deliveries
WHERE position IN (SELECT value FROM json_each(:rows)) AND visible_at > :now;

-- name: change_visibility(; position, visible_at)
UPDATE deliveries SET visible_at = :visible_at WHERE position = :position;

-- name: queue_status(now)
SELECT (SELECT count(*) FROM deliveries WHERE visible_at <= :now) AS visible,
  (SELECT count(*) FROM deliveries WHERE visible_at > :now) AS in_flight,
  (SELECT count(*) FROM dead_letters) AS dead,
  (SELECT died_at FROM dead_letters ORDER BY position LIMIT 1) AS oldest_dead_at,
  (SELECT sent_at FROM messages ORDER BY position LIMIT 1) AS oldest_sent_at;

-- name: list_dead_letters(after, size)
SELECT * FROM dead_letters WHERE position > :after ORDER BY position LIMIT :size;

-- name: free_dead_letters(now, size)
-- Letters that no drain holds.
SELECT * FROM dead_letters WHERE hidden_until IS NULL OR hidden_until <= :now
ORDER BY position LIMIT :size;

-- name: hold_dead_letters(hidden_until, delivery_id; position)
UPDATE dead_letters SET hidden_until = :hidden_until, delivery_id = :delivery_id
WHERE position = :position;

-- name: letters_in_hand(now, rows)
SELECT position, delivery_id FROM dead_letters
WHERE position IN (SELECT value FROM json_each(:rows)) AND hidden_until > :now;

-- name: free_letters(; position)
UPDATE dead_letters SET hidden_until = NULL, delivery_id = NULL WHERE position = :position;

-- name: delete_dead_letters(; position)
DELETE FROM dead_letters WHERE position = :position;

-- name: dead_status(now)
SELECT count(*) FILTER (WHERE hidden_until IS NULL OR hidden_until <= :now) AS visible,
  count(*) FILTER (WHERE hidden_until > :now) AS in_flight
FROM dead_letters;

-- name: bury_letters(; message_id, sent_at, died_at, receive_count, body)
INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)
VALUES (:message_id, :sent_at, :died_at, :receive_count, :body)
ON CONFLICT (message_id) DO NOTHING;
