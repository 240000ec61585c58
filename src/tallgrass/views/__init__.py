"""What fronts show: documents made of what stores answer, the same for all (pure)."""
