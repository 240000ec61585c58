"""How a pipeline that was disturbed is watched and judged, from outside."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.cli.pipeline import FeedFolder, make_feed
from tests.oracle.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.backends import Backend

WAIT_S_MAX = 120


def make_judged_feed(folder: Path, units: int, *flags: str) -> FeedFolder:
    """Make a feed, and keep what must become of it."""
    return make_feed(folder, units, *flags, "--manifest", str(folder / "manifest.json"))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def succeeded(backend: Backend) -> int:
    """Count units by plain SQL."""
    found = backend.sql("SELECT count(*) FROM wal_records WHERE status = 'succeeded'")
    return int(found[0][0])


def violations(backend: Backend, feed: FeedFolder, queue: Path) -> list[str]:
    """Ask the oracle."""
    manifest: dict[str, Any] = json.loads((feed.folder / "manifest.json").read_text("utf-8"))
    return verdict(backend.connect(), queue, manifest)
