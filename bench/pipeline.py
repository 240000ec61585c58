"""The whole pipeline beside its floor, its memory, and how soon a notification is an item.

Ratios are of wall-clock time (`perf_counter`): waiting for the disk and for PostgreSQL's own work
is part of the cost, and both sides wait for the same. They alternate batch by batch in one run, so
that a busy machine slows both. Both run with the pipeline's own setting of the garbage collector.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import statistics
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from obstore.store import LocalStore

from bench.catalog_floor import PostgresCatalog, SqliteCatalog
from bench.pipeline_floor import FloorQueue, PipelineFloor
from bench.report import Row, beside, in_turn, row, warm
from tallgrass.bootstrap.ingesting import ingest
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import Stores, migrate_database, open_stores
from tallgrass.bootstrap.workers import open_worker
from tallgrass.config import Config, load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.garbage import rare_collections
from tallgrass.governance.switches import SwitchScope
from tallgrass.ingest_loop import IngestLoop, Until
from tallgrass.simulate.feed_messages import CREATED, S3Event, s3_message, sns_envelope
from tallgrass.simulate.hdf5_writer import hdf5_file
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallgrass.ledger.claim import WorkerLease
    from tallgrass.storage.leases import Leases

BATCH = 500
#: Batches of a round: SQLite moves its journal into the file every few of them.
BATCHES = 4
START = datetime(2026, 1, 1, tzinfo=UTC)
BUCKET = "noaa-goes19"
RSS_MAX_BYTES = 300_000_000

_TOPIC = "arn:aws:sns:us-east-1:123901341784:NewGOES19Object"
_LENGTH = timedelta(seconds=20)
_ATTRIBUTES = {"title": "GLM L2 Lightning Detections", "platform_ID": "G19"}


def key_of(number: int) -> str:
    """Return a GLM key; each number has its own 20 seconds."""
    start = START + number * _LENGTH
    times = [start, start + _LENGTH, start + _LENGTH + timedelta(seconds=6)]
    s, e, c = (f"{time:%Y%j%H%M%S}0" for time in times)
    return f"GLM-L2-LCFA/{start:%Y/%j/%H}/OR_GLM-L2-LCFA_G19_s{s}_e{e}_c{c}.nc"


def content_of(number: int) -> bytes:
    """Return a small file of its own."""
    return hdf5_file(_ATTRIBUTES, Random(number).randbytes(700 + number % 97))


def message_of(number: int, sent: datetime | None = None, folder: Path | None = None) -> bytes:
    """Return the notification of a file, which is written below the folder if there is one."""
    random = Random(number)
    size, etag = 384_512 + number % 1000, f"{random.getrandbits(128):032x}"
    if folder is not None:
        content = content_of(number)
        size, etag = len(content), hashlib.md5(content, usedforsecurity=False).hexdigest()
        path = folder / BUCKET / key_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    time = START + (number + 2) * _LENGTH
    event = S3Event(
        name=CREATED,
        bucket=BUCKET,
        key=key_of(number),
        time=time,
        sequencer=f"{(int(time.timestamp()) << 32) + random.getrandbits(24):018X}",
        size=size,
        etag=etag,
    )
    sent = sent or time + timedelta(seconds=1.5)
    return sns_envelope(s3_message([event], random), _TOPIC, sent, random)


class Pipeline:
    """The shipped pipeline on a database and a queue of its own, run round by round."""

    def __init__(
        self, url: str, folder: Path, objects: str = "event", recorder: Recorder = NOBODY
    ) -> None:
        folder.mkdir()
        self.config = configure(url, folder, objects)
        migrate_database(self.config)
        catalogue = default_catalogue()
        self.stores = open_stores(self.config, catalogue=catalogue, recorder=recorder)
        self.queue = open_queue(self.config)
        lease = self.stores.leases.register("bench", ingest_run_id="bench", lease_s=36_000)
        self.loop = IngestLoop(
            open_worker(
                self.config,
                self.stores,
                lease,
                queue=self.queue,
                catalogue=catalogue,
                recorder=recorder,
            ),
            lease,
            _LastingLeases(self.stores.leases),
            switched_off=lambda: self.stores.switches.switched_off(SwitchScope.INGEST),
            recorder=recorder,
            sleep=time.sleep,
            random=lambda: 0.5,
            monotonic=time.monotonic,
            recover_every_s=60.0,
        )

    def round(self) -> None:
        """Do all that the loop does in one round: switches, messages, due units."""
        self.loop.run(Until.ONCE)

    def close(self) -> None:
        """Close its files and connections."""
        self.queue.close()
        self.stores.close()


class _LastingLeases:
    """The leases, of which none ends after a round: the next round is the same worker's."""

    def __init__(self, leases: Leases) -> None:
        self.register = leases.register
        self.recover = leases.recover
        self.hand_back = leases.hand_back

    def stop(self, worker: WorkerLease) -> tuple[str, ...]:
        """Keep the lease."""
        del worker
        return ()


def configure(url: str, folder: Path, objects: str) -> Config:
    """Return a configuration with the queue in the folder."""
    return load_config(
        environment={},
        flags={
            "database.url": url,
            "queue.url": f"sqlite:///{folder}/queue.db",
            "objects.url": objects,
            "worker.batch": BATCH,
        },
    )


def sample_rows(stores: Stores, object_uri: str) -> dict[str, dict[str, Any]]:
    """Return the row of each table that the pipeline wrote for an object, by raw SQL."""
    with stores.database.transaction() as tx:
        connection: Any = tx.connection  # type: ignore[attr-defined]

        def one(statement: str) -> dict[str, Any]:
            return dict(connection.execute(statement).fetchone())

        record = one(f"SELECT * FROM wal_records WHERE object_uri = '{object_uri}'")
        own = f"WHERE wal_id = '{record['wal_id']}'"
        return {
            "wal_records": record,
            "wal_attempts": one(f"SELECT * FROM wal_attempts {own}"),
            "stac_items": one(f"SELECT * FROM stac_items {own}"),
            "provenance": one(f"SELECT * FROM provenance {own}"),
            "outbox": one(f"SELECT * FROM outbox WHERE subject = '{record['wal_id']}'"),
        }


def teach(pipeline: Pipeline, floor: PipelineFloor, objects: Path | None = None) -> None:
    """Run one unit through the pipeline and let the floor learn its templates from it."""
    body = message_of(0, folder=objects)
    pipeline.queue.send([body])
    pipeline.round()
    sample = sample_rows(pipeline.stores, f"s3://{BUCKET}/{key_of(0)}")
    floor.learn(sample, sample["wal_attempts"]["sqs_message_id"], body)


def pipeline_ratio(
    name: str,
    pipeline: Pipeline,
    database: SqliteCatalog | PostgresCatalog,
    rounds: int,
    *,
    folder: Path,
    objects: Path | None = None,
) -> Row:
    """Rate of the pipeline / rate of the floor, wall clock; a round is some batches of both.

    They take turns batch by batch; each batch goes through a whole round of the pipeline's loop.
    """
    queue = FloorQueue(folder / f"{name.replace(' ', '-')}-floor-queue.db")
    floor = PipelineFloor(queue, database, None if objects is None else LocalStore(objects))
    teach(pipeline, floor, objects)
    rates = []
    # One setting for both: were it set back after each of the pipeline's rounds, the floor would
    # pay for looking through what the pipeline made.
    with rare_collections():
        for number in range(rounds):
            spent = {"pipeline": 0.0, "floor": 0.0}
            for batch in range(number * BATCHES, (number + 1) * BATCHES):
                _offer(batch, pipeline, queue, objects)
                for side in in_turn(batch, tuple(spent)):
                    begin = time.perf_counter()
                    if side == "floor":
                        floor.round(BATCH)
                    else:
                        pipeline.round()
                    spent[side] += time.perf_counter() - begin
            units = BATCHES * BATCH
            rates.append((units / spent["pipeline"], units / spent["floor"]))
    units = 1 + rounds * BATCHES * BATCH
    if pipeline.loop.report.by_verdict != {"succeeded": units}:
        raise AssertionError(f"not all of {units} units succeeded: {pipeline.loop.report}")
    pipeline.close()
    return beside(f"{name}: pipeline rate / floor's", warm(rates), "units/s", at_least=0.5)


def _offer(batch: int, pipeline: Pipeline, queue: FloorQueue, objects: Path | None) -> None:
    """Send the same batch of messages to both queues; number 0 was the sample."""
    first = 1 + batch * BATCH
    bodies = [message_of(first + i, folder=objects) for i in range(BATCH)]
    pipeline.queue.send(bodies)
    queue.send([(f"{first + i}", body) for i, body in enumerate(bodies)])


def memory(folder: Path, units: int) -> list[Row]:
    """Resident memory of one process that ingests `units`, and its growth between quarters."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    process = context.Process(target=_ingest_and_weigh, args=(folder, units, answers))
    process.start()
    samples, highest = answers.get()
    process.join()
    quarter = len(samples) // 4
    growth = statistics.median(samples[-quarter:]) / statistics.median(samples[:quarter])
    return [
        row(
            f"pipeline: memory through {units:,} units / 300 MB",
            [highest / RSS_MAX_BYTES],
            at_most=1.0,
            limit=RSS_MAX_BYTES / 1e6,
            unit="MB",
            steady=True,
        ),
        row("pipeline: memory in last quarter / in first", [growth], at_most=1.1),
    ]


def _ingest_and_weigh(folder: Path, units: int, answers: Any) -> None:
    pipeline = Pipeline(f"sqlite:///{folder}/memory.db", folder / "memory")
    samples = []
    for first in range(0, units, BATCH):
        pipeline.queue.send([message_of(first + i) for i in range(BATCH)])
        pipeline.round()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        samples.append(pages * resource.getpagesize())
    pipeline.close()
    answers.put((samples, _highest_bytes()))


def _highest_bytes() -> int:
    """Return the most memory that this process ever had.

    Not by `getrusage`: there a process inherits the peak of the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")
    )


def latency(folder: Path, seconds: float, rate: int = 200) -> list[Row]:
    """Seconds from a notification's time stamp until its item is committed and acknowledged.

    Wall clock, from the pipeline's own metric; another process sends `rate` notifications a second,
    a twentieth of them at once. Polling rests are those of the shipped loop.
    """
    folder = folder / "latency"
    folder.mkdir()
    url = f"sqlite:///{folder}/ledger.db"
    config = configure(url, folder, "event")
    migrate_database(config)
    open_queue(config).close()
    recorder = MemoryRecorder(env="dev")
    feeder = multiprocessing.get_context("spawn").Process(
        target=_feed, args=(url, folder, rate, round(seconds * rate))
    )
    over = threading.Event()

    def await_end() -> None:
        feeder.join()
        time.sleep(1.0)
        over.set()

    feeder.start()
    threading.Thread(target=await_end).start()
    ingest(config, until=Until.STOPPED, stop=over.is_set, recorder=recorder)
    waits = recorder.observed(names.INGEST_LATENCY)
    if len(waits) != round(seconds * rate):
        raise AssertionError(f"{len(waits)} of {round(seconds * rate)} units became items")
    # The first second is the start of both processes.
    waits = waits[rate:]
    cuts = statistics.quantiles(waits, n=100)
    return [
        row(f"pipeline: seconds to committed item at {rate} units/s, {which}", [value])
        for which, value in (("p50", cuts[49]), ("p99", cuts[98]))
    ]


def _feed(url: str, folder: Path, rate: int, units: int) -> None:
    queue = open_queue(configure(url, folder, "event"))
    step = rate // 20
    begin = time.monotonic()
    for first in range(0, units, step):
        time.sleep(max(0.0, begin + first / rate - time.monotonic()))
        now = datetime.now(UTC)
        queue.send([message_of(first + i, sent=now) for i in range(step)])
    queue.close()


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Run all of them."""
    rounds = 1 if quick else 20
    objects = folder / "objects"
    objects.mkdir()
    return [
        pipeline_ratio(
            "sqlite",
            Pipeline(f"sqlite:///{folder}/p.db", folder / "p"),
            SqliteCatalog(folder / "pf.db"),
            rounds,
            folder=folder,
        ),
        pipeline_ratio(
            "postgres",
            Pipeline(new_postgres(), folder / "pp"),
            PostgresCatalog(new_postgres()),
            rounds,
            folder=folder,
        ),
        pipeline_ratio(
            "sqlite, header reads",
            Pipeline(f"sqlite:///{folder}/r.db", folder / "r", f"file:{objects}"),
            SqliteCatalog(folder / "rf.db"),
            rounds,
            folder=folder,
            objects=objects,
        ),
        *memory(folder, 2_000 if quick else 200_000),
        *latency(folder, 2 if quick else 20),
    ]
