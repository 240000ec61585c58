"""The whole pipeline at one moment, read once for everybody who shows it."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path

from tallgrass.bootstrap.health import read_health, read_readings
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.inventory.retention import DiskForecast, forecast
from tallgrass.ledger.identity import first_wal_id_of
from tallgrass.storage.ledger_reader import LedgerStats
from tallgrass.storage.retention_store import RetentionStore
from tallgrass.views.status import Overview

#: Growth is told by the data of this time.
_RECENT = timedelta(days=1)


def read_overview(
    config: Config, stores: Stores, catalogue: Catalogue, *, clock: Clock = system_clock
) -> Overview:
    """Look at ledger, queue, outbox, switches and disk, by reading only."""
    read = read_readings(config, stores)
    now = clock()
    return Overview(
        stats=read.stats,
        parked=read.parked,
        queue_name=config.text("queue.name"),
        queue=read.queue,
        switches=read.switches,
        poison=read.poison,
        undelivered=read.undelivered,
        projection=read.projection,
        disk=_disk_forecast(stores, units=_units(read.stats), now=now),
        health=read_health(config, stores, catalogue, clock=clock, readings=read),
        now=now,
    )


def _units(stats: LedgerStats) -> int:
    return sum(sum(counts.values()) for counts in stats.by_dataset.values())


def _disk_forecast(stores: Stores, *, units: int, now: datetime) -> DiskForecast:
    """Tell how the database grows, and how long the disk lasts where it is this machine's."""
    size, recent = RetentionStore(stores.runner).size(first_wal_id_of(now - _RECENT))
    free = None
    if stores.database.dialect == "sqlite":
        free = shutil.disk_usage(Path(stores.database.place).absolute().parent).free
    return forecast(
        database_bytes=size, units=units, recent_units=recent, recent_days=1.0, free=free
    )
