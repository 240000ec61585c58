"""From the bytes of a message to ingest units: strict JSON, envelopes, event forms (pure)."""
