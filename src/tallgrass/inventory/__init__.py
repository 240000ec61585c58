"""Inventory: what the buckets hold against what the ledger knows, and what is kept how long."""
