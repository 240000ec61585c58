"""Made-up feeds, and the demo that runs on them."""
