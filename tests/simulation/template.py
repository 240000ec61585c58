"""Migrated, empty databases that every simulated world begins with."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.config import load_config
from tests.simulation.memory import MemoryFiles

if TYPE_CHECKING:
    from pathlib import Path


class Template:
    """Migrated, empty databases to copy for each world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = load_config(
            environment={},
            flags={
                "database.url": f"sqlite:///{folder}/ledger.db",
                "queue.url": f"sqlite:///{folder}/queue.db",
            },
        )
        migrate_database(config)
        open_queue(config).close()
        self.memory = MemoryFiles(folder / "ledger.db", folder / "queue.db")

    def close(self) -> None:
        """Forget what is in memory; whoever made the folder removes it."""
        self.memory.close()

    def copy(self, folder: Path) -> None:
        """Copy both files."""
        for name in ("ledger.db", "queue.db"):
            shutil.copyfile(self.folder / name, folder / name)
