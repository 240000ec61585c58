"""The benchmark's grown ledgers hold what ingest would have left there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.growth import Grown
from bench.ledger import BATCH

if TYPE_CHECKING:
    from tests.support.backends import Backend

TABLES = ("wal_records", "wal_attempts", "stac_items")


def test_a_grown_ledger_is_a_ledger(backend: Backend) -> None:
    """Each filled unit has its record, attempt and item; ingest goes on where the filling ended."""
    grown = Grown(backend.url)
    grown.grow(100)
    grown.grow(300)
    assert [backend.sql(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES] == [300] * 3
    for table in TABLES[1:]:
        lost = backend.sql(
            f"SELECT count(*) FROM {table} AS t LEFT JOIN wal_records AS r USING (wal_id)"
            " WHERE r.wal_id IS NULL OR r.status <> 'succeeded'"
        )
        assert lost[0][0] == 0
    times = "SELECT count(*), count(DISTINCT time_range_start) FROM wal_records"
    assert tuple(backend.sql(times)[0]) == (300, 300)

    grown.batch_s()
    assert backend.sql("SELECT count(*) FROM wal_records")[0][0] == 300 + BATCH
    latest = "SELECT object_uri FROM wal_records ORDER BY wal_id DESC LIMIT 1"
    assert "grown" not in backend.sql(latest)[0][0]
    assert len(grown.page_ms()) == 60
    assert len(grown.search_ms()) == 60
    grown.close()


def test_what_guards_the_ledger_is_back_after_filling(backend: Backend) -> None:
    """Triggers are away only while rows are made: what is measured pays for them."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY name"
    if backend.name != "sqlite":
        query = (
            "SELECT tgname FROM pg_trigger WHERE tgenabled = 'O' AND NOT tgisinternal ORDER BY 1"
        )
    before = [tuple(row) for row in backend.sql(query)]
    grown = Grown(backend.url)
    grown.grow(10)
    grown.close()
    assert before
    assert [tuple(row) for row in backend.sql(query)] == before
