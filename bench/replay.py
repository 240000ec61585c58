"""Replay beside ingest: units of which the same evidence is read, through the same worker.

Ingest takes messages from its queue; replay takes failed units of the ledger, by the shipped engine
with its plan, its rows and its comparison. They take turns round by round in one run.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.pipeline import BATCH, BATCHES, Pipeline, message_of
from bench.report import Row, beside, in_turn, warm
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import PlanRequest
from tallgrass.bootstrap.replay_preparing import ReplayRequest, prepare_replay
from tallgrass.bootstrap.replaying import RunOptions, run_replay
from tallgrass.bootstrap.workers import open_worker
from tallgrass.evidence.reading import ReadFailure
from tallgrass.garbage import rare_collections
from tallgrass.replay.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallgrass.config import Config
    from tallgrass.datasets.catalogue import Catalogue
    from tallgrass.ledger.unit import IngestUnit

UNITS = BATCH * BATCHES


class _Down:
    """A store of objects that does not answer."""

    def read(self, units: Sequence[IngestUnit]) -> Sequence[ReadFailure]:
        return [ReadFailure(code="transient_network_error", message="down") for _ in units]


def replay_ratio(name: str, url: str, folder: Path, rounds: int) -> Row:
    """Rate of replay / rate of ingest, wall clock."""
    pipeline = Pipeline(url, folder)
    values = {"replay.max_records_per_second": 1e6, "replay.allow_global_scope": True}
    config = replace(pipeline.config, values={**pipeline.config.values, **values})
    catalogue = open_catalogue(config)
    lease = pipeline.stores.leases.register("down", ingest_run_id="down", lease_s=36_000)
    failing = open_worker(
        config, pipeline.stores, lease, queue=pipeline.queue, reader=_Down(), catalogue=catalogue
    )
    rates = []
    with rare_collections():
        for number in range(rounds):
            first = number * 2 * UNITS
            rate: dict[str, float] = {}
            for side in in_turn(number, ("replay", "ingest")):
                if side == "replay":
                    _offer(pipeline, first)
                    for _ in range(BATCHES):
                        failing.run_messages()
                    _forget_messages(config)
                    begin = time.perf_counter()
                    _replay(config, pipeline, catalogue)
                else:
                    _offer(pipeline, first + UNITS)
                    begin = time.perf_counter()
                    for _ in range(BATCHES):
                        pipeline.round()
                rate[side] = UNITS / (time.perf_counter() - begin)
            rates.append((rate["replay"], rate["ingest"]))
    verdicts = pipeline.loop.report.by_verdict
    if verdicts != {"succeeded": rounds * UNITS}:
        raise AssertionError(f"not what was meant: {verdicts}")
    pipeline.close()
    return beside(f"{name}: replay rate / ingest's", warm(rates), "units/s", at_least=0.8)


def _offer(pipeline: Pipeline, first: int) -> None:
    pipeline.queue.send([message_of(first + number) for number in range(UNITS)])


def _forget_messages(config: Config) -> None:
    """Let the messages of failed units go: redelivery is not what is measured."""
    with closing(sqlite3.connect(config.text("queue.url").removeprefix("sqlite:///"))) as queue:
        queue.execute("DELETE FROM messages")
        queue.commit()


def _replay(config: Config, pipeline: Pipeline, catalogue: Catalogue) -> None:
    request = ReplayRequest(
        plan=PlanRequest(
            selection=Selection(error_codes=("transient_network_error",)), reason="backfill"
        )
    )
    with closing(
        prepare_replay(config, pipeline.stores, catalogue, request, by="bench")
    ) as prepared:
        report = run_replay(config, pipeline.stores, catalogue, prepared, RunOptions(), by="bench")
    if report.done != UNITS:
        raise AssertionError(f"not all were replayed: {report}")


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Run them on both databases."""
    rounds = 1 if quick else 8
    return [
        replay_ratio("sqlite", f"sqlite:///{folder}/replay.db", folder / "replay-s", rounds),
        replay_ratio("postgres", new_postgres(), folder / "replay-p", rounds),
    ]
