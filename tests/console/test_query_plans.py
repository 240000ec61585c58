"""Every statement that a page or a route of the API reads by finds its rows through an index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench.console_paths import paths_of
from bench.console_store import fill, fill_nodes, fill_queue
from bench.pipeline import Pipeline
from tallgrass.storage import postgres, sqlite
from tests.support.console import console_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from tests.support.backends import Backend

UNITS = 800
#: Tables that grow with what is ingested, or with what people do for years.
LARGE = {
    "wal_records", "wal_attempts", "wal_transitions", "wal_annotations", "stac_items", "provenance",
    "outbox", "outbox_delivery", "outbox_attempts", "replay_run_records", "audit_log",
    "audit_seals", "expired_items", "drained_letters", "archive_rows",
}  # fmt: skip
#: Statements that read a whole large table on purpose, and why that is soon done.
WHOLE: Mapping[str, str] = {
    "count_dispatched": "counts deliveries, for the API alone",
}


class Watched:
    """Explains each statement once for each set of conditions that is given."""

    def __init__(self) -> None:
        #: Statement → the large tables that it reads from end to end.
        self.whole: dict[str, set[str]] = {}
        self._seen: set[tuple[str, tuple[str, ...]]] = set()

    def is_new(self, name: str, params: Mapping[str, object]) -> bool:
        """Tell whether a statement was not met with these conditions."""
        key = name, tuple(each for each, value in params.items() if value is not None)
        known = key in self._seen
        self._seen.add(key)
        self.whole.setdefault(name, set())
        return not known

    def on_sqlite(self, monkeypatch: pytest.MonkeyPatch, partial: set[str]) -> None:
        """Watch SQLite; what is in an index of few rows is not the whole table."""
        select = sqlite.SqliteTransaction.select

        def watched(tx: Any, name: str, **params: object) -> Any:
            query = tx._queries[name]
            if self.is_new(name, params):
                values = sqlite.given_once(query, params)
                for row in tx.connection.execute(f"EXPLAIN QUERY PLAN {query.sql}", values):
                    self.whole[name] |= scanned(query.sql, row["detail"], partial)
            return select(tx, name, **params)

        monkeypatch.setattr(sqlite.SqliteTransaction, "select", watched)

    def on_postgres(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch PostgreSQL; it reads small tables whole in any case, so that is made dear."""
        select = postgres.PostgresTransaction.select

        def watched(tx: Any, name: str, **params: object) -> Any:
            if self.is_new(name, params):
                sql = f"EXPLAIN {tx._queries[name].sql}"
                tx.connection.execute("SET LOCAL enable_seqscan = off")
                steps = tx.connection.execute(sql, postgres._stored(params)).fetchall()
                tx.connection.execute("SET LOCAL enable_seqscan = on")
                read = re.findall(r"Seq Scan on (\w+)", str([row["QUERY PLAN"] for row in steps]))
                self.whole[name] |= {each.removesuffix("_default") for each in read} & LARGE
            return select(tx, name, **params)

        monkeypatch.setattr(postgres.PostgresTransaction, "select", watched)


def scanned(query: str, detail: str, partial: set[str]) -> set[str]:
    """Return the large table that a step of SQLite's plan reads from end to end, if any."""
    found = re.match(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", detail)
    if found is None or found[2] in partial:
        return set()
    alias = str(found[1])
    tables = {name: table for table, name in re.findall(r"\b(\w+)\s+AS\s+(\w+)", query)}
    return {tables.get(alias, alias)} & LARGE


def test_no_page_and_no_route_reads_a_large_table_from_end_to_end(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page and GET route, with each filter: found by an index, or counted on purpose."""
    fill(backend.url, tmp_path, UNITS)
    Pipeline(backend.url, tmp_path / "queue").close()
    fill_queue(tmp_path / "queue" / "queue.db", 20)
    fill_nodes(tmp_path / "nodes", 8)
    watched = Watched()
    if backend.name == "sqlite":
        indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'"
        watched.on_sqlite(monkeypatch, {name for (name,) in backend.sql(indexes)})
    else:
        watched.on_postgres(monkeypatch)
    settings = {
        "queue.url": f"sqlite:///{tmp_path}/queue/queue.db",
        "nodes.folder": str(tmp_path / "nodes"),
        "console.plans_folder": str(tmp_path / "plans"),
        "console.requests_per_minute": 1_000_000,
    }
    with console_at(backend, settings, figures_age_s=60.0, figures_recent_s=60.0) as console:
        client = console.browser_of()
        asked = paths_of(lambda path: client.get(path).json())
        answers = {path: client.get(path).status_code for path in asked}
    assert {path: code for path, code in answers.items() if code not in {200, 303}} == {}
    whole = {name: tables for name, tables in watched.whole.items() if tables}
    assert {name: tables for name, tables in whole.items() if name not in WHOLE} == {}
    assert len(watched.whole) > 60
