"""The operator's console: pages that the server renders."""
