"""The JSON API for operators, and the security that it shares with the pages."""
