"""The only wiring: concrete databases, clock, ids and randomness become one set of stores."""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import tallgrass
from tallgrass.canonical_json import sha256_hex
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue, default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.datasets.folder import catalogue_with
from tallgrass.errors import ConfigError, DatabaseUnusable
from tallgrass.evidence.cloud_objects import CloudObjects, standard_s3_credentials
from tallgrass.evidence.object_store import LocalObjects
from tallgrass.evidence.readers import EventEvidenceReader, ObjectEvidenceReader
from tallgrass.evidence.reading import EvidenceReader
from tallgrass.governance.switches import SwitchScope
from tallgrass.heartbeat import Heartbeat
from tallgrass.ingest_loop import IngestLoop, LoopReport, Until
from tallgrass.intake.sns_signature import AdmissionRules
from tallgrass.ledger.claim import WorkerLease
from tallgrass.operators.context import ChainContext
from tallgrass.poison_feeding import PoisonFeeder, as_a_worker_reads
from tallgrass.queues.door import Door, build_door
from tallgrass.queues.embedded import EmbeddedQueue
from tallgrass.queues.held import HeldMessages
from tallgrass.queues.protocol import OpenQueue, Queue, QueueStatus
from tallgrass.queues.sns_https import Get, SnsHttps
from tallgrass.queues.sqs_address import read_address
from tallgrass.stac.collections import build_collection
from tallgrass.storage.audit_store import AuditStore
from tallgrass.storage.catalog_writes import CatalogWrites, CollectionStore
from tallgrass.storage.exchange import Imported, export_lines, import_lines
from tallgrass.storage.governance_store import SwitchStore
from tallgrass.storage.health import Health, inspect
from tallgrass.storage.interventions import Interventions
from tallgrass.storage.leases import Leases
from tallgrass.storage.ledger import Ledger
from tallgrass.storage.ledger_reader import (
    Annotation,
    HistoryEvent,
    LedgerReader,
    LedgerStats,
    RecordFilter,
)
from tallgrass.storage.migrations import SchemaState, migrate, require_current_schema
from tallgrass.storage.poison_store import PoisonStore
from tallgrass.storage.proofs import Counts, applied_etags, count_for_proof, stored_items
from tallgrass.storage.queue_store import QueueStore
from tallgrass.storage.sqlite import SqliteDatabase
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Database
from tallgrass.telemetry import names
from tallgrass.telemetry.recorder import NOBODY, Recorder
from tallgrass.worker import Worker

__all__ = [
    "Annotation",
    "Counts",
    "Health",
    "HistoryEvent",
    "Imported",
    "LedgerStats",
    "LoopReport",
    "RecordFilter",
    "SchemaState",
    "Stores",
    "Until",
    "applied_etags",
    "check_database",
    "check_queue",
    "count_for_proof",
    "export_ledger",
    "import_ledger",
    "ingest",
    "migrate_database",
    "open_catalogue",
    "open_current_stores",
    "open_database",
    "open_door",
    "open_feeder",
    "open_queue",
    "open_reader",
    "open_stores",
    "open_worker",
    "read_queue_status",
    "record_collections",
    "stored_items",
]

_SQLITE = "sqlite:///"

#: Objects of a cloud read at the same time; a read waits for the network nearly all its time.
_CLOUD_READS_MAX = 32
#: With the longest read (70 s) on top, still within a message's hidden time of 300 s.
_CLOUD_BATCH_S_MAX = 120.0

#: Enough for SQS to ask all of its servers whether anything is left.
_LAST_WAIT_S = 1.0

#: Names this pipeline in events.
PIPELINE_ID = "kfm-nodd-ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything that keeps state, over one database connection."""

    database: Database
    runner: TransactionRunner
    ledger: Ledger
    leases: Leases
    interventions: Interventions
    reader: LedgerReader
    audit: AuditStore
    switches: SwitchStore
    poison: PoisonStore
    collections: CollectionStore

    def close(self) -> None:
        """Close the connection."""
        self.database.close()


def open_database(
    config: Config, *, clock: Clock = system_clock, read_only: bool = False
) -> Database:
    """Return the configured database; it is connected to when it is first used."""
    url = config.text("database.url")
    if url.startswith(_SQLITE):
        return SqliteDatabase(
            Path(url.removeprefix(_SQLITE)),
            clock=clock,
            read_only=read_only,
            lock_timeout_s=config.number("database.lock_timeout_s"),
        )
    try:
        from tallgrass.storage.postgres import PostgresDatabase  # noqa: PLC0415 - optional extra
    except ModuleNotFoundError as exc:
        raise DatabaseUnusable(
            "the PostgreSQL driver is not installed", code="driver_missing"
        ) from exc
    return PostgresDatabase(url)


def open_catalogue(config: Config) -> Catalogue:
    """Return the datasets: the shipped ones, with those of the configured folder."""
    folder = config.text("datasets.folder")
    return catalogue_with(Path(folder)) if folder else default_catalogue()


def config_version(config: Config, catalogue: Catalogue | None) -> str:
    """Hash what can change an output: the settings that shape it, and the datasets."""
    if catalogue is None:
        return config.config_version
    return sha256_hex(f"{config.config_version}:{catalogue.fingerprint()}".encode())[:16]


def open_stores(
    config: Config,
    *,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
    draw: Callable[[], float] = random.random,
    sleep: Callable[[float], None] = time.sleep,
    read_only: bool = False,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
) -> Stores:
    """Wire all stores to the configured database.

    Whoever writes through the ledger gives the catalogue: attempts keep the version of both.
    """
    database = open_database(config, clock=clock, read_only=read_only)
    runner = TransactionRunner(database, random=draw, sleep=sleep)
    leases = Leases(runner, ids=ids, recorder=recorder)
    return Stores(
        database=database,
        runner=runner,
        ledger=Ledger(
            runner,
            leases,
            CatalogWrites(pipeline_id=PIPELINE_ID, ids=ids),
            config.rules,
            ids=ids,
            random=draw,
            code_version=tallgrass.__version__,
            config_version=config_version(config, catalogue),
            recorder=recorder,
        ),
        leases=leases,
        interventions=Interventions(runner, config.rules, recorder=recorder),
        reader=LedgerReader(database),
        audit=AuditStore(runner),
        switches=SwitchStore(runner),
        poison=PoisonStore(runner),
        collections=CollectionStore(runner),
    )


def open_queue(
    config: Config,
    *,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
    wait_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> OpenQueue:
    """Return the configured queue. The embedded one is made if it is not there.

    On SQS nothing is asked yet, and a receive waits for `wait_s` (queue.wait_s unless given), or
    until it is `interrupted`.
    """
    if config.text("queue.url").startswith(_SQLITE):
        return open_embedded_queue(config, clock=clock, ids=ids)
    return _open_sqs_queue(config, clock, wait_s, interrupted)


def open_embedded_queue(
    config: Config, *, clock: Clock = system_clock, ids: Callable[[], uuid.UUID] = uuid.uuid4
) -> EmbeddedQueue:
    """Return the embedded queue, made if it is not there."""
    database = SqliteDatabase(
        Path(config.text("queue.url").removeprefix(_SQLITE)),
        clock=clock,
        lock_timeout_s=config.number("database.lock_timeout_s"),
        schema="sqlite_queue",
    )
    migrate(database)
    return EmbeddedQueue(
        config.text("queue.name"),
        QueueStore(database),
        ids=ids,
        visibility_s=config.number("queue.visibility_s"),
        max_receive_count=config.integer("queue.max_receive_count"),
    )


def _open_sqs_queue(
    config: Config, clock: Clock, wait_s: float | None, interrupted: Callable[[], bool]
) -> OpenQueue:
    try:
        from tallgrass.queues.sqs import SqsQueue  # noqa: PLC0415 - optional extra
        from tallgrass.queues.sqs_client import open_client  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise ConfigError("queue.url: boto3 is not installed", code="aws_missing") from exc
    address = read_address(config.text("queue.url"))
    receivers = config.integer("queue.receivers")
    client = open_client(
        address,
        endpoint_url=config.text("queue.endpoint_url") or None,
        connections=receivers + 1,  # the first poll is the caller's own
    )
    return SqsQueue(
        config.text("queue.name"),
        client,
        address,
        clock=clock,
        sleep=time.sleep,
        random=random.random,
        visibility_s=config.number("queue.visibility_s"),
        wait_s=config.number("queue.wait_s") if wait_s is None else wait_s,
        receivers=receivers,
        interrupted=interrupted,
    )


def check_queue(config: Config) -> None:
    """Raise if the configured SQS queue is missing, denied or not to be reached.

    The embedded queue is made when it is opened, so there is nothing to ask.
    """
    if not config.text("queue.url").startswith(_SQLITE):
        read_queue_status(config)


def read_queue_status(config: Config) -> QueueStatus | None:
    """Count what waits in the configured queue, by reading only; None if it was never made."""
    url = config.text("queue.url")
    if not url.startswith(_SQLITE):
        with closing(open_queue(config)) as queue:
            return queue.status()
    path = Path(url.removeprefix(_SQLITE))
    if not path.exists():
        return None
    database = SqliteDatabase(path, clock=system_clock, read_only=True, schema="sqlite_queue")
    try:
        require_current_schema(database)
        return QueueStore(database).status()
    finally:
        database.close()


def open_reader(config: Config, catalogue: Catalogue) -> EvidenceReader:
    """Return what reads objects: clouds, a folder, or nothing but the event."""
    url = config.text("objects.url")
    if url == "event":
        return EventEvidenceReader()

    def format_of(dataset_id: str) -> FileFormat | None:
        dataset = catalogue.dataset(dataset_id)
        return None if dataset is None else dataset.format

    if url == "cloud":
        return ObjectEvidenceReader(
            _open_clouds(config),
            format_of,
            threads=_CLOUD_READS_MAX,
            deadline_s=_CLOUD_BATCH_S_MAX,
        )
    folder = Path(url.removeprefix("file:"))
    if not folder.is_dir():
        raise ConfigError(f"objects.url: there is no folder {folder}")
    return ObjectEvidenceReader(LocalObjects(folder), format_of)


def _open_clouds(config: Config) -> CloudObjects:
    signed = config.flag("objects.signed")
    return CloudObjects(
        endpoint_url=config.text("objects.endpoint_url"),
        signed=signed,
        s3_credentials=standard_s3_credentials() if signed else None,
    )


def open_worker(  # noqa: PLR0913 - everything can be passed in
    config: Config,
    stores: Stores,
    lease: WorkerLease,
    *,
    queue: Queue | None,
    reader: EvidenceReader | None = None,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
    clock: Clock = system_clock,
    door: Door | None = None,
    held: HeldMessages | None = None,
) -> Worker:
    """Wire a worker that holds a lease."""
    catalogue = catalogue or open_catalogue(config)
    door = door or open_door(config, recorder)
    now = clock()
    return Worker(
        lease=lease,
        ledger=stores.ledger,
        queue=queue,
        poison=stores.poison,
        reader=reader or open_reader(config, catalogue),
        catalogue=catalogue,
        context=ChainContext(
            code_version=tallgrass.__version__,
            config_version=config_version(config, catalogue),
            worker_id=lease.worker_id,
            ingest_run_id=lease.ingest_run_id,
            started_at=now,
            ended_at=now,
            rules=config.rules,
            lineage_target=config.text("outbox.lineage_target") or None,
        ),
        recorder=recorder,
        clock=clock,
        held=held or open_held(config, lease),
        batch_size=config.integer("worker.batch"),
        providers=config.rules.providers,
        admit=door.admit,
        confirm=door.confirm,
    )


def open_door(
    config: Config,
    recorder: Recorder = NOBODY,
    *,
    ask: Get | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Door:
    """Return what judges the queue's messages before they come in."""
    return build_door(
        AdmissionRules(
            signatures_required=config.text("queue.signatures") == "required",
            topics=frozenset(config.text("queue.topics").split()),
        ),
        ask or SnsHttps(),
        confirms=config.flag("queue.confirm_subscriptions"),
        monotonic=monotonic,
        say=lambda error: recorder.event(
            names.STORE_WAITED_FOR, error_code=error.code, message=str(error)
        ),
    )


def open_feeder(
    config: Config,
    stores: Stores,
    *,
    catalogue: Catalogue | None = None,
    door: Door | None = None,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
) -> PoisonFeeder:
    """Wire what feeds poison messages again; it reads a body as a worker of this queue would."""
    queue_name = config.text("queue.name")
    read = as_a_worker_reads(
        queue_name,
        catalogue or open_catalogue(config),
        config.rules.providers,
        (door or open_door(config)).admit,
    )
    return PoisonFeeder(stores.poison, queue_name=queue_name, read=read, ids=ids)


def open_held(config: Config, lease: WorkerLease) -> HeldMessages:
    """Return what keeps the messages in hand hidden."""
    return HeldMessages(
        visibility_s=config.number("queue.visibility_s"),
        lease_s=lease.lease_s,
        monotonic=time.monotonic,
    )


def record_collections(stores: Stores, catalogue: Catalogue) -> None:
    """Write the collections of all datasets, before any item of theirs."""
    stores.collections.put(
        [(dataset.item.collection, build_collection(dataset)) for dataset in catalogue.datasets]
    )


def ingest(
    config: Config,
    *,
    until: Until,
    stop: Callable[[], bool],
    recorder: Recorder = NOBODY,
    sleep: Callable[[float], None] = time.sleep,
) -> LoopReport:
    """Run one worker process: lease, heartbeat, rounds, and a hand-back at the end."""
    # First, as settings that cannot be used must leave no lease behind.
    door = open_door(config, recorder)
    catalogue = open_catalogue(config)
    stores = open_current_stores(config, catalogue=catalogue, recorder=recorder)
    beating = open_stores(config)

    def ended() -> bool:
        return stop() or heartbeat.lost.is_set()

    queue = open_queue(config, wait_s=_wait_s(config, until), interrupted=ended)
    beating_queue = open_queue(config)
    record_collections(stores, catalogue)
    lease = stores.leases.register(
        config.text("worker.id"),
        ingest_run_id=str(uuid.uuid4()),
        lease_s=config.number("worker.lease_s"),
    )
    held = open_held(config, lease)
    heartbeat = Heartbeat(
        lambda: beating.leases.renew(lease),
        extend=lambda: held.extend(beating_queue),
        interval_s=lease.lease_s / 3,
        deadline_s=config.number("worker.job_deadline_s"),
    )
    loop = IngestLoop(
        open_worker(
            config,
            stores,
            lease,
            queue=queue,
            catalogue=catalogue,
            recorder=recorder,
            held=held,
            door=door,
        ),
        lease,
        stores.leases,
        switched_off=lambda: stores.switches.switched_off(SwitchScope.INGEST),
        recorder=recorder,
        sleep=sleep,
        random=random.random,
        monotonic=time.monotonic,
        recover_every_s=lease.lease_s / 2,
        progress=heartbeat.progress,
    )
    recorder.event(
        names.WORKER_STARTED,
        worker_id=lease.worker_id,
        ingest_run_id=lease.ingest_run_id,
        queue=queue.name,
    )
    heartbeat.start()
    try:
        return loop.run(until, ended)
    finally:
        heartbeat.stop()
        beating.close()
        beating_queue.close()
        queue.close()
        stores.close()


def _wait_s(config: Config, until: Until) -> float:
    """Return how long a receive waits; a loop that ends by itself is not to wait for ever more."""
    wait_s = config.number("queue.wait_s")
    return wait_s if until is Until.STOPPED else min(wait_s, _LAST_WAIT_S)


def open_current_stores(
    config: Config,
    *,
    read_only: bool = False,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
) -> Stores:
    """Wire all stores to a database whose schema is this release's; any other is refused."""
    # Looked at through a connection that only reads: a file that is not there must not be made.
    database = open_database(config, read_only=True)
    try:
        require_current_schema(database)
    finally:
        database.close()
    return open_stores(config, read_only=read_only, catalogue=catalogue, recorder=recorder)


def migrate_database(config: Config) -> tuple[str, Sequence[str]]:
    """Bring the configured database up to date; return its place and what was applied."""
    database = open_database(config)
    try:
        return database.place, migrate(database).applied
    finally:
        database.close()


def check_database(config: Config) -> Health:
    """Tell how the configured database is, by reading only."""
    database = open_database(config, read_only=True)
    try:
        return inspect(database, system_clock)
    finally:
        database.close()


def export_ledger(stores: Stores) -> Iterator[bytes]:
    """Yield the whole ledger as lines of JSON."""
    return export_lines(stores.database)


def import_ledger(
    stores: Stores, config: Config, file: BinaryIO, *, actor: str, source: str
) -> Imported:
    """Import what `export_ledger` yielded: all of it, or nothing."""
    return import_lines(
        stores.runner,
        file,
        actor=actor,
        source=source,
        ids=uuid.uuid4,
        custom_reasons=dict(config.rules.custom_reasons),
    )
