"""Replay: what is selected, what would be done with it, and doing it."""
