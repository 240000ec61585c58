"""Retention as documents: what may leave, and what left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallgrass.views.text import plain

if TYPE_CHECKING:
    from tallgrass.inventory.retention import Archive, Planned


def plan_document(planned: Planned) -> dict[str, object]:
    """Return how much of a kind of rows may leave, as a JSON value."""
    return {**plain(planned), "kind": planned.kind.value}


def archive_document(archive: Archive) -> dict[str, object]:
    """Return an archive as a JSON value: its file, and how far its rows were removed."""
    found: dict[str, object] = plain(archive)
    file: Any = found.pop("file")
    words = {"kind": archive.file.kind.value, "format": archive.file.format.value}
    return {
        "archive_id": found.pop("archive_id"),
        "state": state_of(archive),
        **file,
        **words,
        **found,
    }


def state_of(archive: Archive) -> str:
    """Return how far an archive is, in one word."""
    if archive.abandoned_at is not None:
        return "abandoned"
    if archive.removed_at is not None:
        return "done"
    return "recorded" if archive.verified_at is None else "removing"
