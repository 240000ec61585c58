"""Reading replay runs: what they were, what came of their records, what is left to do."""

from collections.abc import Iterator
from datetime import datetime

import orjson

from tallgrass.errors import UnknownRecord
from tallgrass.governance.policy import ReplayMode
from tallgrass.governance.switches import SwitchScope
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay.comparison import changes_from
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.run import NewRun, RowCount, RowOutcome, Run, RunRecord
from tallgrass.replay.selection_file import selection_from
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Database, Row, Transaction

_NO_ID = "00000000-0000-0000-0000-000000000000"
_LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class ReplayReader:
    """Looks runs up. A role with read rights suffices."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, replay_run_id: str) -> Run | None:
        """Return a run; None if there is none of that id."""
        with self._database.reading() as tx:
            found = tx.select("replay_run", replay_run_id=replay_run_id)
            return _run(found[0]) if found else None

    def each(self, *, after: str | None = None, size: int = 100) -> list[Run]:
        """Return a page of runs, newest first."""
        with self._database.reading() as tx:
            page = tx.select("page_replay_runs", after=after, size=size)
            return [read_run(tx, row["replay_run_id"]) for row in page]

    def counts(
        self, run: Run, *, after: str | None = None, upto: str | None = None
    ) -> list[RowCount]:
        """Count the rows of a run, or those behind one of them and up to another."""
        with self._database.reading() as tx:
            rows = tx.select(
                "count_run_records",
                replay_run_id=run.order.replay_run_id,
                after=after or _NO_ID,
                upto=upto or _LAST_ID,
            )
        return [
            RowCount(
                outcome=RowOutcome(row["outcome"]),
                reason=row["reason"],
                tried=bool(row["tried"]),
                records=row["records"],
                mismatches=int(row["mismatches"] or 0),
            )
            for row in rows
        ]

    def waiting(self, run: Run) -> int:
        """Count the records that can be worked on now, or are being worked on."""
        with self._database.reading() as tx:
            off = [
                row["dataset"]
                for scope in (SwitchScope.INGEST, SwitchScope.REPLAY)
                for row in tx.select("switched_off", scope=scope.value)
            ]
            found = tx.select(
                "run_work", now=tx.now(), replay_run_id=run.order.replay_run_id, rows=off
            )
        return int(found[0]["waiting"])

    def ingest_lag_s(self) -> float:
        """Return for how long the oldest unit is due that no replay asked for."""
        with self._database.reading() as tx:
            rows = tx.select("switched_off", scope=SwitchScope.INGEST.value)
            now = tx.now()
            found = tx.select("oldest_ingest_due", now=now, rows=[r["dataset"] for r in rows])
        oldest = instant_or_none(found[0]["oldest"])
        return 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())

    def newest_in_hand(self) -> datetime | None:
        """Return when the newest message was announced that workers have in hand; None: none."""
        with self._database.reading() as tx:
            found = tx.select("newest_in_hand")
        return instant_or_none(found[0]["newest"])

    def records(
        self, replay_run_id: str, *, after: str | None = None, size: int = 500
    ) -> Iterator[RunRecord]:
        """Yield what came of each record of a run behind the given one, in order of wal_id."""
        after = after or _NO_ID
        while True:
            with self._database.reading() as tx:
                page = tx.select(
                    "run_records_page", replay_run_id=replay_run_id, after=after, size=size
                )
            for row in page:
                yield _record(row, replay_run_id)
            if len(page) < size:
                return
            after = page[-1]["wal_id"]

    def records_of_unit(self, wal_id: str) -> list[RunRecord]:
        """Return what came of a unit in each run, oldest first."""
        with self._database.reading() as tx:
            rows = tx.select("run_records_of_unit", wal_id=wal_id)
        return [_record(row, row["replay_run_id"]) for row in rows]


def read_run(tx: Transaction, replay_run_id: str) -> Run:
    """Return a run; one that is not there is an error."""
    found = tx.select("replay_run", replay_run_id=replay_run_id)
    if not found:
        raise UnknownRecord(f"there is no run {replay_run_id}", code="run_unknown")
    return _run(found[0])


def _run(row: Row) -> Run:
    kept = orjson.loads(row["selection"])
    order = NewRun(
        replay_run_id=row["replay_run_id"],
        mode=ReplayMode(row["mode"]),
        intent=Intent(row["intent"]),
        reason=row["reason"],
        selection=selection_from(kept["spec"]),
        plan_sha256=row["plan_sha256"],
        code_version=row["code_version"],
        config_version=row["config_version"],
        planned=row["planned"],
        skipped=kept["skipped"],
        expected=tuple(orjson.loads(row["expected"])),
        approval_id=row["approval_id"],
        change_ref=row["change_ref"],
        incident_ref=row["incident_ref"],
        policy_ref=row["policy_ref"],
        forced=kept["forced"],
        allow_downgrade=kept["allow_downgrade"],
    )
    return Run(
        order=order,
        actor=row["actor"],
        approvals=row["approvals"],
        started_at=instant(row["started_at"]),
        finished_at=instant_or_none(row["finished_at"]),
        applied_to=row["applied_to"],
    )


def _record(row: Row, replay_run_id: str) -> RunRecord:
    total, changes = changes_from(row["changes"])
    return RunRecord(
        replay_run_id=replay_run_id,
        wal_id=row["wal_id"],
        dataset=row["dataset"],
        version=row["version"],
        action=PlanAction(row["action"]),
        outcome=RowOutcome(row["outcome"]),
        reason=row["reason"],
        attempt_no=row["attempt_no"],
        mismatch=bool(row["mismatch"]),
        changed_fields=total,
        changes=changes,
    )
