-- What the pages of people list: each condition that they may set leads into an index.

CREATE INDEX audit_log_by_actor ON audit_log (actor, entry_id);
CREATE INDEX audit_log_by_action ON audit_log (action, entry_id);

-- In the order of a list. Both hold what went wrong alone, and cost an event that is delivered nothing;
-- one of all open events made each a quarter dearer to dispatch.
CREATE INDEX outbox_delivery_failed ON outbox_delivery (outbox_id) WHERE status = 'failed';
CREATE INDEX outbox_delivery_coded ON outbox_delivery (error_code, outbox_id) WHERE error_code IS NOT NULL;
