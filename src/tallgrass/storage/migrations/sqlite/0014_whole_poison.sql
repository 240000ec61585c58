-- Queues take messages of 1 MiB by now: whatever comes is kept whole, or it could never be fed again.
-- SQLite changes no constraint of a table that is there.

CREATE TEMP TABLE kept_poison AS SELECT * FROM poison_messages;
DROP TABLE poison_messages;
CREATE TABLE poison_messages (
  poison_id       INTEGER PRIMARY KEY AUTOINCREMENT,
  queue           TEXT    NOT NULL,
  body_sha256     TEXT    NOT NULL CHECK (length(body_sha256) = 64),
  body            BLOB    NOT NULL CHECK (length(body) <= 1048576),
  body_bytes      INTEGER NOT NULL CHECK (body_bytes >= 0),
  message_id      TEXT,
  error_code      TEXT    NOT NULL,
  error_message   TEXT    NOT NULL CHECK (length(error_message) <= 500),
  times_seen      INTEGER NOT NULL CHECK (times_seen >= 1),
  first_seen_at   TEXT    NOT NULL CHECK (length(first_seen_at) = 27),
  last_seen_at    TEXT    NOT NULL CHECK (length(last_seen_at) = 27),
  feed_id         TEXT,
  fed_at          TEXT    CHECK (fed_at IS NULL OR (length(fed_at) = 27 AND feed_id IS NOT NULL)),
  fed_message_id  TEXT    CHECK ((fed_message_id IS NULL) = (fed_at IS NULL)),
  UNIQUE (queue, body_sha256)
) STRICT;
INSERT INTO poison_messages (poison_id, queue, body_sha256, body, body_bytes, message_id, error_code,
  error_message, times_seen, first_seen_at, last_seen_at, feed_id, fed_at, fed_message_id)
SELECT poison_id, queue, body_sha256, body, body_bytes, message_id, error_code, error_message, times_seen,
  first_seen_at, last_seen_at, feed_id, fed_at, fed_message_id FROM kept_poison ORDER BY poison_id;
DROP TABLE kept_poison;
CREATE INDEX poison_messages_listed
  ON poison_messages (poison_id, queue, error_code, last_seen_at, feed_id, fed_at);
