"""The database and everything that keeps state in it.

A store's module is loaded when the store is first asked for: a command uses few of them, and would
otherwise spend most of its start on the others.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

import tallgrass
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.errors import DatabaseUnusable
from tallgrass.ledger.rules import LedgerRules
from tallgrass.sqlite_address import sqlite_file
from tallgrass.storage.migrations import migrate, require_current_schema
from tallgrass.storage.sqlite import SqliteDatabase
from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Database
from tallgrass.telemetry.recorder import NOBODY, Recorder

if TYPE_CHECKING:
    from tallgrass.governance.actors import Acting
    from tallgrass.storage.actor_store import ActorStore
    from tallgrass.storage.approval_store import ApprovalStore
    from tallgrass.storage.audit_store import AuditStore
    from tallgrass.storage.catalog_reader import CatalogReader
    from tallgrass.storage.catalog_writes import CollectionStore
    from tallgrass.storage.change_store import ChangeStore
    from tallgrass.storage.drain_store import DrainStore
    from tallgrass.storage.exchange import Imported
    from tallgrass.storage.health import Health
    from tallgrass.storage.interventions import Interventions
    from tallgrass.storage.leases import Leases
    from tallgrass.storage.ledger import Ledger
    from tallgrass.storage.ledger_reader import LedgerReader
    from tallgrass.storage.outbox_reader import OutboxReader
    from tallgrass.storage.outbox_store import OutboxStore
    from tallgrass.storage.poison_store import PoisonStore
    from tallgrass.storage.replay_reader import ReplayReader
    from tallgrass.storage.replay_store import ReplayStore
    from tallgrass.storage.switch_store import SwitchStore


@dataclass(frozen=True, kw_only=True, eq=False)
class Stores:
    """Everything that keeps state, over one database connection; made when first asked for."""

    database: Database
    runner: TransactionRunner
    config: Config
    #: The datasets. Attempts record a version of settings and datasets, or without it of the
    #: settings alone.
    catalogue: Catalogue | None
    ids: Callable[[], uuid.UUID]
    draw: Callable[[], float]
    recorder: Recorder
    replay_run_id: str | None

    @cached_property
    def ledger(self) -> "Ledger":
        """Records units, and what came of them."""
        from tallgrass.bootstrap.datasets import config_version
        from tallgrass.operators.context import PIPELINE_ID
        from tallgrass.storage.catalog_writes import CatalogWrites
        from tallgrass.storage.ledger import Ledger

        return Ledger(
            self.runner,
            self.leases,
            CatalogWrites(pipeline_id=PIPELINE_ID, ids=self.ids),
            ledger_rules(self.config, self.catalogue),
            ids=self.ids,
            random=self.draw,
            code_version=tallgrass.__version__,
            config_version=config_version(self.config, self.catalogue),
            recorder=self.recorder,
            replay_run_id=self.replay_run_id,
        )

    @cached_property
    def leases(self) -> "Leases":
        """Who works, and until when."""
        from tallgrass.storage.leases import Leases

        return Leases(self.runner, ids=self.ids, recorder=self.recorder)

    @cached_property
    def interventions(self) -> "Interventions":
        """What people do to units."""
        from tallgrass.storage.interventions import Interventions

        return Interventions(self.runner, recorder=self.recorder)

    @cached_property
    def reader(self) -> "LedgerReader":
        """Reads the ledger."""
        from tallgrass.storage.ledger_reader import LedgerReader

        return LedgerReader(self.database)

    @cached_property
    def audit(self) -> "AuditStore":
        """The log of who did what."""
        from tallgrass.storage.audit_store import AuditStore

        return AuditStore(self.runner)

    @cached_property
    def switches(self) -> "SwitchStore":
        """The kill switches."""
        from tallgrass.storage.switch_store import SwitchStore

        return SwitchStore(self.runner)

    @cached_property
    def actors(self) -> "ActorStore":
        """Who may act."""
        from tallgrass.storage.actor_store import ActorStore

        return ActorStore(self.runner)

    @cached_property
    def approvals(self) -> "ApprovalStore":
        """What may be done once, because somebody else agreed."""
        from tallgrass.storage.approval_store import ApprovalStore

        return ApprovalStore(
            self.runner,
            ids=self.ids,
            lifetime=timedelta(hours=self.config.number("governance.approval_hours")),
        )

    @cached_property
    def changes(self) -> "ChangeStore":
        """Change records and incidents, which a replay refers to."""
        from tallgrass.storage.change_store import ChangeStore

        return ChangeStore(self.runner)

    @cached_property
    def poison(self) -> "PoisonStore":
        """Messages that could not be understood."""
        from tallgrass.storage.poison_store import PoisonStore

        return PoisonStore(self.runner)

    @cached_property
    def collections(self) -> "CollectionStore":
        """The collections of the catalog."""
        from tallgrass.storage.catalog_writes import CollectionStore

        return CollectionStore(self.runner)

    @cached_property
    def catalog(self) -> "CatalogReader":
        """Reads the catalog."""
        from tallgrass.storage.catalog_reader import CatalogReader

        return CatalogReader(self.database)

    @cached_property
    def outbox(self) -> "OutboxStore":
        """Events on their way out."""
        from tallgrass.storage.outbox_store import OutboxStore

        return OutboxStore(self.runner)

    @cached_property
    def deliveries(self) -> "OutboxReader":
        """Reads what came of events."""
        from tallgrass.storage.outbox_reader import OutboxReader

        return OutboxReader(self.database)

    @cached_property
    def replays(self) -> "ReplayStore":
        """Records runs of a replay, and what came of their units."""
        from tallgrass.storage.replay_store import ReplayStore

        return ReplayStore(self.runner, self.approvals, self.config.rules, recorder=self.recorder)

    @cached_property
    def replay_runs(self) -> "ReplayReader":
        """Reads runs of a replay."""
        from tallgrass.storage.replay_reader import ReplayReader

        return ReplayReader(self.database)

    @cached_property
    def drains(self) -> "DrainStore":
        """Records drains of dead letters."""
        from tallgrass.storage.drain_store import DrainStore

        return DrainStore(self.runner, recorder=self.recorder)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()


def open_database(
    config: Config, *, clock: Clock = system_clock, read_only: bool = False
) -> Database:
    """Return the configured database; it is connected to when it is first used."""
    url = config.text("database.url")
    if (file := sqlite_file(url)) is not None:
        return SqliteDatabase(
            file,
            clock=clock,
            read_only=read_only,
            lock_timeout_s=config.number("database.lock_timeout_s"),
        )
    try:
        from tallgrass.storage.postgres import PostgresDatabase  # an optional extra
    except ModuleNotFoundError as exc:
        raise DatabaseUnusable(
            "the PostgreSQL driver is not installed", code="driver_missing"
        ) from exc
    return PostgresDatabase(url)


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

    Whoever writes through the ledger passes `catalogue`, since attempts record the version of
    settings and datasets together. With `replay_run_id`, units that are new to the ledger count as
    work of that replay run.
    """
    database = open_database(config, clock=clock, read_only=read_only)
    return Stores(
        database=database,
        runner=TransactionRunner(database, random=draw, sleep=sleep),
        config=config,
        catalogue=catalogue,
        ids=ids,
        draw=draw,
        recorder=recorder,
        replay_run_id=replay_run_id,
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
    """Write the collections of all datasets, before any item of theirs; those there stay."""
    from tallgrass.stac.collections import build_collection

    known = stores.collections.names()
    stores.collections.put(
        [
            (dataset.item.collection, build_collection(dataset))
            for dataset in catalogue.datasets
            if dataset.item.collection not in known
        ]
    )


def migrate_database(config: Config) -> tuple[str, Sequence[str]]:
    """Migrate the configured database; return where it is and which migrations were applied.

    An embedded queue that already exists is migrated too.
    """
    url = config.text("queue.url")
    if (file := sqlite_file(url)) is not None and file.exists():
        from tallgrass.bootstrap.queues import open_queue_store

        open_queue_store(config, file).close()
    database = open_database(config)
    try:
        return database.place, migrate(database).applied
    finally:
        database.close()


def check_database(config: Config) -> "Health":
    """Return the state of the configured database, without writing."""
    from tallgrass.storage.health import inspect

    database = open_database(config, read_only=True)
    try:
        return inspect(database, system_clock)
    finally:
        database.close()


def export_ledger(stores: Stores) -> Iterator[bytes]:
    """Yield the whole ledger as lines of JSON."""
    from tallgrass.storage.exchange import export_lines

    return export_lines(stores.database)


def import_ledger(
    stores: Stores, config: Config, file: BinaryIO, *, actor: "Acting", source: str
) -> "Imported":
    """Import what `export_ledger` yielded: all of it, or nothing."""
    from tallgrass.storage.exchange import import_lines

    return import_lines(
        stores.runner,
        file,
        actor=actor,
        source=source,
        ids=uuid.uuid4,
        custom_reasons=dict(config.rules.custom_reasons),
    )
