"""Marks of items that were there before items could get another id stay, and go along then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.storage.migrations import migrate, shipped_migrations
from tests.contract.scene import RAW_ERRORS
from tests.support.backends import Backend
from tests.support.catalog import NOON, Known, text_of, write_catalog_of_before_spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases

MARKS = "SELECT collection_id, item_id, reason, actor FROM expired_items"


@pytest.fixture(params=["sqlite", "postgres"])
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A database of the release before, with a marked item."""
    name = request.param
    databases: Databases | None = None
    if name == "sqlite":
        made = Backend(name, f"sqlite:///{tmp_path / 'before.db'}")
    else:
        databases = request.getfixturevalue("postgres_databases")
        made = Backend(name, databases.create())
    stores = made.open()
    migrate(stores.database, [each for each in shipped_migrations(name) if each.number <= 12])
    stores.close()
    write_catalog_of_before_spans(made, [Known(id="marked"), Known(id="unmarked")])
    made.sql(
        "INSERT INTO expired_items (collection_id, item_id, expires_at, reason, actor, marked_at)"
        " VALUES ('goes-glm', 'marked', ?, 'object_gone', 'olga', ?)",
        text_of(NOON), text_of(NOON),
    )  # fmt: skip
    yield made
    made.close()
    if databases is not None:
        databases.drop(made.url)


def test_marks_of_before_stay_and_go_with_their_item(before: Backend) -> None:
    """Until then an id could not change at all; now a note lets it, and its mark follows."""
    stores = before.open()
    migrate(stores.database)
    stores.close()
    assert before.sql(MARKS) == [("goes-glm", "marked", "object_gone", "olga")]
    rename = "UPDATE stac_items SET item_id = 'coarse', attempt_no = 2 WHERE item_id = 'marked'"
    with pytest.raises(RAW_ERRORS):
        before.sql(rename)
    before.sql(
        "INSERT INTO replaced_items SELECT wal_id, 2, collection_id, item_id, sha256, updated_at"
        " FROM stac_items WHERE item_id = 'marked'"
    )
    before.sql(rename)
    assert before.sql(MARKS) == [("goes-glm", "coarse", "object_gone", "olga")]
    with pytest.raises(RAW_ERRORS):
        before.sql(
            "INSERT INTO expired_items VALUES ('goes-glm', 'nowhere', ?, 'policy', 'olga', ?)",
            text_of(NOON), text_of(NOON),
        )  # fmt: skip
