"""`make bench`: run the benchmarks on a private PostgreSQL and SQLite files, write the report.

`make bench-quick` does the same with small counts, in about a minute. Both write
`bench/report.json`, `bench/report.md` and `bench/report.svg`, part by part. Single parts only
print, or with `--write` take the place of their old rows: each part is measured in one run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench import (
    console,
    evidence,
    growth,
    ingest,
    intake,
    inventory,
    items,
    ledger,
    machine,
    nodes,
    outbox,
    pipeline,
    projection,
    replay,
    replay_plan,
    report,
    report_plot,
    report_text,
    retention,
    sqs,
    telemetry,
    validation,
    verify,
)
from tests.plugins.postgres_server import PostgresServer, new_folder

NewPostgres = Callable[[], str]
Part = Callable[[Path, NewPostgres, bool], list[report.Row]]

PARTS: dict[str, Part] = {
    "intake": lambda _folder, _postgres, quick: intake.benchmarks(quick=quick),
    "evidence": lambda folder, _postgres, quick: evidence.benchmarks(folder, quick=quick),
    "pipeline": lambda folder, postgres, quick: pipeline.benchmarks(folder, postgres, quick=quick),
    "ingest": lambda folder, postgres, quick: ingest.benchmarks(folder, postgres, quick=quick),
    "telemetry": lambda folder, postgres, quick: telemetry.benchmarks(
        folder, postgres, quick=quick
    ),
    "verify": lambda folder, postgres, quick: verify.benchmarks(folder, postgres, quick=quick),
    "ledger": lambda folder, postgres, quick: ledger.benchmarks(folder, postgres, quick=quick),
    "outbox": lambda folder, postgres, quick: outbox.benchmarks(folder, postgres, quick=quick),
    "nodes": lambda folder, postgres, quick: nodes.benchmarks(folder, postgres, quick=quick),
    "sqs": lambda _folder, _postgres, quick: sqs.benchmarks(quick=quick),
    "items": lambda _folder, _postgres, _quick: items.benchmarks(),
    "validation": lambda _folder, _postgres, _quick: validation.benchmarks(),
    "projection": lambda _folder, _postgres, quick: projection.benchmarks(quick=quick),
    "replay": lambda folder, postgres, quick: replay.benchmarks(folder, postgres, quick=quick),
    "inventory": lambda folder, postgres, quick: inventory.benchmarks(
        folder, postgres, quick=quick
    ),
    "retention": lambda folder, postgres, quick: retention.benchmarks(
        folder, postgres, quick=quick
    ),
    "plan": lambda folder, postgres, quick: replay_plan.benchmarks(folder, postgres, quick=quick),
    "growth": lambda folder, postgres, quick: growth.benchmarks(folder, postgres, quick=quick),
    "console": lambda folder, postgres, quick: console.benchmarks(folder, postgres, quick=quick),
}


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if every target is met."""
    asked = _asked(arguments)
    parts = PARTS if asked.growth is None else {**PARTS, "growth": _grown(asked.growth)}
    rows: list[report.Row] = []
    with _private_postgres() as new_postgres:
        url = new_postgres()
        for name in asked.parts or parts:
            measured_now = machine.stamp(url)
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"tallgrass-bench-{name}-") as folder:
                measured = parts[name](Path(folder), new_postgres, asked.quick)
            measured = report.of_run(measured, name, quick=asked.quick, stamp=measured_now)
            print(f"\n{name} ({time.monotonic() - began:.0f} s)")
            report.show(measured)
            rows += measured
            if asked.write or not asked.parts:
                # At once: a run that is cut off keeps what it measured.
                write(report.renewed(report.read(), measured, list(PARTS)))
    if not asked.parts:
        write(rows)  # without rows of before that were not measured this time
    print(f"\n{report_text.verdict(rows)}")
    return report.exit_code(rows)


def write(rows: Sequence[report.Row], folder: Path = report.FOLDER) -> None:
    """Write the report in its three forms."""
    for name, text in (
        (report.NAME, report.as_json(rows)),
        ("report.md", report_text.document(rows)),
        ("report.svg", report_plot.svg(rows)),
    ):
        (folder / name).write_text(text, encoding="utf-8")


def _grown(power: int) -> Part:
    """Return the part that grows as far as was asked."""
    sizes = [10**each for each in range(4, power + 1)]
    return lambda folder, postgres, quick: growth.benchmarks(
        folder, postgres, quick=quick, sizes=sizes
    )


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure speed as ratios to a bare loop, in one run on a quiet machine.",
        epilog="Example: python -m bench outbox ledger",
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--write", action="store_true", help="put single parts into the report too")
    parser.add_argument("--quick", action="store_true", help="small counts, to see that all runs")
    parser.add_argument(
        "--growth",
        type=int,
        choices=range(4, 8),
        metavar="POWER",
        help="grow to 10 to this power of records (4 to 7; 7 unless told otherwise)",
    )
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    return asked


@contextmanager
def _private_postgres() -> Iterator[NewPostgres]:
    server = PostgresServer(new_folder("tallgrass-bench-"))
    server.start()
    names = iter(range(1000))

    def new_postgres() -> str:
        name = f"bench_{next(names)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))

    try:
        yield new_postgres
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
