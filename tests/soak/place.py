"""Where a soak takes place: SQLite with the embedded queue, or PostgreSQL with SQS."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.stores import migrate_database, open_stores
from tallgrass.governance.actors import Role
from tests.chaos.roles import connect, folder_of
from tests.plugins.postgres import FOLDER_PREFIX
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.support.aws import ENVIRONMENT, AwsServer
from tests.support.governance import token_of
from tests.support.run_places import RunPlace

if TYPE_CHECKING:
    from pathlib import Path

#: A message that a killed worker took is seen again a little later than its units are free, and not
#: in step with the kills: else the next worker that takes it is killed too.
VISIBLE_AFTER_LEASES = 1.2
#: More than any disturbance costs a unit, so that none is given up for the wrong reason.
RECEIVES_MAX = 8
ATTEMPTS_MAX = 12
#: A server as people run it, where rows that are no longer seen are cleared away all the time.
_SERVER = "autovacuum_naptime = '20s'\nshared_buffers = '128MB'\n"
WRITTEN, EMPTY, SHOWN = "written", "empty", "objects"


@dataclass(kw_only=True)
class Place(RunPlace):
    """Stores, queue and objects of one soak."""

    #: What a killed worker held is free again after so long.
    lease_s: float
    #: Ceilings of the first back-off of a failed unit, and of all.
    retry_s: tuple[float, float]

    @property
    def written(self) -> Path:
        """The folder that objects are written to."""
        return self.folder / WRITTEN

    @property
    def enough(self) -> Path:
        """The file whose being there ends the feed."""
        return self.folder / "enough"

    @property
    def rules(self) -> dict[str, Any]:
        """The settings of every process, but for where things are."""
        return {
            "queue.visibility_s": self.lease_s * VISIBLE_AFTER_LEASES,
            "queue.max_receive_count": RECEIVES_MAX,
            "queue.wait_s": 1,
            "ledger.max_attempts": ATTEMPTS_MAX,
            "ledger.retry_base_s": self.retry_s[0],
            "ledger.retry_cap_s": self.retry_s[1],
            "worker.lease_s": self.lease_s,
            "outbox.lease_s": self.lease_s,
            "objects.url": f"file:{self.folder / SHOWN}",
            "retention.attempts_days": 1,
            "retention.events_days": 1,
            "retention.archive": str(self.folder / "archive"),
        }

    @property
    def environment(self) -> dict[str, str]:
        """The settings as a process finds them."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLGRASS_")}
        told = {
            "TALLGRASS_" + key.replace(".", "_").upper(): str(value)
            for key, value in self.flags.items()
        }
        return {**kept, **ENVIRONMENT, **told}

    def set_up(self) -> None:
        """Migrate, add the people, show the objects."""
        folder_of(self.written)
        folder_of(self.folder / EMPTY)
        self.show_objects(there=True)
        migrate_database(self.config)
        with closing(open_stores(self.config)) as stores:
            ann = stores.actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)
            stores.actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=ann)

    def show_objects(self, *, there: bool) -> None:
        """Let objects be there, or all away, as a folder of another machine is at times."""
        link = self.folder / "objects.new"
        link.symlink_to(WRITTEN if there else EMPTY)
        link.replace(self.folder / SHOWN)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the database and of its log."""
        if self.server is None:
            files = {path.name: path.stat().st_size for path in self.folder.glob("*.db*")}
            log = sum(size for name, size in files.items() if name.endswith("-wal"))
            return files["ledger.db"], log
        with closing(connect(self.database_url)) as database:
            row = database.execute(
                "SELECT pg_database_size(current_database()), sum(size) FROM pg_ls_waldir()"
            ).fetchone()
        return int(row[0]), int(row[1])

    def helpers(self) -> dict[str, int]:
        """Return the processes beside Tallgrass that the load needs."""
        found = {
            "server": None if self.server is None else self.server.pid,
            "emulator": None if self.aws is None else self.aws.pid,
        }
        return {name: pid for name, pid in found.items() if pid is not None}


def open_place(
    name: str,
    folder: Path,
    *,
    lease_s: float,
    retry_s: tuple[float, float],
    with_sqs: bool = True,
) -> Place:
    """Make a place: `sqlite`, or `postgres` with SQS or with the embedded queue."""
    if name == "sqlite":
        return Place(
            name=name,
            folder=folder,
            lease_s=lease_s,
            retry_s=retry_s,
            database_url=f"sqlite:///{folder / 'ledger.db'}",
            queue_url=f"sqlite:///{folder / 'queue.db'}",
        )
    os.environ.update(ENVIRONMENT)
    server = PostgresServer(new_folder(f"{FOLDER_PREFIX}own-{os.getpid()}-"))
    with (server.folder / "data" / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write(_SERVER)
    server.start()
    if not with_sqs:
        return Place(
            name=name,
            folder=folder,
            lease_s=lease_s,
            retry_s=retry_s,
            database_url=server.url,
            queue_url=f"sqlite:///{folder / 'queue.db'}",
            server=server,
        )
    aws = AwsServer("ministack")
    queue = aws.make_queue(
        visibility_s=int(lease_s * VISIBLE_AFTER_LEASES), max_receive_count=RECEIVES_MAX
    )
    return Place(
        name=name,
        folder=folder,
        lease_s=lease_s,
        retry_s=retry_s,
        database_url=server.url,
        queue_url=queue.url,
        server=server,
        aws=aws,
        queue=queue,
    )
