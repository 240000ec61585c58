"""Who archives in a simulated world: the real steps, killed between and within any of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from tallgrass.bootstrap.retaining import Retention
from tallgrass.errors import TransientError
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind, RetentionRules
from tallgrass.storage.archives import ArchiveFolder
from tallgrass.storage.retention_store import RetentionStore
from tests.oracle.archived import see_archives
from tests.simulation.actors import Operator
from tests.simulation.disturbed import STORE_FAULTS, Crashed


class DyingFolder(ArchiveFolder):
    """A folder whose writer may die when the file has its name and nobody knows of it."""

    dies = False

    def put(self, write: Any, name: Any) -> tuple[str, str, int]:
        """Write a file, and perhaps die."""
        written = super().put(write, name)
        if self.dies:
            self.dies = False
            raise Crashed
        return written


@dataclass
class Retainer(Operator):
    """An operator for whom everything closed is old."""

    def __post_init__(self) -> None:
        self._folder = DyingFolder(self.world.folder / "archive")

    def retain(self) -> str:
        """Go some steps, and end where chance wills it."""
        if self.random.random() < 0.3:
            fault = (self.random.randint(0, 6), self.random.choice(STORE_FAULTS))
            self.store_faults.armed.append(fault)
        self._folder.dies = self.random.random() < 0.1
        kinds = self.random.choice((tuple(ArchiveKind), *((kind,) for kind in ArchiveKind)))
        return self._go(kinds, self.random.randint(1, 12), self.random.choice((1, 3, 50)))

    def finish(self) -> str:
        """Archive all that is left, undisturbed."""
        self.store_faults.armed.clear()
        self._folder.dies = False
        return self._go(tuple(ArchiveKind), 10_000, 200)

    def _go(self, kinds: tuple[ArchiveKind, ...], steps_max: int, rows_max: int) -> str:
        world = self.world
        retention = Retention(
            RetentionStore(self.stores.runner),
            self._folder,
            RetentionRules(days=dict.fromkeys(ArchiveKind, 1)),
            ArchiveFormat.NDJSON,
            archive_rows_max=rows_max,
            now=lambda: world.clock() + timedelta(days=1),
        )
        done = 0
        try:
            if self.random.random() < 0.5:
                self.stores.audit.seal()
            for _ in islice(retention.steps(kinds, actor=world.otto), steps_max):
                done += 1
        except Crashed:
            return f"crashed after {done} steps"
        except TransientError as error:
            return f"ended after {done} steps: {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - whatever ends it is a finding
            world.violations.append(f"the retainer died of {type(error).__name__}: {error}")
            return f"died after {done} steps"
        finally:
            world.violations += see_archives(world.ledger)
        return f"took {done} steps"
