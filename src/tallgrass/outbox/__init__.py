"""Publish, routing, dispatcher and inbox: events leave only from recorded rows."""
