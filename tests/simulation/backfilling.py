"""Who backfills in a simulated world: listings of what is there, and lists that are old."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tallgrass.bootstrap.backfilling import open_inventory
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.errors import TransientError
from tallgrass.inventory.backfill import Backfill, Wanted
from tallgrass.inventory.listed import ListedObject
from tallgrass.ledger.vocabulary import Intent
from tests.simulation.actors import Operator
from tests.simulation.disturbed import STORE_FAULTS, Crashed

DATASETS = ("goes-glm", "nexrad-l2", "hrrr")


@dataclass
class Lister(Operator):
    """An operator who lists buckets, is killed in the middle, and begins anew."""

    #: A list that somebody made a while ago.
    _kept: list[ListedObject] = field(default_factory=list)

    def backfill(self) -> str:
        """List a dataset page by page; others work between two pages, and objects change."""
        if self.random.random() < 0.3:
            fault = (self.random.randint(0, 6), self.random.choice(STORE_FAULTS))
            self.store_faults.armed.append(fault)
        if self.random.random() < 0.2:
            self._kept = self._listed()
        old = bool(self._kept) and self.random.random() < 0.3
        objects = self._kept if old else self._listed()
        backfill = self._begin(self.random.choice(DATASETS), as_of_now=not old)
        size = self.random.choice((1, 3, 50))
        try:
            for start in range(0, len(objects), size):
                backfill.take(objects[start : start + size])
                self._meanwhile()
        except (TransientError, Crashed) as error:
            return f"is broken off: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - whatever ends it is a finding
            self.world.violations.append(f"the lister died of {type(error).__name__}: {error}")
            return "died"
        report = backfill.report
        added = report.known + report.due + report.left.total() + report.passed.total()
        if report.listed != added:
            self.world.violations.append(f"a backfill does not add up: {report.document()}")
        return f"backfills: {report.document()}"

    def _begin(self, dataset: str, *, as_of_now: bool) -> Backfill:
        store = open_inventory(
            self.world.config,
            self.stores,
            default_catalogue(),
            str(UUID(int=self.random.getrandbits(128), version=4)),
            Intent.BACKFILL,
            as_of_now=as_of_now,
        )
        return Backfill(store, default_catalogue(), Wanted(dataset=dataset), clock=self.world.clock)

    def _listed(self) -> list[ListedObject]:
        """Return what is there now; a folder tells no etags."""
        folder = self.random.random() < 0.3
        return [
            ListedObject(uri, size, None if folder else etag, self.world.clock())
            for uri, size, etag in self.world.objects.listed()
        ]

    def _meanwhile(self) -> None:
        process = self.random.choice(self.world.processes)
        if process.alive and not process.hung and self.random.random() < 0.5:
            process.step()
        if self.random.random() < 0.2:
            self.world.produce(1)
