"""What bootstrap lends to sinks: the catalog's own bytes, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.sinks import open_target, sink_resources
from tallgrass.config import load_config
from tallgrass.errors import ConfigError
from tallgrass.outbox.routing import Target
from tallgrass.sinks.file import DEFAULT_PATH
from tests.sinks.receiver import EVENT
from tests.support.catalog import Known, write_catalog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend


def test_items_collections_and_documents_are_lent(backend: Backend) -> None:
    """As raw SQL finds them."""
    write_catalog(backend, [Known("one"), Known("two")])
    collection, item, body = backend.sql(
        "SELECT collection_id, item_id, body FROM stac_items ORDER BY item_id LIMIT 1"
    )[0]
    wal_id, activity, document = backend.sql(
        "SELECT wal_id, activity_id, body FROM provenance ORDER BY wal_id LIMIT 1"
    )[0]
    with sink_resources(load_config(environment={}, flags={"database.url": backend.url})) as lent:
        assert lent.items(collection, item) == bytes(body)
        assert lent.items(collection, "none") is None
        assert lent.collections(collection) is not None
        assert lent.provenance(str(wal_id), activity) == bytes(document)
        assert lent.provenance(str(wal_id), "urn:none") is None
        assert lent.lease_s == 60.0


def test_the_default_target_writes_beside_the_database(tmp_path: Path) -> None:
    """Whatever the current folder is."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with sink_resources(load_config(environment={}, flags={"database.url": url})) as lent:
        open_target(Target(name="file", kind="file"), lent).send([EVENT])
    assert (tmp_path / DEFAULT_PATH).read_bytes().count(b"\n") == 1


def test_a_wrong_target_is_told_by_its_name() -> None:
    """So that the table in the file can be found."""
    with (
        sink_resources(load_config(environment={})) as lent,
        pytest.raises(ConfigError, match=r"outbox\.targets\.lake: url is missing"),
    ):
        open_target(Target(name="lake", kind="sqs"), lent)
