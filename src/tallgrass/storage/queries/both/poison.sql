-- Poison messages: kept, listed, fed to the queue again.

-- name: count_poison_states()
SELECT count(*) - count(feed_id) AS open, count(feed_id) - count(fed_at) AS begun,
  count(fed_at) AS fed
FROM poison_messages;
