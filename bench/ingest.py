"""Ingest beside DBOS and procrastinate: the same notifications, objects, items and PostgreSQL.

Ours is the shipped pipeline, which also keeps a ledger with every attempt, evidence and provenance;
the others do what `bench/ingest_peers.py` says. All take turns, round by round, one process each.
A workflow (DBOS) or job (procrastinate) of one message is what is as safe as ours: a bad one harms
no neighbour. With a whole batch in one, they are quicker and fail or run again as a whole.
"""

from __future__ import annotations

import pickle
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.outbox import peers_python
from bench.pipeline import BATCH, BUCKET, Pipeline, key_of, message_of, sample_rows
from bench.report import Row, beside, in_turn
from tallgrass.garbage import rare_collections

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
WARM_UP = 20
#: Peer, messages of a workflow or job, its name for readers, how many times as fast we must be.
SIDES: tuple[tuple[str, int, str, float | None], ...] = (
    ("dbos", 1, "DBOS, a workflow a message", 5.0),
    ("procrastinate", 1, "procrastinate, a job a message", 3.0),
    ("dbos", BATCH, f"DBOS, a workflow of {BATCH} messages", None),
    ("procrastinate", BATCH, f"procrastinate, a job of {BATCH} messages", None),
)


class Ours:
    """The pipeline on PostgreSQL, with objects in a folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.objects = folder / "objects"
        self.objects.mkdir()
        self.pipeline = Pipeline(url, folder / "ours", f"file:{self.objects}")
        self._next = 1

    def sample(self) -> tuple[dict[str, dict[str, Any]], str, bytes]:
        """Run one unit; return its rows, the id of its message and the message."""
        body = message_of(0, folder=self.objects)
        self.pipeline.queue.send([body])
        self.pipeline.round()
        rows = sample_rows(self.pipeline.stores, f"s3://{BUCKET}/{key_of(0)}")
        return rows, str(rows["wal_attempts"]["sqs_message_id"]), body

    def messages(self, count: int) -> list[bytes]:
        """Write further objects; return their notifications."""
        first, self._next = self._next, self._next + count
        return [message_of(first + each, folder=self.objects) for each in range(count)]

    def seconds(self, bodies: list[bytes]) -> float:
        """Take messages to items; return the seconds."""
        self.pipeline.queue.send(bodies)
        before = self.pipeline.loop.report.by_verdict.get("succeeded", 0)
        began = time.perf_counter()
        with rare_collections():
            for _ in range(0, len(bodies), BATCH):
                self.pipeline.round()
        took = time.perf_counter() - began
        done = self.pipeline.loop.report.by_verdict["succeeded"] - before
        assert done == len(bodies), f"{done} of {len(bodies)} units succeeded"
        return took


def peer_seconds(peer: str, url: str, folder: Path, chunk: int) -> float:
    """Let a peer take the messages that are in the folder."""
    done = subprocess.run(
        [peers_python(), "-m", "bench.ingest_peers", peer, url, str(folder), str(chunk)],
        check=True, capture_output=True, text=True, cwd=HERE.parent,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Return a row for each way of each peer."""
    count, rounds = (BATCH // 5, 1) if quick else (BATCH, 6)
    ours = Ours(new_postgres(), folder)
    sample = ours.sample()
    ours.seconds(ours.messages(BATCH))  # plans and caches are warm then
    pairs: list[list[tuple[float, float]]] = [[] for _ in SIDES]
    for number in range(rounds):
        bodies = ours.messages(WARM_UP + count)
        named = [(f"message-{number}-{each}", body.decode()) for each, body in enumerate(bodies)]
        (folder / "work.pickle").write_bytes(pickle.dumps((*sample, named)))
        rates: dict[int, float] = {}
        for place in in_turn(number, range(-1, len(SIDES))):
            if place < 0:
                rates[place] = count / ours.seconds(bodies[WARM_UP:])
                continue
            peer, chunk, _, _ = SIDES[place]
            rates[place] = count / peer_seconds(peer, new_postgres(), folder, chunk)
        for place, found in enumerate(pairs):
            found.append((rates[-1], rates[place]))
    ours.pipeline.close()
    return [
        beside(
            f"ingest (postgres), {title}", found, "messages/s",
            at_least=least, peer=title, steady=True,
        )
        for (_, _, title, least), found in zip(SIDES, pairs, strict=True)
    ]  # fmt: skip
