"""Poison messages that were kept before longer ones could be stay, with their ids and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.storage.migrations import migrate, shipped_migrations
from tests.contract.scene import RAW_ERRORS
from tests.support.backends import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

NOON = "2026-06-01T12:00:00.000000Z"
FEED = "00000000-0000-4000-8000-000000000001"
ROWS = "SELECT poison_id, queue, body, body_bytes, times_seen, fed_message_id FROM poison_messages"
INSERT = (
    "INSERT INTO poison_messages (queue, body_sha256, body, body_bytes, error_code, error_message,"
    " times_seen, first_seen_at, last_seen_at, feed_id, fed_at, fed_message_id)"
    f" VALUES (?, ?, ?, ?, 'unroutable', 'why', 2, '{NOON}', '{NOON}', ?, ?, ?)"
)


@pytest.fixture(params=["sqlite", "postgres"])
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database of the release before, with an open, a fed and a cut message."""
    name = request.param
    databases: Databases | None = None
    if name == "sqlite":
        made = Backend(name, f"sqlite:///{tmp_path / 'before.db'}")
    else:
        databases = request.getfixturevalue("postgres_databases")
        made = Backend(name, databases.create())
    stores = made.open()
    migrate(stores.database, [each for each in shipped_migrations(name) if each.number <= 13])
    stores.close()
    made.sql(INSERT, "q", "a" * 64, b"open", 4, None, None, None)
    made.sql(INSERT, "q", "b" * 64, b"fed", 3, FEED, NOON, "m-1")
    made.sql(INSERT, "q", "c" * 64, b"x" * 262_144, 300_000, None, None, None)
    yield made
    made.close()
    if databases is not None:
        databases.drop(made.url)


def test_messages_of_before_stay_and_longer_ones_fit(before: Backend) -> None:
    """What was cut is told as cut; ids go on, and the limit is that of the queues."""
    kept = before.sql(f"{ROWS} ORDER BY poison_id")
    with pytest.raises(RAW_ERRORS):
        before.sql(INSERT, "q", "d" * 64, b"x" * 262_145, 262_145, None, None, None)
    stores = before.open()
    migrate(stores.database)
    assert before.sql(f"{ROWS} ORDER BY poison_id") == kept
    assert [each.is_cut for each in stores.poison.page()] == [False, False, True]
    before.sql(INSERT, "q", "e" * 64, b"x" * 1_048_576, 1_048_576, None, None, None)
    with pytest.raises(RAW_ERRORS):
        before.sql(INSERT, "q", "f" * 64, b"x" * 1_048_577, 1_048_577, None, None, None)
    assert stores.poison.page()[3].poison_id > 3
    stores.close()
