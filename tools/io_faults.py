"""Let every file operation fail in turn: `python -m tools.io_faults [--only STORE] [--units N]`.

Each store lives through its steps once for every n-th write, sync, rename or commit, which fails
before, half or after it was done, for once or for good, or finds no room; and once for every moment
at which the power may fail. Each time its state must be old or new, and no success reported that is
not there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.io_faults.faulty_vfs import How
from tests.io_faults.file_lives import FILE_LIVES, every_file_point
from tests.io_faults.lives import Tally
from tests.io_faults.node_points import every_node_point
from tests.io_faults.postgres_points import Servers, every_statement
from tests.io_faults.power_loss import every_moment
from tests.io_faults.sqlite_lives import lives
from tests.io_faults.sqlite_points import Stage, every_point
from tests.plugins.postgres import FOLDER_PREFIX, Databases
from tests.plugins.postgres_server import PostgresServer, new_folder
from tests.simulation.simulator import SHARED_MEMORY
from tools.reliability import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STORES = ("sqlite", "power", "files", "nodes", "postgres")
SHOWN_MAX = 20


def sqlite(folder: Path, units: int) -> Tally:
    """Fail each operation of SQLite's file layer, for once each way and for good."""
    tally = Tally()
    for life in lives(units).values():
        stage = Stage(life, folder / life.name)
        tally.add(every_point(stage, How))
        tally.add(every_point(stage, [How.BEFORE], for_good=True))
    return tally


def power(folder: Path, units: int) -> Tally:
    """Cut the power after each operation of SQLite's file layer."""
    tally = Tally()
    for life in lives(units).values():
        tally.add(every_moment(Stage(life, folder / life.name), chances=4))
    return tally


def files(folder: Path, _units: int) -> Tally:
    """Fail each operation of what writes plain files."""
    tally = Tally()
    for name, life in FILE_LIVES.items():
        (folder / name).mkdir(parents=True)
        tally.add(every_file_point(life, folder / name, How))
    return tally


def nodes(folder: Path, _units: int) -> Tally:
    """Fail each operation of the nodes' file layer."""
    return every_node_point(folder, How)


def postgres(folder: Path, _units: int) -> Tally:
    """Break the connection at each statement, on a server of its own."""
    server = PostgresServer(new_folder(f"{FOLDER_PREFIX}own-io-"), fast=True)
    try:
        server.start()
        databases = Databases(server.url, server.folder)
        template = databases.template("io", lambda _url: None)
        url = databases.create(template)
        servers = Servers(
            folder, url, lambda: databases.create(url.partition("?")[0].rpartition("/")[2]),
            databases.drop,
        )  # fmt: skip
        return every_statement(servers, (How.BEFORE, How.AFTER))
    finally:
        server.remove()


PLAYED: dict[str, Callable[[Path, int], Tally]] = {
    "sqlite": sqlite,
    "power": power,
    "files": files,
    "nodes": nodes,
    "postgres": postgres,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play all stores; 1 if any was torn, or told a success that was none."""
    parser = argparse.ArgumentParser(prog="make io-faults", description=__doc__)
    parser.add_argument("--only", choices=STORES, action="append", help="one store (all)")
    parser.add_argument("--units", type=int, default=3, help="units of a batch (3)")
    options = parser.parse_args(arguments)
    total, counts = Tally(), {}
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="tallgrass-io-") as folder:
        for name in options.only or STORES:
            began = time.monotonic()
            (Path(folder) / name).mkdir()
            tally = PLAYED[name](Path(folder) / name, options.units)
            counts[name] = tally.total
            total.add(tally)
            print(f"  {name}: {tally.total:,} fault points, {len(tally.violations)} violations"
                  f" ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
    for text in total.violations[:SHOWN_MAX]:
        print(f"  VIOLATION {text}")
    print(f"{total.total:,} fault points, {len(total.violations)} violations")
    publish("io-faults", {**counts, "all": total.total, "violations": len(total.violations)})
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
