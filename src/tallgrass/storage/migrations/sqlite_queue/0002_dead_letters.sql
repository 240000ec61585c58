-- A drain holds letters for a while, so that no other takes them too.

ALTER TABLE dead_letters ADD COLUMN hidden_until TEXT CHECK (length(hidden_until) = 27);
-- Of the holder, whose receipts alone are valid.
ALTER TABLE dead_letters ADD COLUMN delivery_id TEXT CHECK ((delivery_id IS NULL) = (hidden_until IS NULL));
