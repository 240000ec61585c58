"""Verification beside ingest: units a second of each, on the same ledger, in the same run.

Both take turns: some batches are ingested, then exactly these units are verified, by a connection
that only reads. Ingest believes the event, which is its quickest way.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from bench.pipeline import BATCH, BATCHES, START, Pipeline, message_of
from bench.report import Row, beside, warm
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.stores import open_stores
from tallgrass.bootstrap.verifying import VerifyRequest, verify
from tallgrass.garbage import rare_collections
from tallgrass.replay.selection import Selection, Span

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LENGTH = timedelta(seconds=20)


def verify_ratio(name: str, pipeline: Pipeline, rounds: int) -> Row:
    """Rate of verification / rate of ingest, wall clock."""
    stores = open_stores(pipeline.config, read_only=True)
    catalogue = open_catalogue(pipeline.config)
    units = BATCH * BATCHES
    rates = []
    with rare_collections():
        for number in range(rounds):
            first = number * units
            ingest_s = 0.0
            for batch in range(first, first + units, BATCH):
                pipeline.queue.send([message_of(batch + i) for i in range(BATCH)])
                begin = time.perf_counter()
                pipeline.round()
                ingest_s += time.perf_counter() - begin
            span = Span(START + first * _LENGTH, START + (first + units) * _LENGTH)
            request = VerifyRequest(selection=Selection(data_time=span))
            begin = time.perf_counter()
            report = verify(pipeline.config, stores, request, catalogue=catalogue)
            rates.append((units / (time.perf_counter() - begin), units / ingest_s))
            if report.counts != {"identical": units}:
                raise AssertionError(f"not all of {units} units are identical: {report.counts}")
    stores.close()
    pipeline.close()
    return beside(f"{name}: verify rate / ingest rate", warm(rates), "units/s", at_least=1.5)


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return a row for each database."""
    rounds = 1 if quick else 12
    sqlite = Pipeline(f"sqlite:///{folder}/verify.db", folder / "verify-sqlite")
    postgres = Pipeline(new_postgres(), folder / "verify-postgres")
    return [verify_ratio("sqlite", sqlite, rounds), verify_ratio("postgres", postgres, rounds)]
