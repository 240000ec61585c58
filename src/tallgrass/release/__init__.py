"""What a release carries beside its packages, and how anyone checks it."""
