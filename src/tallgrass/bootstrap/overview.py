"""The whole pipeline at one moment, read once for everybody who shows it."""

from tallgrass.bootstrap.health import read_health, read_readings
from tallgrass.bootstrap.retaining import disk_forecast
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.storage.ledger_reader import LedgerStats
from tallgrass.views.status import Overview


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
        disk=disk_forecast(stores, units=_units(read.stats), now=now),
        health=read_health(config, stores, catalogue, clock=clock, readings=read),
        now=now,
    )


def _units(stats: LedgerStats) -> int:
    return sum(sum(counts.values()) for counts in stats.by_dataset.values())
