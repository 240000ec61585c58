-- What a drain did with each dead letter of its plan.

CREATE TABLE drained_letters (
  replay_run_id  text    NOT NULL REFERENCES replay_runs (replay_run_id),
  message_id     text    NOT NULL CHECK (message_id <> ''),
  body_sha256    text    NOT NULL CHECK (length(body_sha256) = 64),
  action         text    NOT NULL CHECK (action = 'replay' OR action = 'send' OR action = 'settle' OR action = 'quarantine' OR action = 'poison' OR action = 'recover' OR action = 'leave'),
  -- Why it stays, or why nothing had to be sent.
  reason         text,
  -- left, or on its way: recorded before it is sent, sent before it is removed.
  state          text    NOT NULL CHECK (state = 'left' OR state = 'recorded' OR state = 'sent' OR state = 'removed'),
  -- How often it was recorded to be sent: above 1 its message may be in the queue twice.
  sends          integer NOT NULL CHECK (sends >= 0),
  sent_as        text,
  -- The units that its message leads to, as JSON: [wal_id, the version at which it was sent or null].
  units          text    NOT NULL DEFAULT '[]',
  changed_at     timestamptz NOT NULL,
  PRIMARY KEY (replay_run_id, message_id),
  CONSTRAINT sent_before_removed CHECK (state <> 'sent' OR sent_as IS NOT NULL)
);

CREATE TRIGGER drained_letters_final BEFORE UPDATE ON drained_letters FOR EACH ROW
WHEN (OLD.state = 'removed' OR NEW.replay_run_id <> OLD.replay_run_id OR NEW.message_id <> OLD.message_id
  OR (NEW.state = 'removed' AND OLD.state <> 'sent' AND (OLD.state <> 'recorded' OR OLD.action = 'replay' OR OLD.action = 'send'))
  OR (NEW.state = 'left' AND OLD.state <> 'left'))
EXECUTE FUNCTION tallgrass_refuse('append_only: drained_letters');
CREATE TRIGGER drained_letters_not_deleted BEFORE DELETE ON drained_letters FOR EACH ROW
EXECUTE FUNCTION tallgrass_refuse('append_only: drained_letters');
CREATE TRIGGER drained_letters_not_truncated BEFORE TRUNCATE ON drained_letters
EXECUTE FUNCTION tallgrass_refuse('append_only: drained_letters');
