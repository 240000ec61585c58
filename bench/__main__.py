"""`make bench`: run all benchmarks on a private PostgreSQL and SQLite files, write the report."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench import (
    catalog_search,
    evidence,
    intake,
    items,
    ledger,
    outbox,
    pipeline,
    projection,
    replay,
    replay_plan,
    report,
    sqs,
    validation,
    verify,
)
from tests.plugins.postgres_server import PostgresServer, new_folder


def main() -> int:
    """Return 0 if every target is met."""
    quick = "--quick" in sys.argv[1:]
    server = PostgresServer(new_folder("tallgrass-bench-"))
    server.start()
    names = iter(range(1000))

    def new_postgres() -> str:
        name = f"bench_{next(names)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))

    try:
        with tempfile.TemporaryDirectory(prefix="tallgrass-bench-") as folder:
            rows = intake.benchmarks(quick=quick)
            rows += evidence.benchmarks(Path(folder) / "evidence", quick=quick)
            rows += pipeline.benchmarks(Path(folder), new_postgres, quick=quick)
            rows += verify.benchmarks(Path(folder), new_postgres, quick=quick)
            rows += ledger.benchmarks(Path(folder), new_postgres, quick=quick)
            rows += outbox.benchmarks(new_postgres, quick=quick)
            rows += sqs.benchmarks(quick=quick)
            rows += items.benchmarks()
            rows += validation.benchmarks()
            rows += projection.benchmarks(quick=quick)
            rows += replay.benchmarks(Path(folder), new_postgres, quick=quick)
            rows += replay_plan.benchmarks(Path(folder), new_postgres, quick=quick)
            rows += catalog_search.benchmarks(Path(folder), new_postgres, quick=quick)
    finally:
        server.remove()
    report.write(rows)
    return 0 if all(item.met for item in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
