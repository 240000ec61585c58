"""The only wiring: concrete databases, queues, clock, ids and randomness are put together here."""
