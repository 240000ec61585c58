"""Other ways to take notifications to items durably, each in its best set-up on PostgreSQL.

Run by an interpreter that has them (`bench/peers.txt`), not by the bench's own:
`python -m bench.ingest_peers PEER URL FOLDER CHUNK` takes the messages of the folder from a queue
to rows and prints how many seconds it took. A workflow, or job, is of CHUNK messages.

The steps are the pipeline's: receive, parse, see whether it is known, read the object and its MD5,
make the item, write item and event in one transaction, let the message go. Item and event are
filled into templates, as the floor does it. There is no record of attempts beside what the peer
itself keeps, and no provenance.
"""

# ruff: noqa: PLC0415 - each peer is imported only where it is measured
from __future__ import annotations

import asyncio
import hashlib
import pickle
import sys
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.catalog_floor import ITEM_COLUMNS, OUTBOX_COLUMNS, PostgresCatalog
from bench.pipeline_floor import FloorQueue, PipelineFloor, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECEIVED = 500
#: Messages that do not count: connections are made and plans kept.
WARM_UP = 20
THREADS = 4
CONCURRENCY = 10
_SIGNATURE = b"\x89HDF\r\n\x1a\n"

#: A message: its id and its body.
Message = tuple[str, str]

#: Both rows or none, in one statement; an item that is known makes no event.
STORE = (
    f"WITH made AS (INSERT INTO stac_items ({', '.join(ITEM_COLUMNS)})"
    f" VALUES ({', '.join(f'%(item_{name})s' for name in ITEM_COLUMNS)})"
    " ON CONFLICT (collection_id, item_id) DO NOTHING RETURNING item_id)"
    f" INSERT INTO outbox ({', '.join(OUTBOX_COLUMNS)})"
    f" SELECT {', '.join(f'%(event_{name})s' for name in OUTBOX_COLUMNS)} FROM made"
)


class Work:
    """The steps that are the same for all: messages, objects, items."""

    def __init__(self, folder: Path) -> None:
        sample, message_id, body, self.messages = pickle.loads(  # noqa: S301 - the bench's own
            (folder / "work.pickle").read_bytes()
        )
        self._objects = folder / "objects"
        self.queue = FloorQueue(folder / f"{uuid.uuid4()}.db")
        self._floor = PipelineFloor(self.queue, None)
        self._floor.learn(sample, message_id, body)
        self._item, self._event = sample["stac_items"], sample["outbox"]

    def parse(self, message: Message) -> dict[str, Any]:
        """Return what a message tells."""
        return self._floor.values(message[0], message[1].encode())

    def read(self, path: str) -> tuple[str, int]:
        """Read an object; return its MD5 and size."""
        content = (self._objects / path).read_bytes()
        if not content.startswith(_SIGNATURE):
            raise SystemExit(f"{path} is no HDF5 file")
        return hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content)

    def rows(self, unit: dict[str, Any], read: tuple[str, int]) -> dict[str, Any]:
        """Return the item and the event of an object, as named values."""
        now = text_of(_now())
        unit |= {"etag": read[0], "size": read[1], "started": now, "ended": now}
        self._floor.fill(unit)
        sha256 = unit["item_sha256"]
        item = dict(self._item) | {
            "item_id": unit["item_id"], "wal_id": unit["wal_id"], "body": unit["body"].encode(),
            "sha256": sha256, "start_at": unit["start"], "end_at": unit["end"],
            "datetime_at": unit["middle"], "created_at": now, "updated_at": now,
        }  # fmt: skip
        event = dict(self._event) | {
            "outbox_id": str(uuid.uuid4()), "subject": unit["wal_id"],
            "version": f"1.0.0+{sha256[:16]}", "idempotency_key": unit["key_hash"],
            "payload": unit["payload"].encode(), "created_at": now,
        }  # fmt: skip
        return {f"item_{name}": item[name] for name in ITEM_COLUMNS} | {
            f"event_{name}": event[name] for name in OUTBOX_COLUMNS
        }


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def chunks(messages: Sequence[Message], size: int) -> list[list[Message]]:
    """Return the messages in parts."""
    return [list(messages[at : at + size]) for at in range(0, len(messages), size)]


def timed(work: Work, url: str, take: Callable[[list[Message]], object]) -> float:
    """Send all messages, let each batch be taken and deleted; return the seconds."""
    tables = PostgresCatalog(url)
    take(work.messages[:WARM_UP])
    rest = work.messages[WARM_UP:]
    work.queue.send([(name, body.encode()) for name, body in rest])
    began = time.perf_counter()
    while received := work.queue.receive(RECEIVED):
        take([(name, body.decode()) for _, name, body in received])
        work.queue.delete([(position,) for position, _, _ in received])
    took = time.perf_counter() - began
    for table in ("stac_items", "outbox"):
        (found,) = tables.connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()  # type: ignore[misc]
        if found != len(work.messages):
            raise SystemExit(f"{found} rows in {table}, not {len(work.messages)}")
    tables.connection.close()
    return took


def dbos(url: str, folder: Path, chunk: int) -> float:
    """Return the seconds of DBOS: a step that reads, a transaction that writes.

    The id of a workflow is that of its message, so that DBOS itself knows a message that comes
    again. Workflows are called by threads: its queues measured slower.
    """
    import sqlalchemy
    from dbos import DBOS, SetWorkflowID, SQLAlchemyDatasource

    work = Work(folder)
    DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False})
    address = url.replace("postgresql://", "postgresql+psycopg://")
    source = SQLAlchemyDatasource.create(address)
    names = [f"item_{name}" for name in ITEM_COLUMNS] + [f"event_{n}" for n in OUTBOX_COLUMNS]
    text = STORE
    for name in names:
        text = text.replace(f"%({name})s", f":{name}")
    statement = sqlalchemy.text(text)

    @DBOS.step()  # type: ignore[untyped-decorator]
    def read(paths: list[str]) -> list[tuple[str, int]]:
        return [work.read(path) for path in paths]

    @source.transaction(isolation_level="READ COMMITTED")  # type: ignore[untyped-decorator]
    def store(rows: list[dict[str, Any]]) -> None:
        source.sql_session().execute(statement, rows)

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def ingest(messages: list[Message]) -> None:
        units = [work.parse(message) for message in messages]
        found = read([unit["path"] for unit in units])
        store([work.rows(unit, each) for unit, each in zip(units, found, strict=True)])

    def call(messages: list[Message]) -> None:
        with SetWorkflowID(messages[0][0]):
            ingest(messages)

    DBOS.launch()
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            return timed(work, url, lambda some: deque(threads.map(call, chunks(some, chunk)), 0))
    finally:
        DBOS.destroy()


def procrastinate(url: str, folder: Path, chunk: int) -> float:
    """Return the seconds of procrastinate: jobs deferred by the batch, ten at a time.

    A message may go once its job is in the database. A job that runs again finds its item.
    """
    import psycopg_pool
    from procrastinate import App, PsycopgConnector

    work = Work(folder)
    app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=CONCURRENCY))
    pool = psycopg_pool.AsyncConnectionPool(
        url, min_size=CONCURRENCY, max_size=CONCURRENCY, open=False
    )

    done = asyncio.Semaphore(0)

    @app.task(name="ingest")  # type: ignore[untyped-decorator]
    async def ingest(messages: list[Message]) -> None:
        units = [work.parse((name, body)) for name, body in messages]
        rows = [work.rows(unit, work.read(unit["path"])) for unit in units]
        async with pool.connection() as connection:
            if len(rows) == 1:
                await connection.execute(STORE, rows[0])
            else:
                await connection.cursor().executemany(STORE, rows)
        done.release()

    async def take(messages: list[Message]) -> None:
        parts = chunks(messages, chunk)
        await ingest.batch_defer_async(*({"messages": part} for part in parts))
        for _ in parts:
            await done.acquire()

    async def begin() -> asyncio.Task[None]:
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        await pool.open()
        # As it runs in production: it waits for jobs and is woken when there are some.
        return asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )

    async def end(worker: asyncio.Task[None]) -> None:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await pool.close()
        await app.close_async()

    with asyncio.Runner() as runner:
        worker = runner.run(begin())
        try:
            return timed(work, url, lambda some: runner.run(take(some)))
        finally:
            runner.run(end(worker))


PEERS = {"dbos": dbos, "procrastinate": procrastinate}

if __name__ == "__main__":
    print(PEERS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
