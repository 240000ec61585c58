"""What is served over HTTP: the STAC API."""
