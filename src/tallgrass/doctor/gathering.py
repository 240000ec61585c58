"""Gathers the facts: everything here only reads, and each failure becomes a fact of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tallgrass.bootstrap.config_report import version_in_use
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.queues import read_queue_status
from tallgrass.bootstrap.stores import check_database, open_current_stores
from tallgrass.doctor.finding import (
    DatabaseFacts,
    EmbeddedQueue,
    Facts,
    Folder,
    LedgerFacts,
    NotAsked,
    Trouble,
)
from tallgrass.errors import TallgrassError
from tallgrass.evidence.formats import WITH_ATTRIBUTES
from tallgrass.intake.poison import PoisonState
from tallgrass.sqlite_address import sqlite_file

if TYPE_CHECKING:
    from tallgrass.bootstrap.views import Health, ProjectionLag
    from tallgrass.clock import Clock
    from tallgrass.config import Config
    from tallgrass.datasets.definition import Dataset
    from tallgrass.queues.queue_facts import SqsFacts

_PACKAGES = ("boto3", "cryptography", "h5py", "psycopg")
_OFFLINE = NotAsked(reason="left out by --skip-network")

#: Returns the heads in an anchor file.
ReadAnchors = Callable[[Path], Sequence[object]]


def gather(config: Config, *, skip_network: bool, clock: Clock, read_anchors: ReadAnchors) -> Facts:
    """Look at everything that the configuration names."""
    datasets = _datasets(config)
    packages = {name: find_spec(name) is not None for name in _PACKAGES}
    database = _database(config, skip_network=skip_network)
    return Facts(
        config=config,
        config_version=version_in_use(config),
        datasets=datasets if isinstance(datasets, Trouble) else len(datasets),
        with_attributes=() if isinstance(datasets, Trouble) else _with_attributes(datasets),
        packages=packages,
        folders=tuple(_folders(config)),
        database=database,
        ledger=_ledger(config, database, read_anchors, clock),
        queue=_queue(config, packages, clock, skip_network=skip_network),
        credentials=_credentials(config, packages, skip_network=skip_network),
    )


def trouble_of(error: TallgrassError) -> Trouble:
    """Return an error as a fact."""
    return Trouble(code=error.code, message=str(error))


def _datasets(config: Config) -> Sequence[Dataset] | Trouble:
    try:
        return open_catalogue(config).datasets
    except TallgrassError as error:
        return trouble_of(error)


def _with_attributes(datasets: Sequence[Dataset]) -> tuple[str, ...]:
    return tuple(each.id for each in datasets if each.format in WITH_ATTRIBUTES)


def _folders(config: Config) -> Iterator[Folder]:
    for setting in ("database.url", "queue.url"):
        file = sqlite_file(config.text(setting))
        if file is not None:
            yield _folder(setting, file.absolute().parent, file)
    objects = config.text("objects.url")
    if objects.startswith("file:"):
        yield _folder("objects.url", Path(objects.removeprefix("file:")).absolute(), None)


def _folder(setting: str, folder: Path, file: Path | None) -> Folder:
    """Look at a folder: with a file in it that work writes, or to read from."""
    right = os.R_OK if file is None else os.W_OK
    usable = os.access(folder, right) and (
        file is None or not file.exists() or os.access(file, right)
    )
    there = next(place for place in (folder, *folder.parents) if _is_folder(place))
    return Folder(
        setting=setting,
        path=str(folder),
        exists=_is_folder(folder),
        written=file is not None,
        usable=usable,
        free_bytes=shutil.disk_usage(there).free,
    )


def _is_folder(path: Path) -> bool:
    """Tell whether it is one, as far as may be looked."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _database(config: Config, *, skip_network: bool) -> DatabaseFacts | Trouble | NotAsked:
    if skip_network and sqlite_file(config.text("database.url")) is None:
        return _OFFLINE
    try:
        return _database_facts(check_database(config))
    except TallgrassError as error:
        return trouble_of(error)


def _database_facts(health: Health) -> DatabaseFacts:
    return DatabaseFacts(
        place=health.place,
        version=health.version,
        schema=health.schema,
        problem=health.problem,
        writable=health.writable,
        file_system=health.details.get("file_system"),
        clock_ahead_s=health.clock_ahead_s,
    )


def _ledger(
    config: Config,
    database: DatabaseFacts | Trouble | NotAsked,
    read_anchors: ReadAnchors,
    clock: Clock,
) -> LedgerFacts | Trouble | NotAsked:
    if not isinstance(database, DatabaseFacts):
        return database
    if database.problem is not None:
        return NotAsked(reason="the database has not this release's tables")
    try:
        stores = open_current_stores(config, read_only=True)
    except TallgrassError as error:
        return trouble_of(error)
    try:
        switches = stores.switches.switches()
        return LedgerFacts(
            switches=tuple(f"{one.scope.value}:{one.dataset}" for one in switches if one.is_on),
            poison_open=stores.poison.counts()[PoisonState.OPEN],
            audit_entries=bool(stores.audit.entries(size=1)),
            anchors=_anchors(Path(config.text("audit.anchor_file")), read_anchors),
            unprojected=_unprojected(stores.catalog.projection_lag(), clock),
        )
    except TallgrassError as error:
        return trouble_of(error)
    finally:
        stores.close()


def _unprojected(lag: ProjectionLag | None, clock: Clock) -> tuple[int, float] | None:
    if lag is None:
        return None
    since = lag.oldest_changed_at
    return lag.changed, 0.0 if since is None else (clock() - since).total_seconds()


def _anchors(path: Path, read_anchors: ReadAnchors) -> int | Trouble | None:
    with suppress(OSError):  # what may not be looked at is told when it is read
        if not path.exists():
            return None
    try:
        return len(read_anchors(path))
    except TallgrassError as error:
        return trouble_of(error)


def _queue(
    config: Config, packages: Mapping[str, bool], clock: Clock, *, skip_network: bool
) -> EmbeddedQueue | SqsFacts | Trouble | NotAsked:
    url = config.text("queue.url")
    try:
        if sqlite_file(url) is not None:
            return _embedded(config)
        if skip_network:
            return _OFFLINE
        if not packages["boto3"]:
            return NotAsked(reason="boto3 is not installed")
        from tallgrass.queues.sqs_inspection import inspect_queue  # noqa: PLC0415 - optional extra

        endpoint_url = config.text("queue.endpoint_url") or None
        return inspect_queue(url, endpoint_url=endpoint_url, clock=clock)
    except TallgrassError as error:
        return trouble_of(error)


def _embedded(config: Config) -> EmbeddedQueue:
    status = read_queue_status(config)
    if status is None:
        return EmbeddedQueue(waiting=None, dead=None)
    return EmbeddedQueue(waiting=status.visible + status.in_flight, dead=status.dead)


def _credentials(
    config: Config, packages: Mapping[str, bool], *, skip_network: bool
) -> str | Trouble | NotAsked | None:
    if sqlite_file(config.text("queue.url")) is not None:
        return NotAsked(reason="the queue is embedded")
    if skip_network:
        return _OFFLINE
    if not packages["boto3"]:
        return NotAsked(reason="boto3 is not installed")
    from tallgrass.queues.sqs_inspection import credentials_from  # noqa: PLC0415 - optional extra

    try:
        return credentials_from()
    except TallgrassError as error:
        return trouble_of(error)
