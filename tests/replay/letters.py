"""A pipeline whose messages die, and drains of them as a command would carry them out."""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.drain_preparing import DrainRequest, prepare_drain
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.bootstrap.queues import open_queue
from tallgrass.bootstrap.stores import open_stores
from tallgrass.governance.approvals import plan_subject
from tallgrass.governance.references import ReferenceKind
from tallgrass.governance.switches import SwitchScope
from tallgrass.replay.dead_letters import Cause, Wanted
from tallgrass.replay.drain_report import Thresholds
from tallgrass.replay.selection import Selection
from tallgrass.telemetry.recorder import NOBODY
from tests.oracle.replays import REPLAY_PROMISES
from tests.oracle.tables import read_tables
from tests.pipeline.scene import VISIBILITY_S, Pipeline
from tests.replay.scene import DOWN, Unreadable
from tests.replay.tampering import tamper
from tests.support.governance import set_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.bootstrap.draining import Found
    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.evidence.reading import EvidenceReader
    from tallgrass.governance.actors import Acting
    from tallgrass.replay.dead_letter_plan import DrainPlan
    from tallgrass.replay.drain_report import DrainReport
    from tallgrass.telemetry.recorder import Recorder
    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend

EVERYTHING = Wanted(selection=Selection())
GROUNDS: dict[str, Any] = {"change_ref": "CHG-1", "remediation": "the store answers again"}


class Letters:
    """Dead letters of an embedded queue, and everything that a drain of them needs."""

    def __init__(self, backend: Backend, folder: Path, **settings: Any) -> None:
        self.backend = backend
        self.folder = folder
        # One delivery: what fails once is dead when it would be delivered again.
        self.pipeline = Pipeline(backend, folder, max_receive_count=1, max_attempts=3)
        self.people = set_up(backend)
        self.people.stores.changes.open(
            ReferenceKind.CHANGE, "CHG-1", title="mended", by=self.people.otto
        )
        self.config: Config = self.configured(**settings)
        #: Whom drains and workers report to.
        self.recorder: Recorder = NOBODY

    def configured(self, policies: dict[str, Any] | None = None, **settings: Any) -> Config:
        """Return the pipeline's configuration, changed."""
        values = {name.replace("__", "."): value for name, value in settings.items()}
        config = self.pipeline.config
        merged = {**config.values, "replay.max_records_per_second": 1e6, **values}
        return replace(config, values=merged, policies=policies or {})

    # --- letters ------------------------------------------------------------------------------

    def fail(self, *given: Thing, code: str = DOWN) -> None:
        """Let units fail, and their messages die."""
        self.pipeline.feed(*given)
        self.pipeline.start(reader=Unreadable(code)).run_messages()
        self.die()

    def fail_again(self, *given: Thing, times: int = 1) -> None:
        """Let units fail once more, without a message that would die of it."""
        for _ in range(times):
            self.pipeline.announce(*given)
            self.pipeline.start(reader=Unreadable()).run_messages()
            self.in_queue("DELETE FROM messages")

    def send(self, *bodies: bytes) -> None:
        """Let messages die that no worker ever saw."""
        self.pipeline.queue.send(list(bodies))
        self.pipeline.queue.receive(len(bodies))
        self.die()

    def die(self) -> None:
        """Let every message in flight become a dead letter."""
        self.pipeline.clock.advance(VISIBILITY_S + 1)
        assert self.pipeline.queue.receive(100) == []

    def dead(self, url: str | None = None) -> list[dict[str, Any]]:
        """Return the dead letters by plain SQL."""
        return self.in_queue("SELECT * FROM dead_letters ORDER BY position", url)

    def waiting(self, url: str | None = None) -> int:
        """Count the messages that wait, by plain SQL."""
        return int(self.in_queue("SELECT count(*) AS n FROM messages", url)[0]["n"])

    def in_queue(self, sql: str, url: str | None = None) -> list[dict[str, Any]]:
        """Ask a queue's file."""
        path = (url or self.config.text("queue.url")).removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            return [dict(row) for row in connection.execute(sql)]

    # --- drains -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def desk(self) -> Iterator[tuple[DeadLetterDesk, Stores]]:
        """Open stores of their own, as a command does."""
        catalogue = open_catalogue(self.config)
        opened = open_stores(self.config, catalogue=catalogue, recorder=self.recorder)
        with closing(opened) as stores:
            yield DeadLetterDesk(self.config, stores, catalogue, recorder=self.recorder), stores

    def found(self, wanted: Wanted = EVERYTHING) -> list[Found]:
        """Classify the letters."""
        with self.desk() as (desk, _):
            return list(desk.each(wanted))

    def plan(
        self, *, causes: tuple[Cause, ...] = (), max_events: int | None = None, **chosen: Any
    ) -> DrainPlan:
        """Plan a drain."""
        wanted = Wanted(selection=Selection(**chosen), causes=frozenset(causes))
        with self.desk() as (desk, _):
            return desk.plan(DrainPlanRequest(wanted=wanted, max_events=max_events))

    def approved(self, plan: DrainPlan) -> str:
        """Ask for the approval of a plan and give it; return its id."""
        subject = plan_subject(plan.header.document(), plan.sha256)
        return self.people.approved(subject).approval_id

    def drain(
        self,
        plan: DrainPlan | None,
        *,
        by: Acting | None = None,
        options: DrainOptions | None = None,
        **grounds: Any,
    ) -> DrainReport:
        """Carry out a plan as a command would."""
        actor = by or self.people.otto
        request = DrainRequest(plan=plan, **{**GROUNDS, **grounds})
        with self.desk() as (desk, stores):
            catalogue = open_catalogue(self.config)
            prepared = prepare_drain(self.config, stores, catalogue, request, by=actor)
            return desk.drain(prepared, options or DrainOptions(), by=actor)

    def report(self, plan: DrainPlan, **borne: int) -> DrainReport:
        """Tell what came of a drain."""
        with self.desk() as (desk, _):
            return desk.report(desk.find(plan.header.replay_run_id), Thresholds(**borne))

    def work(
        self,
        url: str | None = None,
        *,
        replay_run_id: str | None = None,
        reader: EvidenceReader | None = None,
    ) -> int:
        """Work off a queue until it is empty; return the units worked on."""
        catalogue, units = open_catalogue(self.config), 0
        opened = open_stores(
            self.config,
            catalogue=catalogue,
            replay_run_id=replay_run_id,
            recorder=self.recorder,
        )
        with closing(opened) as stores, closing(open_queue(self.config, url=url)) as queue:
            lease = stores.leases.register("drained", ingest_run_id="run", lease_s=60)
            worker = self.pipeline.start(
                lease, stores=stores, queue=queue, reader=reader, recorder=self.recorder
            )
            while not (batch := worker.run_messages()).is_empty:
                units += len(batch.claims)
            stores.leases.stop(lease)
        return units

    def switch(self, *, is_on: bool, dataset: str = "*") -> None:
        """Turn the kill switch of replay."""
        self.people.stores.switches.set(
            SwitchScope.REPLAY, dataset, is_on=is_on, actor=self.people.otto, reason="test"
        )

    # --- looking ------------------------------------------------------------------------------

    def statuses(self, *given: Thing) -> list[str]:
        """Return where units stand."""
        return [self.pipeline.row(each)["status"] for each in given]

    def letters(self, plan: DrainPlan) -> list[dict[str, Any]]:
        """Return what the ledger keeps of a drain's letters."""
        return self.backend.rows(
            "SELECT * FROM drained_letters WHERE replay_run_id = ? ORDER BY message_id",
            plan.header.replay_run_id,
        )


def twice(backend: Backend, wal_id: str) -> None:
    """Let a unit have been applied once more with the same object, past every guard."""
    first = backend.rows("SELECT * FROM wal_attempts WHERE wal_id = ?", wal_id)[0]
    columns = ", ".join(name for name in first if name != "attempt_no")
    tamper(
        backend,
        f"INSERT INTO wal_attempts (attempt_no, {columns})"
        f" SELECT attempt_no + 1, {columns} FROM wal_attempts"
        " WHERE wal_id = ? AND status = 'applied'",
        wal_id,
    )


def kept_promises(backend: Backend) -> list[str]:
    """Return what the oracle finds wrong with replays, from raw tables."""
    tables = read_tables(backend.connect())
    return [fault for promise in REPLAY_PROMISES for fault in promise(tables)]
