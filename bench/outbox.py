"""The outbox: dispatch to a sink that does nothing, beside its peers; publishing; growth."""

from __future__ import annotations

import hashlib
import itertools
import random
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
import venv
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psycopg

from bench.report import Row, beside, in_turn, row
from tallgrass.bootstrap.stores import open_stores
from tallgrass.canonical_json import canonical_bytes
from tallgrass.clock import format_instant
from tallgrass.config import load_config
from tallgrass.outbox.dispatch_loop import DispatchLoop, DispatchUntil
from tallgrass.outbox.dispatch_rules import DispatchRules
from tallgrass.outbox.dispatch_threads import DispatchThreads, Lane
from tallgrass.outbox.dispatcher import Dispatcher
from tallgrass.outbox.publication import Artifact, Event
from tallgrass.outbox.publishing import publish_all
from tallgrass.outbox.routing import CONCURRENCY
from tallgrass.sinks.protocol import Delivered
from tallgrass.storage.migrations import migrate
from tallgrass.telemetry.recorder import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.outbox.event import OutboxEvent
    from tallgrass.sinks.protocol import Delivery

HERE = Path(__file__).parent
PEERS_VENV = HERE.parent / "build" / "bench-peers"
PAYLOAD = b"x" * 800
TARGET = "null"
#: Events of a transaction.
_PUBLISHED = 500

#: Rows as a pipeline writes them; ids in the order of time, as those of events are.
_FILL = """INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,
  idempotency_key, target, payload, care_label, created_at)
SELECT (lpad(to_hex(%(first)s + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
    || substr(md5(n::text), 4, 15))::uuid,
  'subject-' || (%(first)s + n), 'pipeline', 'made', 'd', '1.0.0', 'key-' || (%(first)s + n),
  'null', %(payload)s, 'public', clock_timestamp()
FROM generate_series(1, %(count)s) AS n"""

#: The rows that publishing writes, column for column, and nothing else.
_BARE_KEYS = """INSERT INTO idempotency_keys (idempotency_key, subject, pipeline_id, event_name,
  dataset_id, version, payload_sha256, artifact_uri, artifact_checksum, care_label, created_at)
SELECT k, s, 'pipeline', 'made', 'd', '1.0.0', h, u, c, 'public', clock_timestamp()
FROM json_to_recordset(%s::json) AS x (k text, s text, h text, u text, c text)"""
_BARE_ARTIFACTS = """INSERT INTO artifact_versions (artifact_uri, version, dataset_id,
  artifact_checksum, idempotency_key, created_at)
SELECT u, '1.0.0', 'd', c, k, clock_timestamp()
FROM json_to_recordset(%s::json) AS x (k text, u text, c text)"""
_BARE_EVENTS = """INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id,
  version, idempotency_key, target, payload, care_label, created_at)
SELECT i, s, 'pipeline', 'made', 'd', '1.0.0', k, 'file', convert_to(p, 'UTF8'), 'public',
  clock_timestamp()
FROM json_to_recordset(%s::json) AS x (i uuid, s text, k text, p text)"""

#: The same on SQLite, a row at a time: that is how its driver is fastest.
_BARE_SQLITE = (
    """INSERT INTO idempotency_keys (idempotency_key, subject, pipeline_id, event_name, dataset_id,
      version, payload_sha256, artifact_uri, artifact_checksum, care_label, created_at)
    VALUES (:k, :s, 'pipeline', 'made', 'd', '1.0.0', :h, :u, :c, 'public', :now)""",
    """INSERT INTO artifact_versions (artifact_uri, version, dataset_id, artifact_checksum,
      idempotency_key, created_at) VALUES (:u, '1.0.0', 'd', :c, :k, :now)""",
    """INSERT INTO outbox (outbox_id, subject, pipeline_id, event_name, dataset_id, version,
      idempotency_key, target, payload, care_label, created_at)
    VALUES (:i, :s, 'pipeline', 'made', 'd', '1.0.0', :k, 'file', CAST(:p AS BLOB), 'public',
      :now)""",
)

_NUMBERS = itertools.count(10_000_000)


class NullSink:
    """Takes everything and does nothing."""

    batch_max = 1000

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Say that all arrived."""
        return [Delivered()] * len(events)

    def close(self) -> None:
        """Nothing is open."""


class NoWriters:
    """Nobody writes while events are dispatched; the end is noticed soon."""

    def wait(self, timeout_s: float) -> bool:
        """Wait a little."""
        time.sleep(min(timeout_s, 0.005))
        return False

    def close(self) -> None:
        """Nothing is open."""


class Outbox:
    """One database with dispatchers as they are shipped: a thread each, four of a target."""

    def __init__(self, url: str) -> None:
        self.config = load_config(environment={}, flags={"database.url": url})
        self.url = url
        self.stores: Stores = open_stores(self.config)
        migrate(self.stores.database)
        self.sink = NullSink()
        self.written = 0

    def fill(self, count: int, payload: bytes = PAYLOAD) -> None:
        """Write events; not part of any cost."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            values = {"first": self.written, "count": count, "payload": payload}
            connection.execute(_FILL, values)
        self.written += count

    def tidy(self) -> None:
        """Do what autovacuum does by itself where a server runs for longer than a benchmark."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) outbox_delivery, outbox_attempts, outbox")

    def dispatch(self, count: int) -> float:
        """Dispatch that many events; return the seconds."""
        lanes = [self._lane() for _ in range(CONCURRENCY)]
        began = time.perf_counter()
        threads = DispatchThreads(lanes, NoWriters())
        report = threads.run(DispatchUntil.DRAINED, lambda: False)
        took = time.perf_counter() - began
        assert report.dispatched == count
        return took

    def close(self) -> None:
        """Close the connection."""
        self.stores.close()

    def _lane(self) -> Lane:
        stores = open_stores(self.config)
        stores.outbox.is_due(TARGET)  # connects
        dispatcher = Dispatcher(
            target=TARGET,
            sink=self.sink,
            store=stores.outbox,
            rules=DispatchRules(),
            dispatcher_id=str(uuid.uuid4()),
            recorder=NOBODY,
            random=random.random,
            monotonic=time.monotonic,
            batch_size=self.config.integer("outbox.batch"),
        )
        loop = DispatchLoop(
            dispatcher, recorder=NOBODY, random=random.random, monotonic=time.monotonic
        )
        return Lane(loop=loop, close=stores.close)


def peers_python() -> str:
    """Return an interpreter with the peers; it is made when it is first needed."""
    python = PEERS_VENV / "bin" / "python"
    wanted = (HERE / "peers.txt").read_text(encoding="utf-8")
    ready = PEERS_VENV / ".ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        venv.create(PEERS_VENV, with_pip=False, clear=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python",
             str(python), "install", "-r", str(HERE / "peers.txt")],
            check=True,
        )  # fmt: skip
        ready.write_text(wanted, encoding="utf-8")
    return str(python)


def peer_seconds(peer: str, url: str, count: int) -> float:
    """Let a peer dispatch as many rows of the same size."""
    done = subprocess.run(
        [peers_python(), str(HERE / "outbox_peers.py"), peer, url, str(count)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def _beside_peers(new_postgres: Callable[[], str], count: int, rounds: int) -> list[Row]:
    """Take turns, so that a busy moment of the machine meets all alike."""
    least = {"faststream-outbox": 1.3, "pgqueuer": 3.0}
    rates: list[dict[str, float]] = []
    for number in range(rounds):
        rate: dict[str, float] = {}
        for side in in_turn(number, ("ours", *least)):
            if side == "ours":
                ours = Outbox(new_postgres())
                ours.fill(count)
                rate[side] = count / ours.dispatch(count)
                ours.close()
            else:
                rate[side] = count / peer_seconds(side, new_postgres(), count)
        rates.append(rate)
    return [
        beside(
            f"outbox dispatch, of {peer} (postgres)",
            [(rate["ours"], rate[peer]) for rate in rates],
            "events/s",
            at_least=least[peer],
            peer=peer,
        )
        for peer in least
    ]


def _publishing(
    transaction: Callable[[], AbstractContextManager[Any]],
    insert_bare: Callable[[Any, list[int]], None],
    rounds: int,
) -> list[float]:
    """Compare publishing in the caller's transaction with a bare insert of the same rows."""
    ratios = []
    numbers = itertools.count()
    for number in range(rounds):
        took = {}
        for name, write in in_turn(number, (("bare", insert_bare), ("publish", _publish))):
            batch = [next(numbers) for _ in range(_PUBLISHED)]
            began = time.perf_counter()
            with transaction() as connection:
                write(connection, batch)
            took[name] = time.perf_counter() - began
        ratios.append(took["publish"] / took["bare"])
    return ratios


def _publishing_postgres(url: str, rounds: int) -> list[float]:
    Outbox(url).close()  # makes the tables
    with psycopg.connect(url) as connection:

        @contextmanager
        def transaction() -> Iterator[psycopg.Connection[Any]]:
            with connection.transaction():
                yield connection

        return _publishing(transaction, _insert_postgres, rounds)


def _publishing_sqlite(path: Path, rounds: int) -> list[float]:
    Outbox(f"sqlite:///{path}").close()  # makes the tables
    connection = sqlite3.connect(path)

    @contextmanager
    def transaction() -> Iterator[sqlite3.Connection]:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    try:
        return _publishing(transaction, _insert_sqlite, rounds)
    finally:
        connection.close()


def _artifact(number: int) -> Artifact:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    uri = f"s3://kfm-hydrology/kansas-river/daily-flow-{number:08d}.csv"
    return Artifact(uri=uri, checksum=f"sha256:{digest}")


def _payload(number: int) -> dict[str, Any]:
    """Return what the example in `examples/hydrology_flow` tells of what it has made."""
    artifact = _artifact(number)
    return {
        "artifact_uri": artifact.uri,
        "checksum": artifact.checksum,
        "media_type": "text/csv",
        "rows": number,
        "bbox": [-95.6, 38.9, -94.6, 39.2],
        "start": "2025-11-12T00:00:00Z",
        "end": "2025-11-13T23:59:59Z",
        "title": "Daily mean flow of the Kansas River",
    }


def _publish(connection: object, numbers: list[int]) -> None:
    publish_all(
        connection,
        [
            Event(
                pipeline_id="pipeline",
                event_name="made",
                dataset_id="d",
                version="1.0.0",
                payload=_payload(number),
                artifact=_artifact(number),
                care_label="public",
                subject=f"subject-{number}",
                idempotency_key=f"key-{number}",
            )
            for number in numbers
        ],
    )


def _bare_rows(numbers: list[int]) -> list[dict[str, str]]:
    """Return what publishing writes, with nothing checked."""
    rows = []
    for number in numbers:
        body = canonical_bytes({**_payload(number), "care_label": "public"})
        made = _artifact(number)
        rows.append(
            {
                # Ids grow with time, as those of events do.
                "i": str(uuid.UUID(int=(number << 80) | random.getrandbits(80), version=4)),
                "k": f"key-{number}",
                "s": f"subject-{number}",
                "u": made.uri,
                "c": made.checksum,
                "h": hashlib.sha256(body).hexdigest(),
                "p": body.decode(),
            }
        )
    return rows


def _insert_postgres(connection: psycopg.Connection[Any], numbers: list[int]) -> None:
    """Write the rows, one statement a table."""
    rows = _bare_rows(numbers)
    for statement, names in (
        (_BARE_KEYS, "kshuc"),
        (_BARE_ARTIFACTS, "kuc"),
        (_BARE_EVENTS, "iskp"),
    ):
        told = [{name: each[name] for name in names} for each in rows]
        connection.execute(statement, (orjson.dumps(told).decode(),))


def _insert_sqlite(connection: sqlite3.Connection, numbers: list[int]) -> None:
    """Write the rows, one statement a table."""
    now = format_instant(datetime.now(UTC))
    rows = [{**each, "now": now} for each in _bare_rows(numbers)]
    for statement in _BARE_SQLITE:
        connection.executemany(statement, rows)


def _growth(
    new_postgres: Callable[[], str], total: int, count: int, rounds: int
) -> dict[str, list[float]]:
    """Return rates with many dispatched rows behind, as shares of those of a young outbox.

    The two take turns, so that a busy moment of the machine, or the server's own, meets both. Old
    rows are such as are published: larger ones leave room on each page, and the server then puts
    every smaller row on a page of its own.
    """
    young, old = Outbox(new_postgres()), Outbox(new_postgres())
    payload = canonical_bytes({**_payload(next(_NUMBERS)), "care_label": "public"})
    step = min(total, 50_000)
    for _ in range(0, total, step):
        old.fill(step, payload)
        old.dispatch(step)
    old.tidy()
    shares: dict[str, list[float]] = {"dispatch": [], "publish": []}
    for number in range(rounds):
        dispatched = {}
        published = {}
        for outbox in in_turn(number, (young, old)):
            outbox.fill(count, payload)
            dispatched[outbox] = outbox.dispatch(count)
            published[outbox] = _publish_s(outbox.url)
        shares["dispatch"].append(dispatched[young] / dispatched[old])
        shares["publish"].append(published[young] / published[old])
    for outbox in (young, old):
        outbox.close()
    # Connections, caches and plans are warm after the first.
    return {verb: found[1:] for verb, found in shares.items()}


def _publish_s(url: str) -> float:
    """Publish some batches; return the seconds of the one in the middle."""
    found = []
    with psycopg.connect(url) as connection:
        for _ in range(9):
            numbers = [next(_NUMBERS) for _ in range(500)]
            began = time.perf_counter()
            with connection.transaction():
                _publish(connection, numbers)
            found.append(time.perf_counter() - began)
    return statistics.median(found)


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool = False) -> list[Row]:
    """Return all rows of the outbox."""
    count, rounds = (2_000, 1) if quick else (20_000, 5)
    total = 10_000 if quick else 1_000_000
    rows = _beside_peers(new_postgres, count, rounds)
    for backend, ratios in (
        ("postgres", _publishing_postgres(new_postgres(), 4 * rounds)),
        ("sqlite", _publishing_sqlite(folder / "published.db", 4 * rounds)),
    ):
        rows.append(row(f"outbox publish, of a bare insert ({backend})", ratios, at_most=2.0))
    shares = _growth(
        new_postgres, total, 10_000 if not quick else 2_000, 2 * rounds if quick else 2 + 2 * rounds
    )
    rows += [
        row(f"outbox {verb} after {total:,} dispatched (postgres)", found, at_least=0.9)
        for verb, found in shares.items()
    ]
    return rows
