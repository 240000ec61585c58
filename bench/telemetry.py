"""The pipeline with telemetry beside the pipeline without: metrics, and a twentieth of all traces.

Ratios are of wall-clock time. Both run in this process and take turns by blocks of batches, so that
a busy machine slows both; what is sent goes to a collector in a process of its own, as it would,
and is encoded on a thread of this one, whose cost counts.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench.pipeline import BATCH, BATCHES, Pipeline, configure, message_of
from bench.report import Row, beside, in_turn, warm
from tallgrass.bootstrap.telemetry import open_recorder
from tallgrass.garbage import rare_collections
from tests.telemetry.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallgrass.telemetry.recorder import Recorder


def telemetry_ratio(
    name: str, new_database: Callable[[str], str], rounds: int, *, folder: Path
) -> Row:
    """Rate with telemetry / rate without it, wall clock; a round is some batches of each."""
    told: list[tuple[int, int]] = []
    with _collected(folder, told) as recorder:
        off = Pipeline(new_database("off"), folder / f"{name}-off")
        on = Pipeline(new_database("on"), folder / f"{name}-on", recorder=recorder)
        rates = []
        with rare_collections():
            for number in range(rounds):
                spent = {each: _block(number, each) for each in in_turn(number, (off, on))}
                rates.append((BATCHES * BATCH / spent[on], BATCHES * BATCH / spent[off]))
        for pipeline in (off, on):
            units = rounds * BATCHES * BATCH
            if pipeline.loop.report.by_verdict != {"succeeded": units}:
                raise AssertionError(f"not all of {units} units succeeded: {pipeline.loop.report}")
            pipeline.close()
    ((metrics, spans),) = told
    if not metrics or not spans:
        raise AssertionError(f"the collector got {metrics} metrics and {spans} spans")
    print(f"{name}: the collector got {spans:,} spans")
    return beside(f"{name}: rate with telemetry / without", warm(rates), "units/s", at_least=0.9)


def _block(number: int, pipeline: Pipeline) -> float:
    """Work off a block of batches and return how long it took, without the time to send them."""
    spent = 0.0
    for batch in range(number * BATCHES, (number + 1) * BATCHES):
        pipeline.queue.send([message_of(batch * BATCH + i) for i in range(BATCH)])
        begin = time.perf_counter()
        pipeline.round()
        spent += time.perf_counter() - begin
    return spent


@contextmanager
def _collected(folder: Path, told: list[tuple[int, int]]) -> Iterator[Recorder]:
    """Yield a recorder that sends to a collector; at the end, note how much came there."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_collect, args=(theirs,))
    process.start()
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": ours.recv(), "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
    # The exporters read them themselves.
    os.environ.update(variables)
    try:
        with open_recorder(configure("sqlite:///none.db", folder, "event"), None) as recorder:
            yield recorder
    finally:
        for variable in variables:
            del os.environ[variable]
        ours.send(None)
        told.append(ours.recv())
        process.join()


def _collect(parent: Any) -> None:
    """Be a collector until the other side asks how much came."""
    with Collector() as collector:
        parent.send(collector.url)
        parent.recv()
        parent.send((len(collector.metrics), len(collector.spans)))


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Run all of them."""
    rounds = 1 if quick else 20
    return [
        telemetry_ratio(
            "sqlite", lambda which: f"sqlite:///{folder}/{which}.db", rounds, folder=folder
        ),
        telemetry_ratio("postgres", lambda _which: new_postgres(), rounds, folder=folder),
    ]
