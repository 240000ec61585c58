"""The ledger beside its floor, and under contention."""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bench.floor import (
    ATTEMPT_COLUMNS,
    CLOSED_ATTEMPT,
    CLOSED_RECORD,
    RECORD_COLUMNS,
    PostgresFloor,
    SqliteFloor,
    as_json,
)
from bench.report import Row, beside, row
from tallgrass.bootstrap.stores import Stores, open_stores
from tallgrass.config import load_config
from tallgrass.ledger.outcome import Outcome
from tallgrass.ledger.unit import EventMetadata, IngestUnit, ObjectReference
from tallgrass.ledger.vocabulary import CheckStatus, ProvenanceStatus, StacStatus
from tallgrass.storage.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.ledger.claim import Claim, WorkerLease

BATCH = 500
START = datetime(2026, 1, 1, tzinfo=UTC)
EVIDENCE = json.dumps({"format": "netcdf4", "head": "89484446", "tail": "0" * 64}).encode()


def make_unit(number: int, dataset: str = "goes-glm") -> IngestUnit:
    """Return a unit with a key of real length."""
    start = START + timedelta(seconds=number)
    stamp = f"{start:%Y%j%H%M%S}0"
    key = f"GLM-L2-LCFA/{start:%Y/%j/%H}/OR_GLM-L2-LCFA_G19_s{stamp}_e{stamp}_c{stamp}-{number}.nc"
    return IngestUnit.of(
        dataset=dataset,
        object_uri=f"s3://noaa-goes19/{key}",
        provider="aws",
        queue="nodd-primary",
        time_range_start=start,
        time_range_end=start + timedelta(seconds=20),
        event=EventMetadata(
            event_time=start,
            sns_message_id="2f8ad6a2-71a4-5cd8-b1ff-b4bd0e1d4f0a",
            sqs_message_id="059f36b4-87a3-44ab-83d2-661975830a7d",
        ),
        object_ref=ObjectReference(
            etag="9b2cf535f27731c974343645a3985328", size=384_512, sequencer="0065F1B2C3D4E5F607"
        ),
    )


def succeed(claim: Claim) -> tuple[Claim, Outcome]:
    """Return the claim with the outcome of an ordinary unit."""
    return claim, Outcome(
        wal_id=claim.wal_id,
        attempt_no=claim.attempt_no,
        integrity_status=CheckStatus.OK,
        metadata_status=CheckStatus.OK,
        stac_status=StacStatus.CREATED,
        provenance_status=ProvenanceStatus.OK,
        stac_item_id=f"goes-glm-{claim.wal_id}",
        stac_collection_id="kfm-goes-glm",
        stac_item_href=f"/collections/kfm-goes-glm/items/goes-glm-{claim.wal_id}",
        read_etag="9b2cf535f27731c974343645a3985328",
        evidence=EVIDENCE,
        item_sha256="a" * 64,
        provenance_sha256="b" * 64,
        prov_activity_id="urn:uuid:6ba7b812-9dad-51d1-80b4-00c04fd430c8",
        openlineage_run_id="6ba7b812-9dad-51d1-80b4-00c04fd430c8",
    )


def open_ledger(url: str) -> Stores:
    """Open and migrate a ledger."""
    stores = open_stores(load_config(environment={}, flags={"database.url": url}))
    migrate(stores.database)
    return stores


def run_ledger(
    stores: Stores, worker: WorkerLease, units: list[IngestUnit]
) -> tuple[float, list[Claim]]:
    """Take a batch through the ledger; return the seconds inside it."""
    begin = time.perf_counter()
    receipts = stores.ledger.record_and_claim(worker, units)
    claimed = time.perf_counter()
    claims = [receipt.claim for receipt in receipts if receipt.claim]
    outcomes = [succeed(claim) for claim in claims]
    resumed = time.perf_counter()
    stores.ledger.commit(worker, outcomes)
    return (claimed - begin) + (time.perf_counter() - resumed), claims


class FloorRows:
    """Reads back what the ledger wrote for a batch and turns it into the floor's four calls."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def of(self, claims: list[Claim]) -> tuple[Any, Any, Any, Any]:
        """Return (claimed records, open attempts, closed records, closed attempts) as tuples."""
        ids = sorted(claim.wal_id for claim in claims)
        with self._stores.database.reading() as tx:
            records = [dict(r) for r in tx.select("export_records", rows=ids)]
            attempts = [dict(a) for a in tx.select("export_attempts", rows=ids)]
        records.sort(key=lambda item: item["wal_id"])
        claimed = [
            {**item, **dict.fromkeys(CLOSED_RECORD), "status": "in_progress", "version": 2,
             "updated_at": item["last_attempt_at"], "budget_from": 0, "lease_expiries": 0,
             "integrity_status": "unknown", "metadata_status": "unknown",
             "stac_status": "unknown", "provenance_status": "unknown"}
            for item in records
        ]  # fmt: skip
        opened = [
            {**item, **dict.fromkeys(CLOSED_ATTEMPT), "status": "pending",
             "integrity_status": "unknown", "metadata_status": "unknown",
             "stac_status": "unknown", "provenance_status": "unknown"}
            for item in attempts
        ]  # fmt: skip
        return (
            _tuples(claimed, RECORD_COLUMNS),
            _tuples(opened, ATTEMPT_COLUMNS),
            _tuples(records, [*CLOSED_RECORD, "wal_id"]),
            _tuples(attempts, [*CLOSED_ATTEMPT, "wal_id", "attempt_no"]),
        )


def _tuples(rows: list[dict[str, Any]], columns: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in rows]


def _as_text(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.decode() if isinstance(value, bytes) else value


def _as_json(parts: tuple[Any, Any, Any, Any]) -> tuple[str, str, str, str]:
    """Turn rows into the four JSON texts that PostgreSQL's floor sends; not part of its cost."""
    columns = (
        RECORD_COLUMNS,
        ATTEMPT_COLUMNS,
        [*CLOSED_RECORD, "wal_id"],
        [*CLOSED_ATTEMPT, "wal_id", "attempt_no"],
    )
    a, b, c, d = (
        as_json(names, [tuple(map(_as_text, item)) for item in part])
        for names, part in zip(columns, parts, strict=True)
    )
    return a, b, c, d


def ledger_ratio(name: str, url: str, floor: SqliteFloor | PostgresFloor, rounds: int) -> Row:
    """Alternate ledger and floor batch by batch; the ratio of each pair is one round."""
    stores = open_ledger(url)
    worker = stores.leases.register("bench", ingest_run_id="bench", lease_s=3600)
    rows = FloorRows(stores)
    costs = []
    gc.disable()
    for number in range(rounds):
        units = [make_unit(number * BATCH + i) for i in range(BATCH)]
        cost, claims = run_ledger(stores, worker, units)
        parts = rows.of(claims)
        if isinstance(floor, PostgresFloor):
            parts = _as_json(parts)
        begin = time.perf_counter()
        floor.claim(parts[0], parts[1])
        floor.close(parts[2], parts[3])
        bare = time.perf_counter() - begin
        costs.append((cost / BATCH * 1e6, bare / BATCH * 1e6))
        gc.collect()
    gc.enable()
    stores.close()
    title = f"{name}: ledger / floor, batches of {BATCH}"
    return beside(title, costs[rounds // 5 :], "µs a unit", at_most=2.0)


def heartbeats(path: Path, seconds: float, writers: int = 6) -> Row:
    """Six writers on one SQLite file; the longest wait of a heartbeat, in seconds (at most 1)."""
    url = f"sqlite:///{path}"
    open_ledger(url).close()
    context = multiprocessing.get_context("spawn")
    waits: Any = context.Queue()
    processes = [
        context.Process(target=_write_and_beat, args=(url, number, seconds, waits))
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    longest = [waits.get() for _ in processes]
    for process in processes:
        process.join()
    return row("sqlite: longest heartbeat wait of 6 writers / 1 s", [max(longest)], at_most=1.0)


def _write_and_beat(url: str, number: int, seconds: float, waits: Any) -> None:
    stores = open_ledger(url)
    worker = stores.leases.register(f"bench-{number}", ingest_run_id="bench", lease_s=60)
    longest = 0.0
    batch = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        units = [make_unit(number * 10_000_000 + batch * BATCH + i) for i in range(BATCH)]
        run_ledger(stores, worker, units)
        begin = time.monotonic()
        stores.leases.renew(worker)
        longest = max(longest, time.monotonic() - begin)
        batch += 1
    stores.close()
    waits.put(longest)


def benchmarks(folder: Path, new_postgres: Callable[[], str], *, quick: bool) -> list[Row]:
    """Run all of them."""
    rounds = 10 if quick else 120
    return [
        ledger_ratio("sqlite", f"sqlite:///{folder}/l.db", SqliteFloor(folder / "f.db"), rounds),
        ledger_ratio("postgres", new_postgres(), PostgresFloor(new_postgres()), rounds),
        heartbeats(folder / "h.db", 1 if quick else 20),
    ]
