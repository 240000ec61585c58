"""Drains on both databases: what becomes of each kind of letter."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap import draining
from tallgrass.bootstrap.datasets import open_catalogue
from tallgrass.bootstrap.draining import DeadLetterDesk, DrainOptions, DrainPlanRequest
from tallgrass.cli import dlq_view
from tallgrass.errors import ConfigError
from tallgrass.ledger.vocabulary import Intent
from tallgrass.replay import dead_letters
from tallgrass.replay.dead_letter_plan import read_plan
from tallgrass.replay.dead_letters import Cause, Wanted
from tallgrass.replay.selection import Selection
from tallgrass.storage.inventory_store import InventoryStore
from tests.intake.notifications import parsed
from tests.pipeline.scene import STORED, Pipeline, message_of, thing, things
from tests.replay.letters import EVERYTHING, Letters, kept_promises
from tests.support.backends import prepare
from tests.support.governance import state_of_tables

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.bootstrap.draining import Found
    from tests.pipeline.scene import Thing


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
