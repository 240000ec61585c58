"""Lineage from the ledger alone: from unit to attempt to activity to item, and back."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tallgrass.bootstrap.stores import open_stores
from tallgrass.config import load_config
from tallgrass.errors import TallgrassError
from tests.pipeline.scene import Pipeline, thing, things

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.plugins.postgres import Databases
    from tests.support.backends import Backend


@pytest.fixture
def reading_url(backend: Backend, request: pytest.FixtureRequest) -> Iterator[str]:
    """The ledger's address for somebody who may only read."""
    if backend.name == "sqlite":
        yield backend.url
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    role = f"tallgrass_lineage_{uuid.uuid4().hex[:8]}"
    backend.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    backend.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    parts = urlsplit(backend.url)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{role}:reader@{host}"))
    backend.sql(f"DROP OWNED BY {role}")
    with psycopg.connect(databases.server_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {role}")


def documents(backend: Backend) -> dict[str, dict[str, Any]]:
    """Return the activities that documents tell of, by their ids."""
    rows = backend.sql("SELECT body FROM provenance")
    activities = [json.loads(bytes(body))["@graph"][0] for (body,) in rows]
    return {activity["@id"]: activity for activity in activities}


@pytest.mark.conformance("WAL-1.4", "WAL-9.4", "WAL-9.5")
def test_the_chain_is_rebuilt_by_a_reader(
    backend: Backend, tmp_path: Path, reading_url: str
) -> None:
    """Record, applied attempt, activity and item lead to each other by ledger queries alone."""
    pipeline = Pipeline(backend, tmp_path)
    given = things(5)
    pipeline.feed(*given[:4])
    pipeline.drain()
    # One was overwritten, and one never came.
    pipeline.feed(thing(0, version=2))
    pipeline.announce(given[4])
    pipeline.worker.run_messages()

    config = load_config(environment={}, flags={"database.url": reading_url})
    stores = open_stores(config, read_only=True)
    known = documents(backend)
    for each in given[:4]:
        record = stores.reader.record(each.uri)
        attempts = stores.reader.attempts(record.wal_id)
        applied = [attempt for attempt in attempts if attempt.status == "applied"]
        item = pipeline.item(each)
        assert item is not None
        last = applied[-1]
        assert (record.stac_collection_id, record.stac_item_id) == (
            item["collection_id"],
            item["item_id"],
        )
        assert (last.attempt_no, last.item_sha256) == (item["attempt_no"], item["sha256"])
        for attempt in applied:
            activity = known.pop(attempt.prov_activity_id or "")
            assert activity["kfm:walId"] == record.wal_id
        events = stores.reader.history(record.wal_id)
        assert [event.to_status for event in events][:3] == ["pending", "in_progress", "succeeded"]
    # Every activity was named by an attempt, and the failed unit has none.
    assert known == {}
    failed = stores.reader.record(given[4].uri)
    assert [each.prov_activity_id for each in stores.reader.attempts(failed.wal_id)] == [None]
    stores.close()


@pytest.mark.conformance("WAL-9.4")
def test_each_run_and_activity_leads_to_one_record(backend: Backend, tmp_path: Path) -> None:
    """No run and no activity is shared by two units, and each is found from its id."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(*things(6))
    pipeline.drain()
    for column in ("openlineage_run_id", "prov_activity_id"):
        rows = backend.sql(f"SELECT {column}, count(DISTINCT wal_id) FROM wal_attempts GROUP BY 1")
        assert len(rows) == 6
        assert {count for _, count in rows} == {1}
    runs = backend.sql("SELECT wal_id, run FROM provenance")
    for wal_id, run in runs:
        named = json.loads(bytes(run))["nonDeterministic"]["openlineageRunId"]
        owner = backend.sql("SELECT wal_id FROM wal_attempts WHERE openlineage_run_id = ?", named)
        assert owner == [(wal_id,)]


@pytest.mark.conformance("WAL-9.5")
def test_a_reader_cannot_write(backend: Backend, tmp_path: Path, reading_url: str) -> None:
    """The rights that suffice to read do not suffice to change anything."""
    pipeline = Pipeline(backend, tmp_path)
    pipeline.feed(thing())
    pipeline.drain()
    config = load_config(environment={}, flags={"database.url": reading_url})
    stores = open_stores(config, read_only=True)
    assert stores.reader.record(thing().uri).status.value == "succeeded"
    with pytest.raises(TallgrassError):
        stores.leases.register("w", ingest_run_id="r", lease_s=60)
    stores.close()
