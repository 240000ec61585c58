"""What a drain needs before anything moves, what holds it back, and when its results stop it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.drain_preparing import DrainRequest, prepare_drain
from tallgrass.bootstrap.draining import DrainOptions
from tallgrass.errors import ApprovalInvalid, GuardRefused, Refused
from tallgrass.governance.references import ReferenceKind
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.replay.drain_report import Thresholds
from tests.pipeline.scene import message_of, thing, things
from tests.replay.letters import Letters, kept_promises, twice
from tests.replay.scene import DOWN, Unreadable
from tests.replay.tampering import tamper

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.mark.conformance("RP-5.1", "RP-5.3", "RP-5.7")
@pytest.mark.parametrize(
    ("grounds", "guard"),
    [
        ({"plan": None}, "plan_missing"),
        ({"change_ref": None}, "reference_missing"),
        ({"change_ref": " \t "}, "reference_missing"),
        ({"change_ref": "CHG-2"}, "reference_not_open"),
        ({"change_ref": None, "incident_ref": "INC-1"}, "reference_not_open"),
        ({"remediation": None}, "remediation_missing"),
        ({"remediation": "  "}, "remediation_missing"),
    ],
)
def test_nothing_leaves_without_plan_reference_and_remedy(
    letters: Letters, grounds: dict[str, Any], guard: str
) -> None:
    """The library refuses as the command does; nothing moves, and the log knows who tried."""
    letters.fail(thing(0))
    changes = letters.people.stores.changes
    changes.open(ReferenceKind.CHANGE, "CHG-2", title="over", by=letters.people.otto)
    changes.close(ReferenceKind.CHANGE, "CHG-2", resolution="done", by=letters.people.otto)
    wanted = {"plan": letters.plan(), **grounds}
    with pytest.raises(GuardRefused) as refused:
        letters.drain(wanted.pop("plan"), **wanted)
    assert refused.value.guard == guard
    assert (len(letters.dead()), letters.waiting(), letters.statuses(thing(0))) == (
        1,
        0,
        ["failed"],
    )
    (entry,) = letters.backend.rows("SELECT * FROM audit_log WHERE action = 'replay_run_refused'")
    assert (entry["actor"], json.loads(entry["detail"])) == ("otto", {"guard": guard})


@pytest.mark.conformance("RP-5.7")
def test_no_store_registers_a_drain_without_grounds(letters: Letters) -> None:
    """Whoever goes past the desk meets the same refusal: the run itself needs them."""
    letters.fail(thing(0))
    plan = letters.plan()
    with letters.desk() as (_, stores):
        catalogue = open_catalogue(letters.config)
        request = DrainRequest(plan=plan, change_ref="CHG-1", remediation="x")
        order = prepare_drain(
            letters.config, stores, catalogue, request, by=letters.people.otto
        ).order
        for reference, remedy in ((None, "mended"), ("CHG-1", " ")):
            bare = replace(order, change_ref=reference)
            with pytest.raises(GuardRefused):
                stores.replays.register(bare, by=letters.people.otto, needed=0, remediation=remedy)
    assert letters.backend.rows("SELECT * FROM replay_runs") == []


def test_the_remedy_is_kept_in_the_log(letters: Letters) -> None:
    """Who drained, on what grounds, by which plan."""
    letters.fail(thing(0))
    plan = letters.plan()
    letters.drain(plan, remediation=" the endpoint is back ")
    (entry,) = letters.backend.rows("SELECT * FROM audit_log WHERE action = 'replay_run'")
    detail = json.loads(entry["detail"])
    assert detail["remediation"] == "the endpoint is back"
    assert (entry["actor"], detail["plan_sha256"]) == ("otto", plan.sha256)
    (run,) = letters.backend.rows("SELECT mode, reason, change_ref FROM replay_runs")
    assert run == {"mode": "dlq", "reason": "dlq-drain", "change_ref": "CHG-1"}


def test_a_policy_may_want_an_approval_of_a_drain(letters: Letters) -> None:
    """Where the mode dlq is not free, the plan is approved first: this plan, and once."""
    letters.config = letters.configured({"goes-glm": {"replay_modes": ["single"]}})
    letters.fail(thing(0))
    plan = letters.plan()
    assert plan.header.approvals_needed == 1
    with pytest.raises(GuardRefused) as refused:
        letters.drain(plan)
    assert refused.value.guard == "approval_missing"
    other = replace(plan, header=replace(plan.header, replay_run_id="other"))
    with pytest.raises(ApprovalInvalid):
        letters.drain(plan, approval_id=letters.approved(other))
    assert letters.statuses(thing(0)) == ["failed"]
    report = letters.drain(plan, approval_id=letters.approved(plan))
    assert (report.sent, letters.work()) == (1, 1)
    # A plan that says that it needs none is not believed.
    letters.fail(thing(1))
    forged = letters.plan()
    forged = replace(forged, header=replace(forged.header, approvals_needed=0))
    with pytest.raises(GuardRefused):
        letters.drain(forged)


def test_a_switch_holds_letters_until_it_is_back(letters: Letters) -> None:
    """Nothing is sent after the switch was seen; the same plan goes on when it is off again."""
    letters.fail(*things(3))
    plan = letters.plan()
    letters.switch(is_on=True, dataset="hrrr")
    report = letters.drain(plan)
    assert (report.sent, report.by_reason) == (2, {"kill_switch_active": 1})
    assert len(letters.dead()) == 1
    letters.switch(is_on=False, dataset="hrrr")
    report = letters.drain(plan)
    assert (report.sent, report.left, letters.dead()) == (3, 0, [])
    assert letters.work() == 3


@pytest.mark.conformance("WAL-8.7")
def test_what_was_sent_before_the_switch_does_not_start_after_it(letters: Letters) -> None:
    """Its message may go, as the ledger has it due; it waits for the switch, others go on."""
    given = things(3)
    letters.fail(*given)
    plan = letters.plan()
    letters.drain(plan)
    held = next(each for each in given if letters.pipeline.row(each)["dataset"] == "hrrr")
    letters.switch(is_on=True, dataset="hrrr")
    assert (letters.work(), letters.waiting()) == (2, 0)
    row = letters.pipeline.row(held)
    assert (row["status"], row["replay_run_id"]) == ("pending", plan.header.replay_run_id)
    assert row["due_at"] is not None
    assert letters.pipeline.worker.run_due().is_empty
    letters.switch(is_on=False, dataset="hrrr")
    assert len(letters.pipeline.worker.run_due().claims) == 1
    report = letters.report(plan)
    assert (letters.statuses(*given), report.units.done) == (["succeeded"] * 3, 3)
    assert kept_promises(letters.backend) == []


@pytest.mark.conformance("WAL-8.7")
def test_what_a_run_brings_to_the_ledger_waits_for_the_switch_too(letters: Letters) -> None:
    """A unit that is new to the ledger is the work of the run whose queue it came by."""
    new = thing(1)
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    url = replay_queue_url(letters.config.text("queue.url"), run_id)
    letters.switch(is_on=True)
    assert letters.work(url, replay_run_id=run_id) == 0
    assert (letters.waiting(url), letters.statuses(new)) == (0, ["pending"])
    assert letters.pipeline.worker.run_due().is_empty
    letters.switch(is_on=False)
    assert len(letters.pipeline.worker.run_due().claims) == 1
    report = letters.report(plan)
    assert (letters.statuses(new), report.units.done) == (["succeeded"], 1)


def test_a_plan_of_another_configuration_is_refused(letters: Letters) -> None:
    """What it was decided by must be what the drain decides by; also another plan of the run."""
    letters.fail(thing(0))
    plan = letters.plan()
    stale = replace(plan, header=replace(plan.header, config_version="0" * 16))
    with pytest.raises(Refused) as refused:
        letters.drain(stale)
    assert refused.value.code == "plan_changed"
    letters.drain(plan)
    other = replace(plan, rows=())
    with pytest.raises(Refused) as refused:
        letters.drain(other)
    assert refused.value.code == "plan_changed"


@pytest.mark.conformance("RP-5.6")
def test_a_report_counts_what_went_wrong_and_fails_beyond_it(letters: Letters) -> None:
    """Duplicates, lost lineage and mismatches, each planted by hand, each with its threshold."""
    letters.fail(*things(3))
    plan = letters.plan()
    letters.drain(plan)
    letters.work()
    run_id, backend = plan.header.replay_run_id, letters.backend
    rows = backend.sql("SELECT wal_id FROM wal_records ORDER BY wal_id")
    first, second, third = (str(row[0]) for row in rows)
    assert letters.report(plan).exceeded == ()
    twice(backend, first)
    tamper(backend, "DELETE FROM provenance WHERE wal_id = ?", second)
    mismatch(backend, run_id, third)
    found = letters.report(plan)
    assert (found.duplicates, found.lineage_regressions, found.units.mismatches) == (1, 1, 1)
    assert found.exceeded == ("duplicates", "lineage_regressions", "mismatches")
    borne = letters.report(plan, duplicates=1, lineage_regressions=1, mismatches=1)
    assert borne.exceeded == ()


def test_a_unit_that_fails_once_more_and_then_succeeds_is_done(letters: Letters) -> None:
    """Of two that failed in the run one message came again: counted apart, it fails nothing."""
    units = things(2)
    letters.fail(*units)
    plan = letters.plan()
    letters.drain(plan)
    assert letters.work(reader=Unreadable()) == 2
    failed = letters.report(plan)
    assert (failed.units.done, failed.units.failed, failed.succeeded_later) == (0, 2, 0)
    letters.pipeline.announce(units[0])
    assert letters.work() == 1
    found = letters.report(plan)
    assert (found.units.done, found.units.failed, found.succeeded_later) == (1, 1, 1)
    assert (found.units.planned, found.units.by_reason) == (2, {DOWN: 1})
    letters.pipeline.announce(units[1])
    assert letters.work() == 1
    found = letters.report(plan)
    assert (found.units.done, found.units.failed, found.succeeded_later) == (2, 0, 2)
    assert (found.units.by_reason, found.document()["succeeded_later"]) == ({}, 2)
    outcomes = letters.backend.sql("SELECT DISTINCT outcome FROM replay_run_records")
    assert outcomes == [("failed",)]  # what the run came to is final
    assert kept_promises(letters.backend) == []


@pytest.mark.conformance("RP-5.6")
def test_a_drain_stops_when_its_results_go_wrong(letters: Letters) -> None:
    """Beyond a threshold no further batch is taken; the rest stays where it is."""
    letters.fail(*things(4))
    plan = letters.plan()
    letters.drain(plan, options=DrainOptions(max_events=1, batch=1))
    letters.work()
    (done,) = letters.backend.sql("SELECT wal_id FROM replay_run_records WHERE outcome = 'done'")
    mismatch(letters.backend, plan.header.replay_run_id, str(done[0]))
    report = letters.drain(plan, options=DrainOptions(batch=1))
    assert (report.exceeded, report.sent) == (("mismatches",), 2)
    assert len(letters.dead()) == 2
    borne = DrainOptions(batch=1, borne=Thresholds(mismatches=1))
    assert letters.drain(plan, options=borne).sent == 4


def mismatch(backend: Backend, run_id: str, wal_id: str) -> None:
    """Let a record of a run have given another result, past every guard."""
    value = "1" if backend.name == "sqlite" else "true"
    tamper(
        backend,
        f"UPDATE replay_run_records SET mismatch = {value} WHERE replay_run_id = ? AND wal_id = ?",
        run_id,
        wal_id,
    )
