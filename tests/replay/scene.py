"""A pipeline with people, whose units are replayed by the real engine and the real worker."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.planning import PlanRequest, open_plan
from tallgrass.bootstrap.replay_preparing import ReplayRequest, prepare_replay
from tallgrass.bootstrap.replaying import RunOptions, run_replay
from tallgrass.bootstrap.stores import open_stores
from tallgrass.evidence.reading import ReadFailure
from tallgrass.governance.approvals import plan_subject
from tallgrass.governance.switches import SwitchScope
from tallgrass.intake.strict_json import load_strict
from tallgrass.replay.selection import Purpose, Selection
from tallgrass.telemetry.recorder import NOBODY
from tests.pipeline.scene import VISIBILITY_S, Pipeline
from tests.support.governance import set_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallgrass.bootstrap.stores import Stores
    from tallgrass.config import Config
    from tallgrass.evidence.reading import Evidence
    from tallgrass.governance.actors import Acting
    from tallgrass.ledger.unit import IngestUnit
    from tallgrass.replay.run import RunReport
    from tallgrass.telemetry.recorder import Recorder
    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend

#: A retried code: whoever fails with it may be replayed without being named.
DOWN = "transient_network_error"


@dataclass
class Unreadable:
    """A store of objects that does not answer."""

    code: str = DOWN

    def read(self, units: Sequence[IngestUnit]) -> Sequence[Evidence | ReadFailure]:
        """Fail for each unit."""
        return [ReadFailure(code=self.code, message="made to fail") for _ in units]


class Replays:
    """Units that failed or succeeded, and everything that a replay of them needs."""

    def __init__(self, backend: Backend, folder: Path, **settings: Any) -> None:
        self.backend = backend
        self.folder = folder
        self.pipeline = Pipeline(backend, folder)
        self.people = set_up(backend)
        self.config: Config = self.configured(**settings)

    def configured(self, policies: dict[str, Any] | None = None, **settings: Any) -> Config:
        """Return the pipeline's configuration, changed."""
        values = {name.replace("__", "."): value for name, value in settings.items()}
        config = self.pipeline.config
        merged = {**config.values, "replay.max_records_per_second": 1e6, **values}
        return replace(config, values=merged, policies=policies or {})

    # --- units --------------------------------------------------------------------------------

    def succeeded(self, *given: Thing) -> list[str]:
        """Bring units into the catalog by messages."""
        self.pipeline.feed(*given)
        self.pipeline.worker.run_messages()
        return self.ids(given, "succeeded")

    def failed(self, *given: Thing, code: str = DOWN) -> list[str]:
        """Let units fail; their objects are there, and their messages are gone."""
        self.pipeline.feed(*given)
        worker = self.pipeline.start(reader=Unreadable(code))
        for _ in range(0, len(given), self.pipeline.config.integer("worker.batch")):
            # What is handed back goes behind what nobody has seen yet.
            self.pipeline.clock.advance(0.001)
            worker.run_messages()
        self.pipeline.clock.advance(VISIBILITY_S + 1)
        left = self.pipeline.queue.receive(len(given) + 1)
        self.pipeline.queue.delete([message.receipt for message in left])
        return self.ids(given, "failed")

    def ids(self, given: Sequence[Thing], status: str) -> list[str]:
        """Return the ids of units, which must all stand so."""
        rows = [self.pipeline.row(each) for each in given]
        assert {row["status"] for row in rows} <= {status}
        return sorted(row["wal_id"] for row in rows)

    # --- replays ------------------------------------------------------------------------------

    def select(self, wal_ids: Sequence[str], *, again: bool = False, **changes: Any) -> Selection:
        """Name units; `again` includes succeeded ones."""
        purpose = Purpose.REPAIR if again else Purpose.FAILED_ONLY
        return Selection(wal_ids=tuple(wal_ids), purpose=purpose, **changes)

    def request(self, selection: Selection, **changes: Any) -> PlanRequest:
        """Return what is planned of a selection."""
        return PlanRequest(selection=selection, **{"reason": "backfill", **changes})

    def plan_file(self, selection: Selection, name: str = "plan.jsonl", **changes: Any) -> Path:
        """Write the plan of a selection."""
        path = self.folder / name
        with closing(self.opened()) as stores:
            plan = open_plan(self.config, stores, self.request(selection, **changes))
            lines = [plan.stream.first_line(), *(line for _, _, line in plan.rows())]
        path.write_bytes(b"".join(lines))
        return path

    def approved(self, path: Path) -> str:
        """Ask for the approval of a plan and give it; return its id."""
        data = path.read_bytes()
        subject = plan_subject(load_strict(data.splitlines()[0]), hashlib.sha256(data).hexdigest())
        return self.people.approved(subject).approval_id

    def opened(self, recorder: Recorder | None = None) -> Stores:
        """Open stores of their own, as a command does."""
        return open_stores(
            self.config, catalogue=open_catalogue(self.config), recorder=recorder or NOBODY
        )

    def run(
        self,
        plan: Selection | PlanRequest | None = None,
        *,
        by: Acting | None = None,
        recorder: Recorder | None = None,
        options: RunOptions | None = None,
        **request: Any,
    ) -> RunReport:
        """Carry out a replay as a command would, on stores of its own."""
        if isinstance(plan, Selection):
            plan = self.request(plan)
        wanted = ReplayRequest(plan=plan, **request)
        catalogue, actor = open_catalogue(self.config), by or self.people.otto
        with (
            closing(self.opened(recorder)) as stores,
            closing(prepare_replay(self.config, stores, catalogue, wanted, by=actor)) as prepared,
        ):
            return run_replay(
                self.config,
                stores,
                catalogue,
                prepared,
                options or RunOptions(),
                by=actor,
                recorder=recorder or NOBODY,
            )

    def again(
        self, wal_ids: Sequence[str], *, name: str = "plan.jsonl", **changes: Any
    ) -> RunReport:
        """Plan, approve and run again succeeded units."""
        options = changes.pop("options", None)
        recorder = changes.pop("recorder", None)
        path = self.plan_file(self.select(wal_ids, again=True), name, **changes)
        return self.run(
            plan_file=path, approval_id=self.approved(path), options=options, recorder=recorder
        )

    def switch(self, *, is_on: bool, dataset: str = "*") -> None:
        """Turn the kill switch of replay."""
        self.people.stores.switches.set(
            SwitchScope.REPLAY, dataset, is_on=is_on, actor=self.people.otto, reason="test"
        )

    # --- looking ------------------------------------------------------------------------------

    def rows(self, run_id: str) -> list[dict[str, Any]]:
        """Return the records of a run as the table holds them."""
        return self.backend.rows(
            "SELECT * FROM replay_run_records WHERE replay_run_id = ? ORDER BY wal_id", run_id
        )

    def record(self, wal_id: str) -> dict[str, Any]:
        """Return a unit's record as the table holds it."""
        (row,) = self.backend.rows("SELECT * FROM wal_records WHERE wal_id = ?", wal_id)
        return row

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        return int(self.backend.sql(f"SELECT count(*) FROM {table}")[0][0])
