"""Reconciliation and backfill of the same listed objects, on the same filled ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import backfill, reconcile
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.report import Row


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return five rows for each database."""
    count = 10_000 if quick else reconcile.OBJECTS
    found = []
    for name in ("sqlite", "postgres"):
        full, empty = (
            f"sqlite:///{folder / each}.db" if name == "sqlite" else new_postgres()
            for each in ("full", "empty")
        )
        for url in (full, empty):
            migrate_database(load_config(environment={}, flags={"database.url": url}))
        if name == "sqlite":
            reconcile.fill_sqlite(folder / "full.db", count)
        else:
            reconcile.fill_postgres(full, count)
        # Reconciliation only reads, so it goes first.
        found += reconcile.measured(name, full, count)
        found += backfill.measured(name, full, empty, count)
    return found
