"""What NODD publishes: one data file a dataset, key grammars, time rules, item ids (pure)."""
