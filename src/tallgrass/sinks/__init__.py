"""Where events go: one module for each kind of target."""
