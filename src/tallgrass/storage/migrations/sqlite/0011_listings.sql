-- What the pages of people list: each condition that they may set leads into an index.

CREATE INDEX audit_log_by_actor ON audit_log (actor, entry_id);
CREATE INDEX audit_log_by_action ON audit_log (action, entry_id);

-- In the order of a list. Ids grow with time, so a new event is added at the end; the two below hold
-- what went wrong alone, and cost an event that is delivered nothing.
CREATE INDEX outbox_delivery_open_ids ON outbox_delivery (outbox_id) WHERE status <> 'dispatched';
CREATE INDEX outbox_delivery_failed ON outbox_delivery (outbox_id) WHERE status = 'failed';
CREATE INDEX outbox_delivery_coded ON outbox_delivery (error_code, outbox_id) WHERE error_code IS NOT NULL;
