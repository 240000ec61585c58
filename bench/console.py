"""The console on 1,000,000 records: how soon each page is there, and what its readers cost ingest.

A real `tallgrass console` answers over HTTP. First one reader asks for every page and route with
each filter, by itself. Then some readers ask for all of them in turn, mixed, as the pipeline
ingests beside them; rounds of ingest with readers and without alternate in one run, so that a busy
machine slows both.
"""

from __future__ import annotations

import multiprocessing
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from os import environ
from random import Random
from typing import TYPE_CHECKING, Any

import httpx

from bench.console_paths import paths_of
from bench.console_store import fill, fill_nodes, fill_queue
from bench.pipeline import BATCH, BATCHES, Pipeline, configure, message_of
from bench.report import Row, row
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.garbage import rare_collections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RECORDS = 1_000_000
READERS = 4
ROUNDS = 10
#: Asks of each address by one reader alone; the median counts.
ASKS = 3
_TIMEOUT_S = 120.0


@contextmanager
def serving(url: str, folder: Path) -> Iterator[str]:
    """Run a console; yield the link that signs in."""
    settings = {
        "TALLGRASS_QUEUE_URL": f"sqlite:///{folder}/queue.db",
        "TALLGRASS_NODES_FOLDER": str(folder / "nodes"),
        "TALLGRASS_CONSOLE_PLANS_FOLDER": str(folder / "plans"),
        "TALLGRASS_CONSOLE_REQUESTS_PER_MINUTE": "1000000",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tallgrass", "console", "--store", url, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**environ, **settings},
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def signed_in(link: str) -> httpx.Client:
    """Return a reader; a link is good for one."""
    client = httpx.Client(base_url=link.partition("/sign-in")[0], timeout=_TIMEOUT_S)
    client.get(link)
    return client


def ask_s(client: httpx.Client, path: str) -> float:
    """Return the seconds until an answer was there, whole."""
    begin = time.perf_counter()
    answer = client.get(path)
    took = time.perf_counter() - begin
    if answer.status_code >= httpx.codes.BAD_REQUEST:
        raise AssertionError(f"{path}: {answer.status_code} {answer.text[:200]}")
    return took


def _read(address: str, cookies: dict[str, str], paths: list[str], go: Any, answers: Any) -> None:
    """Be several readers while `go` is set; tell how long each answer took, and stop at None."""
    times: list[tuple[float, str]] = []
    over = threading.Event()

    def reader(seed: int) -> None:
        random = Random(seed)
        with httpx.Client(base_url=address, cookies=cookies, timeout=_TIMEOUT_S) as client:
            while not over.is_set():
                go.wait(1.0)
                if go.is_set() and not over.is_set():
                    path = random.choice(paths)
                    times.append((ask_s(client, path), path))

    readers = [threading.Thread(target=reader, args=(seed,)) for seed in range(READERS)]
    for each in readers:
        each.start()
    answers.recv()
    over.set()
    for each in readers:
        each.join()
    answers.send(times)


def _round_s(pipeline: Pipeline, number: int) -> float:
    units = BATCH * BATCHES
    pipeline.queue.send([message_of(number * units + each) for each in range(units)])
    begin = time.perf_counter()
    for _ in range(BATCHES):
        pipeline.round()
    return time.perf_counter() - begin


def beside_ingest(
    pipeline: Pipeline, client: httpx.Client, paths: list[str], rounds: int
) -> tuple[list[float], list[float]]:
    """Return ingest's rate with readers / without, round by round, and the readers' seconds."""
    context = multiprocessing.get_context("spawn")
    go, (ours, theirs) = context.Event(), context.Pipe()
    given = (str(client.base_url), dict(client.cookies), paths, go, theirs)
    child = context.Process(target=_read, args=given)
    child.start()
    ratios = []
    try:
        with rare_collections():
            _round_s(pipeline, 0)
            for number in range(1, rounds + 1):
                go.set()
                beside = _round_s(pipeline, 2 * number)
                go.clear()
                time.sleep(0.5)  # what they had asked for is answered
                ratios.append(_round_s(pipeline, 2 * number + 1) / beside)
        ours.send(None)
        times = ours.recv()
    finally:
        child.kill()
        child.join()
    if len(times) < rounds:
        raise AssertionError(f"the readers got {len(times)} answers in {rounds} rounds")
    slowest = sorted(times, reverse=True)[:5]
    print(f"{len(times)} answers beside ingest; slowest: {slowest}")
    return ratios, [took for took, _ in times]


def measured(name: str, url: str, folder: Path, count: int, rounds: int) -> list[Row]:
    """Return the rows of one database."""
    begin = time.perf_counter()
    (folder / f"{name}-sample").mkdir()
    migrate_database(configure(url, folder, "event"))
    fill(url, folder / f"{name}-sample", count)
    pipeline = Pipeline(url, folder / name)
    fill_queue(folder / name / "queue.db")
    fill_nodes(folder / name / "nodes")
    print(f"{name}: filled in {time.perf_counter() - begin:.0f} s")
    with serving(url, folder / name) as link, closing(signed_in(link)) as client:
        paths = paths_of(lambda path: client.get(path).json())
        alone = {
            path: [ask_s(client, path) for _ in range(ASKS if count == RECORDS else 1)]
            for path in paths
        }
        medians = {path: statistics.median(times) for path, times in alone.items()}
        for path in sorted(medians, key=medians.__getitem__, reverse=True)[:5]:
            print(f"{name}: {medians[path]:.3f} s {path}")
        ratios, times = beside_ingest(pipeline, client, paths, rounds)
    pipeline.close()
    title = f"console, {count:,} records, {name}"
    return [
        row(f"{title}: slowest of {len(paths)} pages / 1 s", [max(medians.values())], at_most=1.0),
        row(f"{title}: p95 of {READERS} readers beside ingest, s", [percentile_95(times)]),
        row(f"{title}: ingest beside readers / alone", ratios),
    ]


def percentile_95(times: list[float]) -> float:
    """Return what 95 of 100 answers did not exceed."""
    return statistics.quantiles(times, n=20)[-1]


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return three rows for each database."""
    count, rounds = (5000, 2) if quick else (RECORDS, ROUNDS)
    places = {"sqlite": f"sqlite:///{folder}/console.db", "postgres": new_postgres()}
    return [
        each for name, url in places.items() for each in measured(name, url, folder, count, rounds)
    ]
