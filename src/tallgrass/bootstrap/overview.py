"""The whole pipeline at one moment, read once for everybody who shows it."""

from collections.abc import Mapping

from tallgrass.bootstrap.health import read_health
from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.bootstrap.retaining import disk_forecast
from tallgrass.bootstrap.stores import Stores
from tallgrass.clock import Clock, system_clock
from tallgrass.config import Config
from tallgrass.datasets.catalogue import Catalogue
from tallgrass.governance.switches import SwitchedOff, SwitchScope
from tallgrass.storage.ledger_reader import LedgerStats
from tallgrass.views.status import Overview


def read_overview(
    config: Config, stores: Stores, catalogue: Catalogue, *, clock: Clock = system_clock
) -> Overview:
    """Look at ledger, queue, outbox, switches and disk, by reading only."""
    stats = stores.reader.stats()
    due = stores.reader.due_by_dataset()
    off = stores.switches.switched_off(SwitchScope.INGEST)
    now = clock()
    return Overview(
        stats=stats,
        parked=_parked(due, off),
        queue_name=config.text("queue.name"),
        queue=read_queue_status(config),
        switches=[switch for switch in stores.switches.switches() if switch.is_on],
        poison=stores.poison.counts(),
        undelivered=stores.deliveries.counts(),
        projection=stores.catalog.projection_lag(),
        disk=disk_forecast(stores, units=_units(stats), now=now),
        health=read_health(config, stores, catalogue, clock=clock, stats=stats),
        now=now,
    )


def _units(stats: LedgerStats) -> int:
    return sum(sum(counts.values()) for counts in stats.by_dataset.values())


def _parked(due: Mapping[str, int], off: SwitchedOff) -> int:
    return sum(number for dataset, number in due.items() if off.stops(dataset))
