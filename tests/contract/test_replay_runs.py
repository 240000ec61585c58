"""Replay runs on both databases: what they write, what they leave alone, how they are resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.bootstrap.replaying import RunOptions, run_rules
from tallgrass.errors import ApprovalInvalid, GuardRefused, Refused, TallgrassError
from tallgrass.governance.references import ReferenceKind
from tallgrass.replay.plan import PlanAction
from tallgrass.replay.plan_file import read_row
from tallgrass.replay.run import RunState
from tallgrass.telemetry import names
from tests.pipeline.scene import Pipeline, stored, thing, things
from tests.replay.scene import DOWN, Replays, Unreadable
from tests.support.backends import prepare
from tests.support.governance import state_of_tables
from tests.support.recording import MemoryRecorder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.backends import Backend

#: Leaves the units to somebody else.
IDLE = RunOptions(work=False)


@pytest.mark.conformance("WAL-8.3", "WAL-8.4", "RP-4.2e", "C-04")
def test_a_failed_unit_becomes_due_for_the_run_and_nothing_else_changes(
    backend: Backend, tmp_path: Path
) -> None:
    """Status, reason, run, due time, version and stamp; no attempt is counted before the claim."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.failed(thing())
    before = replays.record(wal_id)
    report = replays.run(replays.select([wal_id]), options=IDLE)
    after = replays.record(wal_id)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {
        "status", "replay_reason", "replay_run_id", "due_at", "retry_after", "version",
        "updated_at",
    }  # fmt: skip
    assert (after["status"], after["replay_reason"]) == ("pending", "backfill")
    assert after["replay_run_id"] == report.replay_run_id
    assert (report.state, report.due, report.done) == (RunState.UNFINISHED, 1, 0)
    (edge,) = backend.rows("SELECT * FROM wal_transitions WHERE kind = 'replay'")
    assert (edge["replay_run_id"], edge["actor"]) == (report.replay_run_id, "otto")
    (run,) = backend.rows("SELECT * FROM replay_runs")
    assert (run["mode"], run["reason"], run["actor"]) == ("single", "backfill", "otto")
    assert run["finished_at"] is None


@pytest.mark.conformance("RP-4.1a", "RP-4.1b", "RP-4.2f", "RP-1.1", "WAL-7.2")
def test_ingest_single_and_range_replay_give_the_same_bytes(
    backend: Backend, tmp_path: Path
) -> None:
    """However a unit came in, items, documents and events are the same; no record is added."""
    given = things(6)
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*given)
    single = replays.run(replays.select(failed[:1]))
    ranged = replays.run(replays.select(failed[1:]))
    assert (single.done, ranged.done, ranged.planned) == (1, 5, 5)
    modes = backend.sql("SELECT mode FROM replay_runs ORDER BY mode")
    assert modes == [("range",), ("single",)]
    assert replays.count("wal_records") == 6

    (tmp_path / "ingest").mkdir()
    other = prepare("sqlite", f"sqlite:///{tmp_path / 'ingest' / 'ledger.db'}")
    ingest = Pipeline(other, tmp_path / "ingest")
    ingest.feed(*given)
    ingest.drain()
    assert stored(backend) == stored(other)
    other.close()


@pytest.mark.conformance("RP-4.2e")
def test_records_attempts_and_provenance_carry_the_run(backend: Backend, tmp_path: Path) -> None:
    """The id leads from the run to its units and back: rows, attempts, documents, journal."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*things(3))
    run_id = replays.run(replays.select(failed)).replay_run_id
    attempts = backend.sql(
        "SELECT wal_id FROM wal_attempts WHERE replay_run_id = ? ORDER BY 1", run_id
    )
    documents = backend.sql("SELECT wal_id, run FROM provenance ORDER BY 1")
    named = [
        (w,)
        for w, run in documents
        if json.loads(bytes(run))["nonDeterministic"]["replayRunId"] == run_id
    ]
    rows = replays.rows(run_id)
    assert [(row["wal_id"],) for row in rows] == attempts == named == [(w,) for w in failed]
    assert {(row["outcome"], row["attempt_no"]) for row in rows} == {("done", 2)}
    # After its success a unit is nobody's: what comes later is not the run's.
    assert backend.sql("SELECT DISTINCT replay_run_id FROM wal_records") == [(None,)]


@pytest.mark.conformance("RP-6.4")
def test_a_run_does_what_its_dry_run_said(backend: Backend, tmp_path: Path) -> None:
    """On a store that nobody changed, each row's action is what becomes of the unit."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*things(3))
    bad = replays.failed(thing(7), code="size_zero")
    done = replays.succeeded(thing(8))
    path = replays.plan_file(replays.select([*failed, *bad, *done]))
    planned = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    report = replays.run(plan_file=path)
    rows = {row["wal_id"]: row for row in replays.rows(report.replay_run_id)}
    for row in planned:
        told = rows[row["wal_id"]]
        wanted = {"replay": "done", "skip": "skipped"}[row["action"]]
        assert (told["action"], told["outcome"]) == (row["action"], wanted)
        assert told["reason"] == row.get("reason")
    assert (report.planned, report.done, report.skipped, report.failed) == (5, 3, 2, 0)
    assert report.by_reason == {"code_not_replayed": 1, "succeeded": 1}


@pytest.mark.conformance("WAL-8.6", "C-23", "RP-4.2f")
def test_the_cap_runs_so_many_and_tells_of_the_rest(backend: Backend, tmp_path: Path) -> None:
    """Of five units two run, the smaller of flag and setting; three are reported, untouched."""
    replays = Replays(backend, tmp_path, replay__max_events=2)
    failed = replays.failed(*things(5))
    before = [replays.record(w) for w in failed[2:]]
    report = replays.run(replays.select(failed, max_records=4))
    assert (report.planned, report.done, report.skipped) == (5, 2, 3)
    assert report.by_reason == {"beyond_max_events": 3}
    assert [replays.record(w) for w in failed[2:]] == before


def test_a_unit_that_moved_since_the_plan_is_left_alone(backend: Backend, tmp_path: Path) -> None:
    """Its version decides: it is skipped, and told."""
    replays = Replays(backend, tmp_path)
    moved, still = replays.failed(*things(2))
    path = replays.plan_file(replays.select([moved, still]))
    version = replays.record(moved)["version"]
    replays.people.stores.interventions.quarantine(
        [(moved, version)], reason="looks wrong", actor=replays.people.otto
    )
    before = replays.record(moved)
    report = replays.run(plan_file=path)
    assert replays.record(moved) == before
    assert (report.done, report.skipped, report.by_reason) == (1, 1, {"moved": 1})


@pytest.mark.conformance("SM-2.5", "WAL-4.5", "WAL-5.7", "SM-2.3b")
def test_routine_replay_touches_neither_succeeded_nor_quarantined_units(
    backend: Backend, tmp_path: Path
) -> None:
    """A range over all statuses skips them and says so; row, version and item stay."""
    replays = Replays(backend, tmp_path)
    failed, done = replays.failed(*things(2)), replays.succeeded(*things(2, first=2))
    held = replays.failed(thing(9))
    version = replays.record(held[0])["version"]
    replays.people.stores.interventions.quarantine(
        [(held[0], version)], reason="looks wrong", actor=replays.people.otto
    )
    before = [replays.record(w) for w in (*done, *held)]
    report = replays.run(replays.select([*failed, *done, *held]))
    assert [replays.record(w) for w in (*done, *held)] == before
    assert (report.done, report.by_reason) == (2, {"succeeded": 2, "quarantined": 1})


class TestResuming:
    """A run that was broken off goes on where it was."""

    def test_nothing_is_applied_twice(self, backend: Backend, tmp_path: Path) -> None:
        """Broken off after a batch, the rest of the plan is run, and each unit once."""
        replays = Replays(backend, tmp_path, replay__batch=2)
        failed = replays.failed(*things(5))

        def stop() -> bool:
            return replays.count("replay_run_records") >= 2

        first = replays.run(replays.select(failed), options=RunOptions(stop=stop))
        assert (first.state, first.planned, first.due) == (RunState.UNFINISHED, 5, 5)
        second = replays.run(replay_run_id=first.replay_run_id)
        assert (second.state, second.planned, second.done) == (RunState.FINISHED, 5, 5)
        assert replays.count("replay_run_records") == 5
        assert backend.sql("SELECT max(attempts), min(attempts) FROM wal_records") == [(2, 2)]
        third = replays.run(replay_run_id=first.replay_run_id)
        assert third == second

    def test_an_approved_plan_is_resumed_with_its_file_and_its_one_approval(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """The approval was used when the run was registered: the run goes on under it."""
        replays = Replays(backend, tmp_path, replay__batch=2)
        done = replays.succeeded(*things(4))
        path = replays.plan_file(replays.select(done, again=True), forced=True)
        approval = replays.approved(path)

        def stop() -> bool:
            return replays.count("replay_run_records") >= 2

        first = replays.run(plan_file=path, approval_id=approval, options=RunOptions(stop=stop))
        assert first.state is RunState.UNFINISHED
        with pytest.raises(Refused, match="give that file") as caught:
            replays.run(replay_run_id=first.replay_run_id)
        assert caught.value.code == "plan_changed"
        second = replays.run(plan_file=path, approval_id=approval)
        assert (second.state, second.done, second.mismatches) == (RunState.FINISHED, 4, 0)

    def test_an_id_stands_for_one_selection_and_one_plan(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """Another selection, or another plan, under the id of a run is refused; nothing changes."""
        replays = Replays(backend, tmp_path)
        one, other = replays.failed(*things(2))
        request = replays.request(replays.select([one]), replay_run_id="r-1")
        replays.run(request, replay_run_id="r-1", options=IDLE)
        path = replays.plan_file(replays.select([other]), replay_run_id="r-1")
        before = state_of_tables(backend)
        for wanted in (
            {"plan": replays.request(replays.select([other])), "replay_run_id": "r-1"},
            {"plan_file": path},
        ):
            with pytest.raises(Refused) as caught:
                replays.run(**wanted)
            assert caught.value.code == "plan_changed"
        assert state_of_tables(backend) == before


class TestApprovals:
    """Re-runs need an approval that was given for exactly this plan."""

    def refused(self, replays: Replays, **request: Any) -> TallgrassError:
        """Try a run; it must leave everything as it is, and stand in the log."""
        before = state_of_tables(replays.backend)
        with pytest.raises(TallgrassError) as caught:
            replays.run(**request)
        assert state_of_tables(replays.backend) == before
        log = replays.backend.sql("SELECT action FROM audit_log ORDER BY entry_id DESC LIMIT 1")
        assert log == [("replay_run_refused",)]
        return caught.value

    @pytest.mark.conformance("WAL-5.7", "C-07", "C-49", "SM-2.3b")
    def test_no_succeeded_unit_is_run_again_without_one(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """Neither by a selection nor by a plan, nor by a plan that says it needs none."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(thing())
        selection = replays.select(done, again=True)
        path = replays.plan_file(selection, forced=True)
        edited = tmp_path / "edited.jsonl"
        edited.write_bytes(
            path.read_bytes().replace(b'"approvals_needed":1', b'"approvals_needed":0')
        )
        assert edited.read_bytes() != path.read_bytes()
        for request in (
            {"plan": replays.request(selection, forced=True)},
            {"plan_file": path},
            {"plan_file": edited},
        ):
            error = self.refused(replays, **request)
            assert isinstance(error, GuardRefused)
            assert error.guard == "approval_missing"

    @pytest.mark.conformance("C-49")
    def test_a_plan_edited_after_its_approval_is_refused(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """One unit more, or another version, is another plan."""
        replays = Replays(backend, tmp_path)
        one, other = replays.succeeded(*things(2))
        path = replays.plan_file(replays.select([one], again=True), forced=True)
        approval = replays.approved(path)
        whole = replays.plan_file(
            replays.select([one, other], again=True), "whole.jsonl", forced=True
        ).read_bytes()
        path.write_bytes(path.read_bytes() + whole.splitlines(keepends=True)[-1])
        error = self.refused(replays, plan_file=path, approval_id=approval)
        assert isinstance(error, ApprovalInvalid | Refused)
        assert replays.people.stores.approvals.find(approval)[0].used_at is None

    @pytest.mark.conformance("C-49")
    def test_an_approval_is_used_once(self, backend: Backend, tmp_path: Path) -> None:
        """A second run cannot have it, whatever its name."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(thing())
        path = replays.plan_file(replays.select(done, again=True), forced=True, replay_run_id="r-1")
        approval = replays.approved(path)
        replays.run(plan_file=path, approval_id=approval)
        other = replays.plan_file(
            replays.select(done, again=True), "b.jsonl", forced=True, replay_run_id="r-2"
        )
        error = self.refused(replays, plan_file=other, approval_id=approval)
        assert error.code in {"approval_invalid", "plan_changed"}

    @pytest.mark.conformance("C-49")
    def test_an_approval_that_has_ended_is_refused(self, backend: Backend, tmp_path: Path) -> None:
        """Its time is over, by the database's clock."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(thing())
        path = replays.plan_file(replays.select(done, again=True), forced=True)
        replays.people.stores.approvals._lifetime *= 1e-9
        with pytest.raises(TallgrassError):
            replays.approved(path)  # it ends before anybody can decide
        approval = backend.sql("SELECT approval_id FROM approvals")[0][0]
        error = self.refused(replays, plan_file=path, approval_id=approval)
        assert error.code == "approval_invalid"

    @pytest.mark.conformance("RP-9.1", "RP-9.2")
    def test_a_dataset_may_want_a_sign_off_for_bulk(self, backend: Backend, tmp_path: Path) -> None:
        """Single is free, a range is not; with the sign-off it runs."""
        policies = {"goes-glm": {"replay_modes": ("single",)}}
        replays = Replays(backend, tmp_path)
        failed = replays.failed(*[thing(number) for number in range(3)])
        replays.config = replays.configured(policies)
        assert replays.run(replays.select(failed[:1])).done == 1
        rest = replays.select(failed[1:])
        error = self.refused(replays, plan=replays.request(rest))
        assert isinstance(error, GuardRefused)
        path = replays.plan_file(rest)
        single = tmp_path / "single.jsonl"
        single.write_bytes(path.read_bytes().replace(b'"mode":"range"', b'"mode":"single"'))
        assert isinstance(self.refused(replays, plan_file=single), GuardRefused)
        assert replays.run(plan_file=path, approval_id=replays.approved(path)).done == 2


class TestRunningAgain:
    """Re-runs of succeeded units, by an approved plan."""

    @pytest.mark.conformance("RP-7.4", "C-07")
    def test_what_is_as_it_should_be_is_a_hit(self, backend: Backend, tmp_path: Path) -> None:
        """No attempt, no write to record, item or document; an annotation and a count."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(*things(2))
        tables = ("wal_records", "wal_attempts", "stac_items", "provenance", "outbox")
        before = [backend.rows(f"SELECT * FROM {name} ORDER BY 1, 2") for name in tables]
        recorder = MemoryRecorder()
        report = replays.again(done, recorder=recorder)
        assert [backend.rows(f"SELECT * FROM {name} ORDER BY 1, 2") for name in tables] == before
        assert (report.planned, report.done, report.hits) == (2, 2, 2)
        notes = backend.sql("SELECT wal_id, attempt_no, kind, note FROM wal_annotations ORDER BY 1")
        assert notes == [(w, 1, "replay_hit", report.replay_run_id) for w in done]
        assert recorder.total(names.REPLAY_HITS) == 2
        assert recorder.total(names.REPLAYS) == 0

    @pytest.mark.conformance("C-07", "RP-1.1", "RP-1.2")
    def test_forced_it_is_run_and_gives_the_same(self, backend: Backend, tmp_path: Path) -> None:
        """An attempt more, version plus three, status and item as they were, no mismatch."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(*things(3))
        before, kept = {w: replays.record(w) for w in done}, stored(backend)
        recorder = MemoryRecorder()
        report = replays.again(done, forced=True, recorder=recorder)
        assert (report.done, report.hits, report.mismatches) == (3, 0, 0)
        for wal_id in done:
            row = replays.record(wal_id)
            assert (row["status"], row["attempts"]) == ("succeeded", 2)
            assert row["version"] == before[wal_id]["version"] + 3
            assert row["stac_status"] == "no-op"
        after = stored(backend)
        assert {n: after[n] for n in ("items", "provenance", "events")} == {
            n: kept[n] for n in ("items", "provenance", "events")
        }
        intents = backend.sql("SELECT DISTINCT intent FROM wal_attempts WHERE attempt_no = 2")
        assert intents == [("repair",)]
        assert recorder.by_labels(names.REPLAYS) == {
            (dataset, "backfill", "test"): 1.0 for dataset in ("goes-glm", "nexrad-l2", "hrrr")
        }

    @pytest.mark.conformance("C-07", "C-25")
    def test_a_failing_re_run_keeps_the_item_and_is_tried_again(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """It counts as failed while the ledger retries it, and as done once it succeeds."""
        replays = Replays(backend, tmp_path)
        (wal_id,) = replays.succeeded(thing())
        kept = stored(backend)["items"]
        path = replays.plan_file(replays.select([wal_id], again=True), forced=True)
        approval = replays.approved(path)
        run = replays.run(plan_file=path, approval_id=approval, options=IDLE)
        recorder = MemoryRecorder()
        stores = replays.opened(recorder)
        replays.pipeline.start(stores=stores, reader=Unreadable()).run_due()
        row = replays.record(wal_id)
        assert (row["status"], row["last_error_code"]) == ("succeeded", DOWN)
        assert stored(backend)["items"] == kept
        found = replays.people.stores.replay_runs
        (told,) = replays.rows(run.replay_run_id)
        assert (told["outcome"], told["reason"], told["attempt_no"]) == ("due", DOWN, 2)
        replays.pipeline.start(stores=stores).run_due()
        (told,) = replays.rows(run.replay_run_id)
        assert (told["outcome"], told["reason"], told["attempt_no"]) == ("done", None, 3)
        assert recorder.total(names.REPLAYS) == 1
        assert found.find(run.replay_run_id) is not None
        stores.close()

    @pytest.mark.conformance("RP-6.2")
    def test_a_gate_that_rejects_stops_a_replay_too(self, backend: Backend, tmp_path: Path) -> None:
        """A dataset whose policy rejects it is not replayed, by no kind of plan."""
        replays = Replays(backend, tmp_path)
        failed, done = replays.failed(thing(0)), replays.succeeded(thing(1))
        replays.config = replays.configured({"goes-glm": {"reject": "under review"}})
        path = replays.plan_file(replays.select([*failed, *done], again=True))
        planned = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
        assert {row.get("reason") for row in planned} == {"dataset_rejected"}
        # The plan is made to say otherwise: the gate is asked again for each unit.
        lines = path.read_bytes().replace(
            b'"action":"skip","reason":"dataset_rejected"', b'"action":"replay"'
        )
        path.write_bytes(lines)
        before = [replays.record(w) for w in (*failed, *done)]
        report = replays.run(plan_file=path)
        assert [replays.record(w) for w in (*failed, *done)] == before
        assert report.by_reason == {"dataset_rejected": 2}

    def test_reruns_ask_for_what_the_plan_is_for(self, backend: Backend, tmp_path: Path) -> None:
        """The attempts of a repair are repairs; the plan's own actions are those of its rows."""
        replays = Replays(backend, tmp_path)
        done = replays.succeeded(thing())
        path = replays.plan_file(replays.select(done, again=True), forced=True)
        (row,) = path.read_bytes().splitlines()[1:]
        assert json.loads(row)["action"] == PlanAction.RERUN
        assert json.loads(path.read_bytes().splitlines()[0])["intent"] == "repair"


@pytest.mark.conformance("WAL-7.2", "WAL-8.4")
def test_a_batch_applied_twice_changes_nothing(backend: Backend, tmp_path: Path) -> None:
    """An engine that lost the answer of its COMMIT asks again: rows that are there stay."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(*things(2))
    path = replays.plan_file(replays.select(failed))
    report = replays.run(plan_file=path, options=IDLE)
    before = state_of_tables(backend)
    stores = replays.people.stores
    run = stores.replay_runs.find(report.replay_run_id)
    assert run is not None
    policies = open_policies(replays.config)
    rules = run_rules(replays.config, policies, run, replays.people.otto)
    lines = path.read_bytes().splitlines(keepends=True)[1:]
    rows = [read_row(line, number) for number, line in enumerate(lines, start=2)]
    assert stores.replays.apply(run, rows, rules) == []
    assert state_of_tables(backend) == before


@pytest.mark.conformance("SM-7.3b")
def test_an_incident_must_be_named_and_open(backend: Backend, tmp_path: Path) -> None:
    """The reason `incident` is refused without a reference, and with one that is closed."""
    replays = Replays(backend, tmp_path)
    failed = replays.failed(thing())
    changes, otto = replays.people.stores.changes, replays.people.otto
    changes.open(ReferenceKind.INCIDENT, "INC-1", title="store down", by=otto)
    changes.open(ReferenceKind.INCIDENT, "INC-2", title="old", by=otto)
    changes.close(ReferenceKind.INCIDENT, "INC-2", resolution="mended", by=otto)
    selection = replays.select(failed)
    before = state_of_tables(backend)
    for ref, code in (
        (None, "reference_missing"),
        ("INC-2", "reference_closed"),
        ("INC-9", "reference_unknown"),
    ):
        with pytest.raises(TallgrassError) as caught:
            replays.run(replays.request(selection, reason="incident", incident_ref=ref))
        assert caught.value.code == code
        assert state_of_tables(backend) == before
    report = replays.run(replays.request(selection, reason="incident", incident_ref="INC-1"))
    assert report.done == 1
    assert backend.sql("SELECT incident_ref FROM replay_runs") == [("INC-1",)]


@pytest.mark.conformance("SM-9.3", "WAL-8.2")
@pytest.mark.parametrize(("tried", "runs"), [(2, True), (3, False), (4, False)])
def test_a_unit_at_its_limit_is_not_replayed(
    backend: Backend, tmp_path: Path, tried: int, *, runs: bool
) -> None:
    """Below the limit it runs; at it or beyond it, a plan that says otherwise changes nothing."""
    replays = Replays(backend, tmp_path)
    (wal_id,) = replays.failed(thing())
    for _ in range(tried - 1):
        replays.pipeline.announce(thing())
        replays.pipeline.start(reader=Unreadable()).run_messages()
    assert replays.record(wal_id)["attempts"] == tried
    path = replays.plan_file(replays.select([wal_id]))
    limited = replace(replays.config.rules, max_attempts=3)
    replays.config = replace(replays.config, rules=limited)
    report = replays.run(plan_file=path)
    assert report.done == runs
    assert replays.record(wal_id)["attempts"] == tried + runs
    if not runs:
        assert report.by_reason == {"attempts_exceeded": 1}
