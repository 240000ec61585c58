"""Who may do what, and the record of who did: audit chain and kill switches (pure)."""
