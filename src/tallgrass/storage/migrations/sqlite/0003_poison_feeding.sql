-- Poison messages that are fed to the queue again. Open: no feed_id; begun: feed_id alone; fed: all three.
-- A message that comes again as poison is open again, whatever was begun or done for it before.

ALTER TABLE poison_messages ADD COLUMN feed_id TEXT;
ALTER TABLE poison_messages ADD COLUMN fed_at TEXT
  CHECK (fed_at IS NULL OR (length(fed_at) = 27 AND feed_id IS NOT NULL));
ALTER TABLE poison_messages ADD COLUMN fed_message_id TEXT
  CHECK ((fed_message_id IS NULL) = (fed_at IS NULL));

-- All that a listing filters by: it passes over rows without reading their bodies.
CREATE INDEX poison_messages_listed
  ON poison_messages (poison_id, queue, error_code, last_seen_at, feed_id, fed_at);
