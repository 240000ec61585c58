"""Drains on both databases: what becomes of each kind of letter, and that none is ever lost."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.bootstrap import draining
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.dead_letters import (
    make_replay_queue,
    open_dead_letters,
    remove_replay_queue,
)
from tallgrass.bootstrap.drain_preparing import DrainRequest, prepare_drain
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.bootstrap.queues import open_queue
from tallgrass.cli import dlq_view
from tallgrass.errors import (
    ApprovalInvalid,
    ConfigError,
    GuardRefused,
    QueueUnreachable,
    Refused,
)
from tallgrass.governance.references import ReferenceKind
from tallgrass.ledger.vocabulary import Intent
from tallgrass.queues.replay_queues import replay_queue_url
from tallgrass.replay import dead_letters
from tallgrass.replay.dead_letter_plan import read_plan
from tallgrass.replay.dead_letters import Cause, Wanted
from tallgrass.replay.drain_report import Thresholds
from tallgrass.replay.selection import Selection
from tallgrass.storage.drain_store import DrainStore
from tallgrass.storage.inventory_store import InventoryStore
from tests.intake.notifications import parsed
from tests.oracle.replays import REPLAY_PROMISES
from tests.oracle.tables import read_tables
from tests.pipeline.scene import STORED, Pipeline, message_of, thing, things
from tests.replay.letters import EVERYTHING, Letters, twice
from tests.replay.tampering import tamper
from tests.support.backends import prepare
from tests.support.governance import state_of_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallgrass.bootstrap.draining import Found
    from tests.pipeline.scene import Thing
    from tests.support.backends import Backend


@pytest.fixture
def letters(backend: Backend, tmp_path: Path) -> Letters:
    """A pipeline of the test's own."""
    return Letters(backend, tmp_path)


def kept_promises(backend: Backend) -> list[str]:
    """Return what the oracle finds wrong with replays, from raw tables."""
    tables = read_tables(backend.connect())
    return [fault for promise in REPLAY_PROMISES for fault in promise(tables)]


def deletion() -> bytes:
    """Return a message that tells of an object that was removed."""
    return message_of(thing(70).event(name="ObjectRemoved:Delete"))


@pytest.mark.conformance("SM-5.3b", "C-21", "C-22")
def test_each_kind_of_letter_has_its_decision(letters: Letters) -> None:
    """Failed, spent, quarantined, done, in work, new, poison, ignored: each gets its own."""
    failed, spent, quarantined, done, working, new = (thing(n) for n in range(6))
    letters.fail(failed, spent, quarantined, done, working)
    pipeline = letters.pipeline
    letters.fail_again(spent, times=1)
    letters.fail_again(quarantined, times=2)
    pipeline.announce(done)
    pipeline.drain()
    pipeline.announce(working)
    busy = pipeline.start(pipeline.register("busy"))
    batch = busy.receive()
    busy.parse(batch)
    busy.record_and_claim(batch)
    letters.in_queue("DELETE FROM messages")
    pipeline.put(new)
    letters.send(message_of(new.event()), b"no message at all", deletion())
    letters.config = replace(letters.config, rules=replace(letters.config.rules, max_attempts=2))

    plan = letters.plan()
    planned = {wal_id: (r.action.value, r.reason) for r in plan.rows for wal_id, _ in r.units}
    known = (failed, spent, quarantined, done, working)
    assert [planned[pipeline.row(each)["wal_id"]] for each in known] == [
        ("replay", None),
        ("quarantine", "attempts_exceeded"),
        ("quarantine", "quarantined"),
        ("settle", "succeeded"),
        ("leave", "in_progress"),
    ]
    without_unit = {(row.action.value, row.reason) for row in plan.rows if not row.units}
    assert without_unit == {("poison", "invalid_input"), ("settle", "ignored")}
    assert letters.statuses(failed, spent) == ["failed", "failed"]

    report = letters.drain(plan)

    assert (report.planned, report.sent, report.settled, report.quarantined, report.poison) == (
        8, 2, 2, 2, 1,
    )  # fmt: skip
    assert (report.left, report.by_reason) == (1, {"in_progress": 1})
    assert len(letters.dead()) == 1
    assert letters.statuses(failed, spent, done) == ["pending", "quarantined", "succeeded"]
    (kept,) = letters.backend.rows("SELECT * FROM poison_messages")
    assert bytes(kept["body"]) == b"no message at all"
    assert letters.work() == 2
    assert letters.statuses(failed, new) == ["succeeded", "succeeded"]
    assert kept_promises(letters.backend) == []
    told = letters.backend.rows("SELECT action, subject FROM audit_log")
    actions = Counter(e["action"] for e in told if e["subject"].startswith("letter:"))
    assert actions == {
        "dlq_replay": 1, "dlq_send": 1, "dlq_settle": 2, "dlq_quarantine": 2, "dlq_poison": 1,
    }  # fmt: skip


@pytest.mark.conformance("RP-4.2c", "RP-4.2e", "WAL-1.3", "RP-4.1a")
def test_a_drained_unit_gives_what_an_untroubled_one_gives(
    letters: Letters, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Failed, mended, drained, worked on: items and provenance are those of a run without fault."""
    units = things(6)
    letters.fail(*units)
    plan = letters.plan()
    report = letters.drain(plan)
    assert (report.sent, report.left, letters.dead()) == (6, 0, [])
    rows = letters.backend.rows(
        "SELECT status, due_at, replay_reason, replay_run_id FROM wal_records"
    )
    run_id = plan.header.replay_run_id
    assert {tuple(row.values()) for row in rows} == {("pending", None, "dlq-drain", run_id)}
    assert letters.work() == 6
    drained = {name: letters.backend.rows(STORED[name]) for name in ("items", "provenance")}
    runs = letters.backend.rows(
        "SELECT DISTINCT replay_run_id FROM wal_attempts WHERE status = 'applied'"
    )
    assert runs == [{"replay_run_id": run_id}]
    done = letters.report(plan)
    assert (done.units.planned, done.units.done, done.units.due) == (6, 6, 0)
    assert (done.duplicates, done.lineage_regressions, done.units.mismatches) == (0, 0, 0)

    folder = tmp_path / "untroubled"
    folder.mkdir()
    other = prepare("sqlite", f"sqlite:///{folder / 'ledger.db'}")
    request.addfinalizer(other.close)
    untroubled = Pipeline(other, folder, max_attempts=3)
    untroubled.feed(*units)
    untroubled.drain()
    assert {name: other.rows(STORED[name]) for name in drained} == drained


class Broken(RuntimeError):
    """The process was killed here."""


def killed_at(step: str) -> Callable[[Any], Any]:
    """Return what kills the process before or after one of a drain's steps."""
    when, _, verb = step.partition("-")

    def breaking(opened: Any) -> Any:
        real = getattr(opened, verb)

        def call(*args: Any) -> Any:
            result = real(*args) if when == "after" else None
            raise Broken(step, result)

        setattr(opened, verb, call)
        return opened

    return breaking


@pytest.mark.conformance("RP-5.5")
@pytest.mark.parametrize(
    "step", ["before-send", "after-send", "before-delete", "after-delete", "before-removed"]
)
def test_a_drain_that_is_killed_loses_no_letter(
    letters: Letters, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Killed between any two steps, a message may be there twice, never not at all."""
    units = things(4)
    letters.fail(*units)
    plan = letters.plan()
    breaking = killed_at(step)
    with monkeypatch.context() as patched:
        if step.endswith("send"):
            patched.setattr(draining, "open_queue", lambda *a, **k: breaking(open_queue(*a, **k)))
        elif step.endswith("delete"):
            patched.setattr(
                draining, "open_dead_letters", lambda *a, **k: breaking(open_dead_letters(*a, **k))
            )
        else:
            patched.setattr(DrainStore, "removed", _broken)
        with pytest.raises(Broken):
            letters.drain(plan)
    # Whatever was begun: every unit has a letter or a message that leads to it.
    assert len(letters.dead()) + letters.waiting() >= 4
    assert {row["state"] for row in letters.letters(plan)} <= {"recorded", "sent"}
    free_letters(letters)

    report = letters.drain(plan)

    assert (report.planned, report.sent, report.left) == (4, 4, 0)
    assert letters.dead() == []
    assert letters.waiting() == (8 if step == "after-send" else 4)
    assert letters.work() == 4
    assert letters.statuses(*units) == ["succeeded"] * 4
    assert letters.report(plan).duplicates == 0
    assert kept_promises(letters.backend) == []


def _broken(*_: object) -> None:
    raise Broken


def free_letters(letters: Letters) -> None:
    """Let the hidden time of letters end that a killed drain held."""
    letters.in_queue("UPDATE dead_letters SET hidden_until = NULL, delivery_id = NULL")


def test_letters_that_a_drain_holds_are_not_another_ones(letters: Letters) -> None:
    """Two drains never hold the same letter; a letter that is given back can be taken again."""
    letters.fail(*things(3))
    one, other = open_dead_letters(letters.config), open_dead_letters(letters.config)
    with closing(one), closing(other):
        held = one.receive(2)
        rest = other.receive(5)
        assert len({m.message_id for m in (*held, *rest)}) == 3
        assert one.receive(5) == []
        assert other.delete([held[0].receipt.replace(".", ".x")]) == [
            held[0].receipt.replace(".", ".x")
        ]
        one.release([message.receipt for message in held])
        again = other.receive(5)
        assert {m.message_id for m in again} == {m.message_id for m in held}
        assert one.delete([held[0].receipt]) == [held[0].receipt]
        assert (one.status().visible, one.status().in_flight) == (0, 3)
        assert other.delete([message.receipt for message in again]) == []
    assert len(letters.dead()) == 1


def test_a_letter_whose_body_changed_is_left_and_told(letters: Letters) -> None:
    """What was planned and approved is not what lies there now."""
    units = things(2)
    letters.fail(*units)
    plan = letters.plan()
    letters.in_queue("UPDATE dead_letters SET body = CAST(body || ' ' AS BLOB) WHERE position = 1")
    report = letters.drain(plan)
    assert (report.sent, report.left, report.by_reason) == (1, 1, {"changed": 1})
    (left,) = letters.dead()
    assert (left["position"], left["hidden_until"]) == (1, None)
    assert sorted(letters.statuses(*units)) == ["failed", "pending"]


def test_a_unit_that_moved_since_the_plan_is_left_and_told(letters: Letters) -> None:
    """A version is compared; but a unit that is done meanwhile needs no letter any more."""
    moved, done, gone = thing(0), thing(1), thing(2)
    letters.fail(moved, done, gone)
    plan = letters.plan()
    letters.fail_again(moved)
    letters.pipeline.announce(done)
    letters.pipeline.drain()
    (name,) = [f.letter.message_id for f in letters.found() if names(f, gone, letters)]
    letters.in_queue(f"DELETE FROM dead_letters WHERE message_id = '{name}'")
    report = letters.drain(plan)
    assert (report.sent, report.settled, report.left) == (0, 1, 2)
    assert report.by_reason == {"moved": 1, "not_found": 1}
    assert letters.statuses(moved, done) == ["failed", "succeeded"]


def names(found: Found, unit: Thing, letters: Letters) -> bool:
    """Tell whether a letter names a unit."""
    wal_id = letters.pipeline.row(unit)["wal_id"]
    return wal_id in {each.wal_id for each in found.letter.parsed.units}


@pytest.mark.conformance("C-20", "SM-5.3a")
def test_what_a_lost_worker_holds_is_recovered_first(letters: Letters) -> None:
    """A message dead of a crash has a record in work; a drain frees it, and lists what is left."""
    lost, fresh = thing(0), thing(1)
    pipeline = letters.pipeline
    for each, name in ((lost, "lost"), (fresh, "fresh")):
        pipeline.feed(each)
        lease = pipeline.register(name)
        worker = pipeline.start(lease)
        batch = worker.receive()
        worker.parse(batch)
        worker.record_and_claim(batch)
        if each is lost:
            letters.backend.expire(lease)
    letters.die()
    assert letters.statuses(lost, fresh) == ["in_progress", "in_progress"]
    plan = letters.plan()
    assert {(row.action.value, row.reason) for row in plan.rows} == {
        ("recover", "lease_expired"), ("leave", "in_progress"),
    }  # fmt: skip
    report = letters.drain(plan)
    assert (report.settled, report.left, report.by_reason) == (1, 1, {"in_progress": 1})
    # Freed: the ledger runs it by its own schedule, and needs no letter for that.
    assert letters.statuses(lost, fresh) == ["pending", "in_progress"]
    assert pipeline.row(lost)["due_at"] is not None
    (left,) = [row for row in letters.letters(plan) if row["state"] == "left"]
    assert [left["message_id"]] == [each["message_id"] for each in letters.dead()]


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


def test_caps_and_batches_leave_the_rest_for_later(letters: Letters) -> None:
    """A plan has a cap, a call has one of its own; the rest waits for the next call or plan."""
    letters.fail(*things(6))
    plan = letters.plan(max_events=4)
    assert plan.by_reason == {"beyond_max_events": 2}
    report = letters.drain(plan, options=DrainOptions(max_events=1, batch=2))
    assert (report.sent, report.by_reason) == (1, {"beyond_max_events": 5})
    report = letters.drain(plan, options=DrainOptions(batch=1))
    assert (report.sent, report.left) == (4, 2)
    assert len(letters.dead()) == 2
    rest = letters.plan()
    assert letters.drain(rest).sent == 2
    assert letters.work() == 6


def test_a_rate_lets_no_more_than_a_seconds_worth_go_at_once(letters: Letters) -> None:
    """Five letters at two a second: two, two and one, with a rest after each, and no burst."""
    letters.fail(*things(5))
    waiting: list[int] = []
    options = DrainOptions(rate=2.0, sleep=lambda _: waiting.append(letters.waiting()))
    assert letters.drain(letters.plan(), options=options).sent == 5
    assert waiting == [2, 4, 5]


def test_a_letter_leaves_the_place_of_a_listed_object(letters: Letters) -> None:
    """Its unit is due by itself; an older message that comes afterwards stays older."""
    older, newer = thing(0, version=1), thing(0, version=2)
    pipeline = letters.pipeline
    pipeline.put(newer)
    (announced,) = parsed(message_of(newer.event())).units
    lister = InventoryStore(
        pipeline.stores.runner,
        pipeline.rules,
        worker_id="lister",
        run_id="11111111-1111-4111-8111-111111111111",
        intent=Intent.BACKFILL,
    )
    of_listing = replace(announced.object_ref, sequencer=None)
    lister.record_due([replace(announced, object_ref=of_listing)])
    letters.send(message_of(newer.event()))
    report = letters.drain(letters.plan())
    assert (report.sent, report.settled, letters.dead()) == (1, 0, [])
    letters.work()
    pipeline.announce(older)
    pipeline.drain()
    assert letters.statuses(newer) == ["succeeded"]
    assert pipeline.row(newer)["attempts"] == 1


def test_a_plan_is_the_same_bytes_and_changes_nothing(letters: Letters) -> None:
    """Whatever order the letters come in: rows are in order of message ids, and nothing moves."""
    letters.fail(*things(5))
    before = state_of_tables(letters.backend)
    plans = []
    for _ in range(2):
        with letters.desk() as (desk, _):
            request = DrainPlanRequest(wanted=EVERYTHING, replay_run_id="run-1")
            plans.append(b"".join(desk.plan(request).lines()))
    assert plans[0] == plans[1]
    assert (
        hashlib.sha256(plans[0]).hexdigest() == read_plan(plans[0].splitlines(keepends=True)).sha256
    )
    ids = [json.loads(line)["message_id"] for line in plans[0].splitlines()[1:]]
    assert ids == sorted(ids)
    assert state_of_tables(letters.backend) == before
    assert {letter["hidden_until"] for letter in letters.dead()} == {None}


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


@pytest.mark.conformance("RP-5.2")
def test_letters_are_sorted_by_what_the_ledger_says(letters: Letters) -> None:
    """The cause comes from the code of the unit's last error; conditions choose among letters."""
    letters.fail(*things(3))
    letters.fail(thing(10), code="stac_validation_failed")
    letters.send(b"nonsense", message_of(thing(11).event()))
    causes = Counter(found.classified.cause.value for found in letters.found())
    assert causes == {"connectivity": 3, "schema": 1, "unidentified": 1, "unknown": 1}
    one = Wanted(selection=Selection(datasets=("hrrr",)), causes=frozenset({Cause.CONNECTIVITY}))
    assert [found.classified.dataset for found in letters.found(one)] == ["hrrr"]
    # A code that is not retried by itself is sent again only if it, or its cause, is named.
    assert letters.plan().by_reason == {"code_not_replayed": 1}
    named = letters.plan(causes=(Cause.SCHEMA,))
    assert [row.action.value for row in named.rows] == ["replay"]
    assert letters.drain(named).sent == 1


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


@pytest.mark.conformance("RP-5.5", "RP-4.2e")
def test_a_run_may_have_a_queue_of_its_own(letters: Letters) -> None:
    """Made by the drain, worked off under the run's id, removed when it is empty and not before."""
    failed, new = thing(0), thing(1)
    letters.fail(failed)
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    report = letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    url = replay_queue_url(letters.config.text("queue.url"), run_id)
    assert (report.sent, letters.waiting(), letters.waiting(url)) == (2, 0, 2)
    assert remove_replay_queue(letters.config, run_id) is False
    assert letters.waiting(url) == 2
    assert letters.work(url, replay_run_id=run_id) == 2
    attempts = letters.backend.sql(
        "SELECT replay_run_id FROM wal_attempts WHERE status = 'applied'"
    )
    assert attempts == [(run_id,), (run_id,)]
    done = letters.report(plan)
    assert (done.units.planned, done.units.done) == (2, 2)
    assert remove_replay_queue(letters.config, run_id) is True
    assert not (letters.folder / f"queue-replay-{run_id}.db").exists()
    assert remove_replay_queue(letters.config, run_id) is None
    assert kept_promises(letters.backend) == []


def test_what_dies_in_the_queue_of_a_run_comes_home(letters: Letters) -> None:
    """An embedded queue of a run has dead letters of its own; they go to the main one's first."""
    letters.fail(thing(0))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    url = make_replay_queue(letters.config, run_id)
    letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    letters.in_queue(
        "INSERT INTO dead_letters (message_id, sent_at, died_at, receive_count, body)"
        " SELECT message_id, sent_at, sent_at, 1, body FROM messages",
        url,
    )
    letters.in_queue("DELETE FROM messages", url)
    assert remove_replay_queue(letters.config, run_id) is True
    assert len(letters.dead()) == 1
    assert [row.action.value for row in letters.plan().rows] == ["send"]


def test_a_stop_leaves_the_rest_as_it_is(letters: Letters) -> None:
    """Told to stop between batches, a drain gives back what it holds; the same plan goes on."""
    letters.fail(*things(4))
    plan = letters.plan()
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 2

    report = letters.drain(plan, options=DrainOptions(batch=1, stop=stop))
    assert (report.sent, report.by_reason) == (2, {"not_taken_up": 2})
    assert {letter["hidden_until"] for letter in letters.dead()} == {None}
    assert letters.drain(plan).sent == 4


def test_a_queue_that_fails_in_the_middle_loses_nothing(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that is refused leaves the letter recorded; the next call sends it."""
    letters.fail(thing(0))
    plan = letters.plan()

    def unreachable(opened: Any) -> Any:
        def send(_: object) -> None:
            raise QueueUnreachable("no answer")

        opened.send = send
        return opened

    with monkeypatch.context() as patched:
        patched.setattr(draining, "open_queue", lambda *a, **k: unreachable(open_queue(*a, **k)))
        with pytest.raises(QueueUnreachable):
            letters.drain(plan)
    assert [row["state"] for row in letters.letters(plan)] == ["recorded"]
    assert letters.report(plan).by_reason == {"not_confirmed": 1}
    # Given back by the call that failed, so that the next one finds it.
    report = letters.drain(plan)
    assert (report.sent, report.sent_again, letters.waiting()) == (1, 1, 1)


def test_the_queue_of_a_run_stays_while_units_wait_for_its_messages(letters: Letters) -> None:
    """Whatever a queue counts: the ledger knows what was sent, also of units new to it."""
    failed, new = thing(0), thing(1)
    letters.fail(failed)
    letters.pipeline.put(new)
    letters.send(message_of(new.event()))
    plan = letters.plan()
    run_id = plan.header.replay_run_id
    letters.drain(plan, options=DrainOptions(to_replay_queue=True))
    url = replay_queue_url(letters.config.text("queue.url"), run_id)
    bodies = {failed: message_of(failed.event()), new: message_of(new.event())}
    letters.in_queue("DELETE FROM messages", url)  # the queue says that it is empty
    for unit, body in bodies.items():
        with letters.desk() as (desk, _), pytest.raises(GuardRefused, match="units wait") as told:
            desk.close(desk.find(run_id), by="otto")
        assert told.value.guard == "queue_not_empty"
        with closing(open_queue(letters.config, url=url)) as queue:
            queue.send([body])
        assert letters.work(url, replay_run_id=run_id) == 1, unit
    with letters.desk() as (desk, _):
        report, removed = desk.close(desk.find(run_id), by="otto")
    assert (report.units.done, removed) == (2, True)
    assert not (letters.folder / f"queue-replay-{run_id}.db").exists()


def test_a_worker_that_is_faster_than_the_confirmation_lets_a_drain_end(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent, killed, worked off, resumed: the letter is settled and removed, and the run is done."""
    letters.fail(thing(0))
    plan = letters.plan()
    breaking = killed_at("after-send")
    with monkeypatch.context() as patched:
        patched.setattr(draining, "open_queue", lambda *a, **k: breaking(open_queue(*a, **k)))
        with pytest.raises(Broken):
            letters.drain(plan)
    assert letters.work() == 1
    free_letters(letters)
    report = letters.drain(plan)
    assert (report.settled, report.left, report.unfinished, letters.dead()) == (1, 0, 0, [])
    assert [row["state"] for row in letters.letters(plan)] == ["removed"]


def test_a_letter_that_comes_again_does_not_end_a_drain(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose hidden time ended is hidden for longer; what lies behind it is taken up."""
    letters.fail(*things(2))
    plan = letters.plan()
    letters.in_queue("UPDATE dead_letters SET body = CAST(body || ' ' AS BLOB) WHERE position = 1")
    hidden: list[float] = []

    def opened(*args: Any, **options: Any) -> Any:
        place: Any = open_dead_letters(*args, **options)
        receive, hide = place.receive, place.hide

        def receive_late(limit: int) -> Any:
            if not hidden:
                free_letters(letters)
            return receive(limit)

        def hide_told(seconds: dict[str, float]) -> None:
            hidden.extend(seconds.values())
            hide(seconds)

        place.receive, place.hide = receive_late, hide_told
        return place

    monkeypatch.setattr(draining, "open_dead_letters", opened)
    report = letters.drain(plan, options=DrainOptions(batch=1))
    assert (report.sent, report.by_reason) == (1, {"changed": 1})
    assert hidden == [2 * letters.config.number("queue.visibility_s")]
    assert [letter["hidden_until"] for letter in letters.dead()] == [None]


def test_a_letter_in_other_hands_is_not_reached(letters: Letters) -> None:
    """It is there, and is not told as missing; given back, the same plan takes it."""
    letters.fail(*things(2))
    plan = letters.plan()
    with closing(open_dead_letters(letters.config)) as other:
        held = other.receive(1)
        report = letters.drain(plan)
        other.release([message.receipt for message in held])
    assert (report.sent, report.by_reason) == (1, {"not_reached": 1})
    assert letters.drain(plan).sent == 2


def test_poison_that_would_be_cut_stays_a_letter(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were queues to take more than the store keeps, theirs would be the only whole one."""
    monkeypatch.setattr(dead_letters, "POISON_BYTES_MAX", 262_144)
    letters.send(b"x" * 262_144, b"y" * 262_145)
    report = letters.drain(letters.plan())
    assert (report.poison, report.by_reason) == (1, {"not_kept_whole": 1})
    assert [bytes(letter["body"]) for letter in letters.dead()] == [b"y" * 262_145]


def test_what_no_queue_takes_is_left_before_a_unit_is_put_back(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a body stays, and its unit as it is; a FIFO queue is refused before anything moves."""
    letters.fail(thing(0))
    plan = letters.plan()
    fifo = "arn:aws:sqs:us-east-1:000000000000:main.fifo"
    configured = letters.config
    letters.config = letters.configured(queue__url=fifo)
    with pytest.raises(ConfigError, match="FIFO"):
        letters.drain(plan)
    letters.config = configured
    assert letters.backend.rows("SELECT * FROM replay_runs") == []
    with monkeypatch.context() as patched:
        patched.setattr(draining, "is_sendable", lambda _body, *, as_text: as_text)
        assert letters.plan().by_reason == {"not_sendable": 1}
        assert letters.drain(plan).by_reason == {"not_sendable": 1}
    assert letters.statuses(thing(0)) == ["failed"]
    assert letters.drain(plan).sent == 1


def test_a_plan_of_more_letters_than_are_looked_at_says_so(
    letters: Letters, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In its header, in what is printed, and in the preview: others are there, not missing."""
    letters.fail(*things(3))
    catalogue = open_catalogue(letters.config)
    request = DrainPlanRequest(wanted=EVERYTHING)
    plans = []
    with letters.desk() as (_, stores):
        for most in (2, 3):
            desk = DeadLetterDesk(letters.config, stores, catalogue, letters_max=most)
            plans.append(desk.plan(request))
        few = DeadLetterDesk(letters.config, stores, catalogue, letters_max=1)
        fates = [fate.reason for fate in few.preview(plans[1])]
    assert [(plan.header.truncated, len(plan.rows)) for plan in plans] == [(True, 2), (False, 3)]
    assert fates == [None, "not_reached", "not_reached"]
    assert [read_plan(plan.lines()) for plan in plans] == plans
    for plan in plans:
        dlq_view.show_plan(plan, tmp_path / "plan", as_json=False)
    assert capsys.readouterr().out.count("there are more letters") == 1
    dlq_view.show_classes("queue", [], truncated=True, as_json=True)
    assert json.loads(capsys.readouterr().out)["truncated"] is True
