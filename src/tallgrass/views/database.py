"""The database's state as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallgrass.bootstrap.views import Health


def health_document(health: Health) -> dict[str, object]:
    """Return what the database is, and whether this release can use it."""
    return {
        "dialect": health.dialect,
        "place": health.place,
        "version": health.version,
        "schema": {
            "state": health.schema,
            "applied": health.applied,
            "missing": health.missing,
        },
        "writable": health.writable,
        "clock_ahead_s": health.clock_ahead_s,
        "details": health.details,
    }
