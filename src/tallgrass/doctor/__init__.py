"""What would stop the pipeline, or lose its guarantees: one finding a check, each with its fix."""
