"""Lives of SQLite files: of the ledger with its queue, of its schema, of people and their words."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tallgrass.bootstrap.queues import open_embedded_queue
from tallgrass.bootstrap.retaining import Retention
from tallgrass.bootstrap.stores import open_stores, record_collections
from tallgrass.bootstrap.workers import open_worker
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.governance.actors import Role
from tallgrass.governance.switches import SwitchScope
from tallgrass.inventory.retention import ArchiveFormat, ArchiveKind, RetentionRules
from tallgrass.sinks.protocol import Delivered
from tallgrass.storage.archives import ArchiveFolder
from tallgrass.storage.migrations import migrate
from tallgrass.storage.retention_store import RetentionStore
from tallgrass.storage.sqlite import SqliteDatabase
from tests.io_faults.lives import Life
from tests.pipeline.scene import message_of, things
from tests.simulation.actors import no_sleep, seeded_ids
from tests.support.backends import ManualClock
from tests.support.governance import token_of
from tests.support.outbox_roles import open_dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.outbox.event import OutboxEvent
    from tests.io_faults.lives import State, Step

LEDGER, QUEUE = "ledger.db", "queue.db"


def read_state(folder: Path, *names: str) -> State:
    """Return all rows of all tables, and what SQLite finds unsound; no file is like no table."""
    found: State = {}
    for name in names:
        path = folder / name
        if not path.exists():
            continue
        with contextlib.closing(sqlite3.connect(path)) as connection:
            checks = ("integrity_check", "foreign_key_check")
            told = [row for each in checks for row in connection.execute(f"PRAGMA {each}")]
            if told != [("ok",)]:
                found[name] = told
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
            for (table,) in tables.fetchall():
                found[f"{name}:{table}"] = _rows(connection, table)
    return found


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in cursor.description]
    if "outbox_id" not in columns:
        return sorted(cursor, key=repr)
    # These ids grow with each try by design; what counts is which row has which.
    at, rows = columns.index("outbox_id"), cursor.fetchall()
    known = connection.execute("SELECT outbox_id FROM outbox ORDER BY outbox_id").fetchall()
    place = {name: number for number, (name,) in enumerate(known)}
    return sorted([(*row[:at], place.get(row[at]), *row[at + 1 :]) for row in rows], key=repr)


class StepIds:
    """Draws ids; a transaction that is tried again draws those of the first try again."""

    def __init__(self) -> None:
        self._random = Random(0)
        self._step = 0

    def __call__(self) -> UUID:
        """Draw one."""
        return UUID(int=self._random.getrandbits(128), version=4)

    def during(self, steps: Sequence[Step]) -> list[Step]:
        """Return steps that draw each its own."""
        return [partial(self._play, number, step) for number, step in enumerate(steps, start=1)]

    @contextlib.contextmanager
    def transaction(self, database: Any) -> Iterator[Any]:
        """Begin a transaction, and to draw from the step's beginning."""
        self._random.seed(self._step)
        with database() as begun:
            yield begun

    def _play(self, number: int, step: Step) -> None:
        self._step = number
        self._random.seed(number)
        step()


def _config(folder: Path, url: str | None = None) -> Config:
    return load_config(
        environment={},
        flags={
            "database.url": url or f"sqlite:///{folder / LEDGER}",
            "queue.url": f"sqlite:///{folder / QUEUE}",
            "objects.url": "event",
        },
    )


def _open(
    folder: Path, clock: ManualClock, ids: StepIds | None = None, url: str | None = None
) -> Stores:
    ids = ids or StepIds()
    stores = open_stores(
        _config(folder, url),
        clock=clock,
        ids=ids,
        draw=lambda: 0.5,
        sleep=no_sleep,
        catalogue=default_catalogue(),
    )
    database: Any = stores.database
    database.transaction = partial(ids.transaction, database.transaction)
    return stores


def prepare(folder: Path, url: str | None = None) -> None:
    """Migrate ledger and queue; add the people and the collections of what will be ingested."""
    clock = ManualClock()
    stores = _open(folder, clock, url=url)
    migrate(stores.database)
    record_collections(stores, default_catalogue())
    ann = stores.actors.add("ann", Role.APPROVER, token=token_of("ann"), by=None)
    stores.actors.add("otto", Role.OPERATOR, token=token_of("otto"), by=ann)
    stores.close()
    open_embedded_queue(_config(folder), clock=clock).close()


class _Kept:
    """A target that keeps nothing and is always there."""

    batch_max = 100

    def send(self, events: Sequence[OutboxEvent]) -> list[Any]:
        """Take all."""
        return [Delivered()] * len(events)

    def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def pipeline(
    folder: Path,
    *,
    units: int,
    url: str | None = None,
    expire: Callable[[], object] = lambda: None,
) -> Iterator[list[Step]]:
    """Announce units, ingest them, deliver their events; then again, as a worker that was lost.

    `expire` ends all leases where the injected clock does not.
    """
    clock = ManualClock()
    ids = StepIds()
    config, stores = _config(folder, url), _open(folder, clock, ids, url)
    queue = open_embedded_queue(config, clock=clock, ids=seeded_ids(Random(3)))
    found: dict[str, Any] = {}

    def begin() -> None:
        lease = stores.leases.register("w", ingest_run_id="run", lease_s=60)
        found["worker"] = open_worker(config, stores, lease, queue=queue, clock=clock)

    def phase(name: str) -> None:
        batch = found["batch"]
        getattr(found["worker"], name)(batch)
        if batch.unacknowledged is not None:
            # The worker goes on; that these messages are gone was not reported.
            raise batch.unacknowledged

    def receive() -> None:
        found["batch"] = found["worker"].receive()

    def deliver(name: str) -> None:
        getattr(found["dispatcher"], name)(found["sent"])

    def claim() -> None:
        found["dispatcher"] = open_dispatcher(
            stores, _Kept(), target="file", dispatcher_id=str(UUID(int=7)), monotonic=lambda: 0.0
        )
        found["sent"] = found["dispatcher"].claim()

    def lose() -> None:
        clock.advance(400)
        expire()
        stores.leases.recover()

    bodies = [message_of(each.event()) for each in things(units)]
    more = [message_of(each.event()) for each in things(units, units)]
    phases = ("parse", "record_and_claim", "read_evidence", "operate", "commit", "acknowledge")
    try:
        yield ids.during(
            [
                lambda: queue.send([*bodies, b"no message of ours"]),
                begin,
                receive,
                *(partial(phase, name) for name in phases),
                claim,
                *(partial(deliver, name) for name in ("send", "settle")),
                lambda: queue.send(more),
                receive,
                *(partial(phase, name) for name in phases[:2]),
                lose,
            ]
        )
    finally:
        for opened in (stores, queue):
            opened.close()


@contextlib.contextmanager
def _governance(folder: Path) -> Iterator[list[Step]]:
    """Let people turn switches, and seal what they did."""
    ids = StepIds()
    stores = _open(folder, ManualClock(), ids)
    people: dict[str, Any] = {}

    def sign_in() -> None:
        people["ann"] = stores.actors.authenticate(token_of("ann"), action="test")

    def turn() -> None:
        stores.switches.set(
            SwitchScope.INGEST, "hrrr", is_on=True, actor=people["ann"], reason="test"
        )

    try:
        yield ids.during(
            [
                sign_in,
                lambda: stores.switches.freeze(actor=people["ann"], reason="test"),
                lambda: stores.switches.thaw(actor=people["ann"], reason="test"),
                turn,
                stores.audit.seal,
            ]
        )
    finally:
        stores.close()


@contextlib.contextmanager
def _migration(folder: Path) -> Iterator[list[Step]]:
    """Make the tables in a file that is not there."""
    database = SqliteDatabase(folder / LEDGER, clock=ManualClock())
    try:
        yield [lambda: migrate(database)]
    finally:
        database.close()


def _prepare_old(folder: Path) -> None:
    """Leave units that are done, of a time that retention calls old."""
    prepare(folder)
    with pipeline(folder, units=3) as steps:
        for step in steps[:12]:
            step()
    stores = _open(folder, ManualClock())
    stores.audit.seal()
    stores.close()


@contextlib.contextmanager
def _retention(folder: Path) -> Iterator[list[Step]]:
    """Archive and remove all that is old."""
    ids = StepIds()
    stores = _open(folder, ManualClock(), ids)
    retention = Retention(
        RetentionStore(stores.runner),
        ArchiveFolder(folder / "archive"),
        RetentionRules(days=dict.fromkeys(ArchiveKind, 1)),
        ArchiveFormat.NDJSON,
        now=lambda: ManualClock()() + timedelta(days=2),
    )
    found: dict[str, Any] = {}

    def begin() -> None:
        otto = stores.actors.authenticate(token_of("otto"), action="test")
        found["steps"] = retention.steps(tuple(ArchiveKind), actor=otto)

    def go_on() -> None:
        next(found["steps"], None)

    try:
        yield ids.during([begin, *([go_on] * 9)])
    finally:
        if "steps" in found:
            found["steps"].close()
        stores.close()


def _nothing(_folder: Path) -> None:
    pass


def _of(*names: str) -> Any:
    return lambda folder: read_state(folder, *names)


def lives(units: int) -> dict[str, Life]:
    """Return all lives of SQLite files, with so many units each."""
    both = _of(LEDGER, QUEUE)
    found = (
        Life(name="pipeline", prepare=prepare, steps=partial(pipeline, units=units), state=both),
        Life(name="governance", prepare=prepare, steps=_governance, state=both),
        Life(name="migration", prepare=_nothing, steps=_migration, state=_of(LEDGER)),
        Life(name="retention", prepare=_prepare_old, steps=_retention, state=_of(LEDGER)),
    )
    return {life.name: life for life in found}
