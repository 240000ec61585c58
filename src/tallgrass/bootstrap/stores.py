"""The database and everything that keeps state in it."""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import tallgrass
from tallgrass.canonical_json import sha256_hex
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import DatabaseUnusable
from tallgrass.governance.actors import Acting
from tallgrass.ledger.rules import LedgerRules
from tallgrass.stac.collections import build_collection
from tallgrass.storage.actor_store import ActorStore
from tallgrass.storage.approval_store import ApprovalStore
from tallgrass.storage.audit_store import AuditStore
from tallgrass.storage.catalog_reader import CatalogReader
from tallgrass.storage.catalog_writes import CatalogWrites, CollectionStore
from tallgrass.storage.change_store import ChangeStore
from tallgrass.storage.drain_store import DrainStore
from tallgrass.storage.exchange import Imported, export_lines, import_lines
from tallgrass.storage.governance_store import SwitchStore
from tallgrass.storage.health import Health, inspect
from tallgrass.storage.interventions import Interventions
from tallgrass.storage.leases import Leases
from tallgrass.storage.ledger import Ledger
from tallgrass.storage.ledger_reader import (
    LedgerReader,
)
from tallgrass.storage.migrations import migrate, require_current_schema
from tallgrass.storage.outbox_reader import OutboxReader
from tallgrass.storage.outbox_store import OutboxStore
from tallgrass.storage.poison_store import PoisonStore
from tallgrass.storage.replay_reader import ReplayReader
from tallgrass.storage.replay_store import ReplayStore
from tallgrass.storage.sqlite import SqliteDatabase
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Database
from tallgrass.telemetry.recorder import NOBODY, Recorder

_SQLITE = "sqlite:///"

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
    actors: ActorStore
    approvals: ApprovalStore
    changes: ChangeStore
    poison: PoisonStore
    collections: CollectionStore
    catalog: CatalogReader
    outbox: OutboxStore
    deliveries: OutboxReader
    replays: ReplayStore
    replay_runs: ReplayReader
    drains: DrainStore

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


def config_version(config: Config, catalogue: Catalogue | None) -> str:
    """Hash what can change an output: the settings that shape it, and the datasets."""
    if catalogue is None:
        return config.config_version
    return sha256_hex(f"{config.config_version}:{catalogue.fingerprint}".encode())[:16]


def ledger_rules(config: Config, catalogue: Catalogue | None) -> LedgerRules:
    """Return the ledger's rules, with what policies say of overwritten objects."""
    if catalogue is None:
        return config.rules
    found = {each.id: each.governance.overwrite for each in catalogue.datasets}
    overwrites = {name: rule for name, rule in found.items() if rule is not None}
    return replace(config.rules, overwrites={**config.rules.overwrites, **overwrites})


def open_stores(  # noqa: PLR0913 - everything can be passed in
    config: Config,
    *,
    clock: Clock = system_clock,
    ids: Callable[[], uuid.UUID] = uuid.uuid4,
    draw: Callable[[], float] = random.random,
    sleep: Callable[[float], None] = time.sleep,
    read_only: bool = False,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
    replay_run_id: str | None = None,
) -> Stores:
    """Wire all stores to the configured database.

    Whoever writes through the ledger gives the catalogue: attempts keep the version of both. What
    is new to the ledger counts as work of the replay run that is given.
    """
    database = open_database(config, clock=clock, read_only=read_only)
    rules = ledger_rules(config, catalogue)
    runner = TransactionRunner(database, random=draw, sleep=sleep)
    leases = Leases(runner, ids=ids, recorder=recorder)
    approvals = ApprovalStore(
        runner,
        ids=ids,
        lifetime=timedelta(hours=config.number("governance.approval_hours")),
    )
    return Stores(
        database=database,
        runner=runner,
        ledger=Ledger(
            runner,
            leases,
            CatalogWrites(pipeline_id=PIPELINE_ID, ids=ids),
            rules,
            ids=ids,
            random=draw,
            code_version=tallgrass.__version__,
            config_version=config_version(config, catalogue),
            recorder=recorder,
            replay_run_id=replay_run_id,
        ),
        leases=leases,
        interventions=Interventions(runner, config.rules, recorder=recorder),
        reader=LedgerReader(database),
        audit=AuditStore(runner),
        switches=SwitchStore(runner),
        actors=ActorStore(runner),
        approvals=approvals,
        changes=ChangeStore(runner),
        poison=PoisonStore(runner),
        collections=CollectionStore(runner),
        catalog=CatalogReader(database),
        outbox=OutboxStore(runner),
        deliveries=OutboxReader(database),
        replays=ReplayStore(runner, approvals, config.rules, recorder=recorder),
        replay_runs=ReplayReader(database),
        drains=DrainStore(runner, recorder=recorder),
    )


def open_current_stores(
    config: Config,
    *,
    read_only: bool = False,
    catalogue: Catalogue | None = None,
    recorder: Recorder = NOBODY,
    replay_run_id: str | None = None,
) -> Stores:
    """Wire all stores to a database whose schema is this release's; any other is refused."""
    # Looked at through a connection that only reads: a file that is not there must not be made.
    database = open_database(config, read_only=True)
    try:
        require_current_schema(database)
    finally:
        database.close()
    return open_stores(
        config,
        read_only=read_only,
        catalogue=catalogue,
        recorder=recorder,
        replay_run_id=replay_run_id,
    )


def record_collections(stores: Stores, catalogue: Catalogue) -> None:
    """Write the collections of all datasets, before any item of theirs."""
    stores.collections.put(
        [(dataset.item.collection, build_collection(dataset)) for dataset in catalogue.datasets]
    )


def migrate_database(config: Config) -> tuple[str, Sequence[str]]:
    """Bring the configured database up to date; return its place and what was applied.

    An embedded queue that is there already is brought up to date too.
    """
    url = config.text("queue.url")
    if url.startswith(_SQLITE) and Path(url.removeprefix(_SQLITE)).exists():
        # Loaded where it is used: the door of the queue would be half of a command's start.
        from tallgrass.bootstrap.queues import open_queue_store  # noqa: PLC0415

        open_queue_store(config, url).close()
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
    stores: Stores, config: Config, file: BinaryIO, *, actor: Acting, source: str
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
