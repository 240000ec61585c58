"""Migrated, empty databases that every simulated world begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import migrate_database
from tallgrass.config import load_config
from tests.simulation.grounds import FileGround, Ground, MemoryGround, PostgresGround
from tests.simulation.memory import MemoryFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.clock import Clock
    from tests.plugins.postgres import Databases

#: One world in so many is played on files, with a connection for each process.
FILES_EVERY = 32


def is_on_files(seed: int) -> bool:
    """Tell whether a seed's world is played on files, unless on a server; others are in memory."""
    return seed % FILES_EVERY == 0


class Template:
    """Migrated, empty databases to copy for each world; on a server if there is one."""

    def __init__(self, folder: Path, databases: Databases | None = None) -> None:
        self.folder = folder
        self.backend = "sqlite" if databases is None else "postgres"
        self._databases = databases
        config = load_config(
            environment={},
            flags={
                "database.url": f"sqlite:///{folder}/ledger.db",
                "queue.url": f"sqlite:///{folder}/queue.db",
            },
        )
        migrate_database(config)
        open_queue(config).close()
        self._memory = MemoryFiles(folder / "ledger.db", folder / "queue.db")

    def ground(self, seed: int, folder: Path, clock: Clock) -> Ground:
        """Return the databases of a seed's world."""
        if self._databases is not None:
            template = self._databases.template("simulation", _migrate)
            return PostgresGround(self._databases, template, self._memory, folder, clock)
        if is_on_files(seed):
            return FileGround(self.folder, folder)
        return MemoryGround(self._memory, folder)

    def close(self) -> None:
        """Forget what is in memory; whoever made the folder, or the server, removes it."""
        self._memory.close()


def _migrate(url: str) -> None:
    migrate_database(load_config(environment={}, flags={"database.url": url}))
