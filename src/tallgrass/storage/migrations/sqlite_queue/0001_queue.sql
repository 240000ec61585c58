-- The embedded queue, in a file of its own. Times are UTC text of fixed width, so text order is
-- time order. Bodies are written once; what changes with each delivery is a small row beside them.

CREATE TABLE messages (
  -- Never used again: the order of sending.
  position    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  message_id  TEXT    NOT NULL CHECK (message_id <> ''),
  sent_at     TEXT    NOT NULL CHECK (length(sent_at) = 27),
  body        BLOB    NOT NULL CHECK (length(body) > 0)
) STRICT;

CREATE TABLE deliveries (
  position       INTEGER NOT NULL PRIMARY KEY REFERENCES messages (position) ON DELETE CASCADE,
  visible_at     TEXT    NOT NULL CHECK (length(visible_at) = 27),
  receive_count  INTEGER NOT NULL CHECK (receive_count >= 0),
  -- Of the latest delivery, whose receipt alone is valid; null before the first.
  delivery_id    TEXT             CHECK ((delivery_id IS NULL) = (receive_count = 0))
) STRICT;

CREATE INDEX deliveries_visible_at ON deliveries (visible_at);

CREATE TABLE dead_letters (
  position       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  message_id     TEXT    NOT NULL UNIQUE,
  sent_at        TEXT    NOT NULL CHECK (length(sent_at) = 27),
  died_at        TEXT    NOT NULL CHECK (length(died_at) = 27),
  receive_count  INTEGER NOT NULL,
  body           BLOB    NOT NULL
) STRICT;
