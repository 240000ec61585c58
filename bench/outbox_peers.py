"""Other outboxes and queues on PostgreSQL, each in its best set-up, to a handler that does nothing.

Run by an interpreter that has them (`bench/peers.txt`), not by the bench's own:
`python bench/outbox_peers.py PEER URL COUNT` fills COUNT rows and prints how many seconds it took
to dispatch them.
"""

# ruff: noqa: PLC0415 - each peer is imported only where it is measured
from __future__ import annotations

import asyncio
import sys
import time

PAYLOAD = "x" * 800


async def faststream_outbox(url: str, count: int) -> float:
    """Return the seconds that `faststream-outbox` takes."""
    from faststream_outbox import OutboxBroker, make_outbox_table
    from sqlalchemy import MetaData
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    metadata = MetaData()
    table = make_outbox_table(metadata, table_name="peer_outbox")
    broker = OutboxBroker(engine, outbox_table=table)
    done = 0
    ended = asyncio.Event()

    @broker.subscriber(  # type: ignore[untyped-decorator]
        "events",
        max_workers=4,
        fetch_batch_size=500,
        min_fetch_interval=0.001,
        max_fetch_interval=0.01,
        terminal_flush_batch_size=100,
    )
    async def handle(_body: str) -> None:
        nonlocal done
        done += 1
        if done == count:
            ended.set()

    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    for first in range(0, count, 1000):
        async with engine.begin() as connection:
            rows = [PAYLOAD] * min(1000, count - first)
            await broker.publish_batch(*rows, queue="events", session=connection)
    began = time.perf_counter()
    await broker.start()
    await ended.wait()
    took = time.perf_counter() - began
    await broker.stop()
    await engine.dispose()
    return took


async def pgqueuer(url: str, count: int) -> float:
    """Return the seconds that `pgqueuer` takes."""
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    for first in range(0, count, 1000):
        size = min(1000, count - first)
        await queries.enqueue(["events"] * size, [PAYLOAD.encode()] * size, [0] * size)
    manager = PgQueuer(driver)

    @manager.entrypoint("events")  # type: ignore[untyped-decorator]
    async def handle(_job: object) -> None:
        pass

    began = time.perf_counter()
    await manager.qm.run(batch_size=500, mode=QueueExecutionMode.drain)
    took = time.perf_counter() - began
    left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
    if left:
        raise SystemExit(f"{left} jobs are left")
    await connection.close()
    return took


PEERS = {"faststream-outbox": faststream_outbox, "pgqueuer": pgqueuer}

if __name__ == "__main__":
    print(asyncio.run(PEERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))))
