-- What a drain did with each dead letter of its plan.

CREATE TABLE drained_letters (
  replay_run_id  TEXT    NOT NULL REFERENCES replay_runs (replay_run_id),
  message_id     TEXT    NOT NULL CHECK (message_id <> ''),
  body_sha256    TEXT    NOT NULL CHECK (length(body_sha256) = 64),
  action         TEXT    NOT NULL CHECK (action = 'replay' OR action = 'send' OR action = 'settle' OR action = 'quarantine' OR action = 'poison' OR action = 'recover' OR action = 'leave'),
  -- Why it stays, or why nothing had to be sent.
  reason         TEXT,
  -- left, or on its way: recorded before it is sent, sent before it is removed.
  state          TEXT    NOT NULL CHECK (state = 'left' OR state = 'recorded' OR state = 'sent' OR state = 'removed'),
  -- How often it was recorded to be sent: above 1 its message may be in the queue twice.
  sends          INTEGER NOT NULL CHECK (sends >= 0),
  sent_as        TEXT,
  -- The units that its message leads to, as JSON: [wal_id, the version at which it was sent or null].
  units          TEXT    NOT NULL DEFAULT '[]',
  changed_at     TEXT    NOT NULL CHECK (length(changed_at) = 27),
  PRIMARY KEY (replay_run_id, message_id),
  CONSTRAINT sent_before_removed CHECK (state <> 'sent' OR sent_as IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER drained_letters_final BEFORE UPDATE ON drained_letters
WHEN OLD.state = 'removed' OR NEW.replay_run_id <> OLD.replay_run_id OR NEW.message_id <> OLD.message_id
  OR (NEW.state = 'removed' AND OLD.state <> 'sent' AND (OLD.state <> 'recorded' OR OLD.action = 'replay' OR OLD.action = 'send'))
  OR (NEW.state = 'left' AND OLD.state <> 'left')
BEGIN SELECT RAISE(ABORT, 'append_only: drained_letters'); END;
CREATE TRIGGER drained_letters_not_deleted BEFORE DELETE ON drained_letters BEGIN SELECT RAISE(ABORT, 'append_only: drained_letters'); END;
