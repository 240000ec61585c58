-- Queues take messages of 1 MiB by now: whatever comes is kept whole, or it could never be fed again.

ALTER TABLE poison_messages DROP CONSTRAINT poison_messages_body_check,
  ADD CONSTRAINT poison_messages_body_check CHECK (length(body) <= 1048576);
