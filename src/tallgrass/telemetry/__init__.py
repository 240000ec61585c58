"""Every metric, span and log name in one table, and the recorder that is called after commits."""
